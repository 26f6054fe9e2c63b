import { Form, Input } from "antd";
import { Navigate, useSearchParams } from "react-router";
import { ApiError } from "@/api/errors";
import { errorText } from "@/api/dictionaries";
import { useSessionUser } from "@/api/session";
import { duration, translate, useT } from "@/i18n";

/** Where to go after the sign-in: the page that was asked for. Only addresses of this console. */
export function useNext(): string {
  const [search] = useSearchParams();
  const next = search.get("next") ?? "/";
  return next.startsWith("/") && !next.startsWith("//") ? next : "/";
}

export function SignedInAlready() {
  const user = useSessionUser();
  const next = useNext();
  return user ? <Navigate to={next} replace /> : null;
}

export function NewPassword({ name = "password", label }: { name?: string; label?: string }) {
  const t = useT();
  return (
    <Form.Item
      name={name}
      label={label ?? t("password")}
      extra={t("passwordHint")}
      rules={[
        { required: true, message: t("required") },
        { min: 8, message: t("tooShort", { minimum: 8 }) },
        { max: 128, message: t("tooLong", { maximum: 128 }) },
      ]}
    >
      <Input.Password autoComplete="new-password" size="large" />
    </Form.Item>
  );
}

export function signInFault(error: unknown): string {
  if (error instanceof ApiError && error.status === 429 && error.retryAfter) return translate("tooManyAttempts", { wait: duration(error.retryAfter) });
  return errorText(error);
}
