import { Button, Form, Input } from "antd";
import { Link, useLocation } from "react-router";
import { api, call } from "@/api/client";
import { session } from "@/api/session";
import { useT } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { useSubmit } from "@/ui/forms";
import { AuthLayout } from "./AuthLayout";
import { NewPassword, SignedInAlready } from "./parts";

interface Values {
  tenantName: string;
  email: string;
  password: string;
}

export default function Register() {
  const t = useT();
  const { search } = useLocation();
  const [form] = Form.useForm<Values>();
  const { submit, fault, isSending } = useSubmit(form, async (values) => session.open(await call(api.POST("/api/v1/auth/register", { body: values }))), { codes: { AUTH_409_LOGIN_TAKEN: "email" } });
  return (
    <AuthLayout title={t("signUpTitle")} text={t("signUpHint")}>
      <SignedInAlready />
      <Form form={form} layout="vertical" size="large" onFinish={(values) => void submit(values)}>
        <Form.Item name="tenantName" label={t("shopName")} rules={[{ required: true, whitespace: true, message: t("required") }, { max: 200, message: t("tooLong", { maximum: 200 }) }]}>
          <Input autoComplete="organization" />
        </Form.Item>
        <Form.Item name="email" label={t("email")} validateTrigger="onBlur" rules={[{ required: true, message: t("required") }, { type: "email", message: t("invalidEmail") }]}>
          <Input autoComplete="email" inputMode="email" />
        </Form.Item>
        <NewPassword />
        <div className="stack">
          <Fault error={fault} />
          <Button type="primary" htmlType="submit" block loading={isSending}>
            {t("signUp")}
          </Button>
        </div>
      </Form>
      <p className="auth-foot">
        {t("haveAccount")} <Link to={`/login${search}`}>{t("signIn")}</Link>
      </p>
    </AuthLayout>
  );
}
