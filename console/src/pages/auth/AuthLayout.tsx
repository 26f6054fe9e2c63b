import { CheckCircleOutlined } from "@ant-design/icons";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { useT } from "@/i18n";
import { useTitle } from "@/ui/Page";
import { LanguageSwitch, ThemeSwitch } from "@/ui/Switches";

export function AuthLayout({ title, text, children }: { title: string; text?: ReactNode; children: ReactNode }) {
  const t = useT();
  useTitle(title);
  return (
    <div className="auth">
      <aside className="auth-side" aria-label="Artiway">
        <Link className="brand" to="/login">
          <img src="/icon.svg" alt="" width="32" height="32" />
          Artiway
        </Link>
        <div>
          <h2>{t("slogan")}</h2>
          <p>{t("sloganText")}</p>
        </div>
        <ul>
          {(["promise1", "promise2", "promise3"] as const).map((word) => (
            <li key={word}>
              <CheckCircleOutlined aria-hidden="true" />
              {t(word)}
            </li>
          ))}
        </ul>
      </aside>
      <div className="auth-main">
        <div className="auth-tools">
          <LanguageSwitch />
          <ThemeSwitch />
        </div>
        <main className="auth-form" tabIndex={-1}>
          <h1>{title}</h1>
          {text ? <p>{text}</p> : null}
          {children}
        </main>
      </div>
    </div>
  );
}
