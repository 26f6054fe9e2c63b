import type { ReactNode } from "react";

/** What a page shows when it has nothing: what belongs here, and the next step. With `isPage` there is nothing else. */
export function Empty({ icon, title, text, isPage = false, children }: { icon: ReactNode; title: string; text?: string; isPage?: boolean; children?: ReactNode }) {
  return (
    <div className="empty">
      <div className="art" aria-hidden="true">
        {icon}
      </div>
      {isPage ? <h1>{title}</h1> : <h2>{title}</h2>}
      {text ? <p>{text}</p> : null}
      {children}
    </div>
  );
}
