import { Alert, Button } from "antd";
import { ApiError } from "@/api/errors";
import { errorText } from "@/api/dictionaries";
import { useT } from "@/i18n";

/** An error where it happened, in the user's language, with a way on. */
export function Fault({ error, retry }: { error: unknown; retry?: () => void }) {
  const t = useT();
  if (!error) return null;
  const request = error instanceof ApiError && error.status >= 500 ? error.requestId : null;
  return (
    <Alert
      type="error"
      showIcon
      role="alert"
      title={errorText(error)}
      description={request ? t("requestId", { id: request }) : undefined}
      action={
        retry ? (
          <Button size="small" onClick={retry}>
            {t("retry")}
          </Button>
        ) : undefined
      }
    />
  );
}
