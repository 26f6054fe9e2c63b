import { useEffect, type ReactNode } from "react";

/** Title, a sentence, actions on the right; also sets the title of the browser's tab. */
export function Page({ title, text, actions, children }: { title: string; text?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  useTitle(title);
  return (
    <>
      <div className="page-head">
        <div>
          <h1>{title}</h1>
          {text ? <p>{text}</p> : null}
        </div>
        {actions ? <div className="row">{actions}</div> : null}
      </div>
      {children}
    </>
  );
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Artiway`;
  }, [title]);
}
