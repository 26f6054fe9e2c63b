import { Alert } from "antd";
import { useT } from "@/i18n";
import { Copy } from "./Copy";

/** A secret that is shown once. */
export function Secret({ title, text, secret }: { title: string; text: string; secret: string }) {
  const t = useT();
  return (
    <Alert
      type="success"
      showIcon
      role="status"
      title={title}
      description={
        <div className="stack tight">
          <span>{text}</span>
          <div className="row">
            <code className="dev-secret" data-testid="secret">
              {secret}
            </code>
            <Copy text={secret} name={t("copy")} />
          </div>
        </div>
      }
    />
  );
}
