import { Alert, Button, Form, Input } from "antd";
import { useState } from "react";
import { Link } from "react-router";
import { api, call } from "@/api/client";
import { useLanguage, useT } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { useSubmit } from "@/ui/forms";
import { AuthLayout } from "./AuthLayout";

export default function Forgot() {
  const t = useT();
  const language = useLanguage();
  const [form] = Form.useForm<{ login: string }>();
  const [sent, setSent] = useState<string | null>(null);
  const { submit, fault, isSending } = useSubmit(form, async ({ login }) => {
    await call(api.POST("/api/v1/auth/password/forgot", { body: { login, language } }));
    setSent(login);
  });
  return (
    <AuthLayout title={t("forgotTitle")} text={t("forgotHint")}>
      {sent === null ? (
        <Form form={form} layout="vertical" size="large" onFinish={(values) => void submit(values)}>
          <Form.Item name="login" label={t("loginField")} rules={[{ required: true, message: t("required") }]}>
            <Input autoComplete="username" inputMode="email" />
          </Form.Item>
          <div className="stack">
            <Fault error={fault} />
            <Button type="primary" htmlType="submit" block loading={isSending}>
              {t("forgotSend")}
            </Button>
          </div>
        </Form>
      ) : (
        <Alert type="success" showIcon role="status" title={t("forgotSent", { login: sent })} />
      )}
      <p className="auth-foot">
        <Link to="/login">{t("backToSignIn")}</Link>
      </p>
    </AuthLayout>
  );
}
