import { Alert, Button, Form, Input } from "antd";
import { useEffect, useState } from "react";
import { Link, useLocation } from "react-router";
import { api, call } from "@/api/client";
import { session } from "@/api/session";
import { useT } from "@/i18n";
import { useSubmit } from "@/ui/forms";
import { AuthLayout } from "./AuthLayout";
import { SignedInAlready, signInFault } from "./parts";

interface Values {
  login: string;
  password: string;
}

export default function Login() {
  const t = useT();
  const { search, state } = useLocation();
  const [form] = Form.useForm<Values>();
  const [ending] = useState(session.ending);
  useEffect(() => session.acknowledge(), []);
  const { submit, fault, isSending } = useSubmit(form, async (values) => session.open(await call(api.POST("/api/v1/auth/login", { body: values }))));
  const done = (state as { done?: string } | null)?.done;
  return (
    <AuthLayout title={t("signInTitle")} text={t("signInHint")}>
      <SignedInAlready />
      {ending ? <Alert style={{ marginBottom: 18 }} role="status" type={ending === "ended" ? "warning" : "info"} showIcon title={t(ending === "ended" ? "sessionEnded" : "signedOut")} /> : null}
      {done === "reset" ? <Alert style={{ marginBottom: 18 }} role="status" type="success" showIcon title={t("resetDone")} /> : null}
      <Form form={form} layout="vertical" onFinish={(values) => void submit(values)} size="large">
        <Form.Item name="login" label={t("loginField")} rules={[{ required: true, message: t("required") }]}>
          <Input autoComplete="username" inputMode="email" />
        </Form.Item>
        <Form.Item name="password" label={t("password")} rules={[{ required: true, message: t("required") }]} validateStatus={fault ? "error" : undefined} help={fault ? <span role="alert">{signInFault(fault)}</span> : undefined}>
          <Input.Password autoComplete="current-password" />
        </Form.Item>
        <Button type="primary" htmlType="submit" block loading={isSending}>
          {t("signIn")}
        </Button>
      </Form>
      <p className="auth-foot row between">
        <Link to="/forgot">{t("forgot")}</Link>
        <span>
          {t("noAccount")} <Link to={`/register${search}`}>{t("signUp")}</Link>
        </span>
      </p>
    </AuthLayout>
  );
}
