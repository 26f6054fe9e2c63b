import type { ReactNode } from "react";

/** What a page shows when it has nothing: what belongs here, and the next step. */
export function Empty({ icon, title, text, children }: { icon: ReactNode; title: string; text?: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <div className="art" aria-hidden="true">
        {icon}
      </div>
      <h2>{title}</h2>
      {text ? <p>{text}</p> : null}
      {children}
    </div>
  );
}
