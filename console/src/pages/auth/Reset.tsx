import { Button, Form, Input } from "antd";
import { Link, useNavigate, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { session } from "@/api/session";
import { useT } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { useSubmit } from "@/ui/forms";
import { AuthLayout } from "./AuthLayout";
import { NewPassword } from "./parts";

interface Values {
  password: string;
  repeat: string;
}

export default function Reset() {
  const t = useT();
  const navigate = useNavigate();
  const [search] = useSearchParams();
  const [form] = Form.useForm<Values>();
  const { submit, fault, isSending } = useSubmit(form, async ({ password }) => {
    await call(api.POST("/api/v1/auth/password/reset", { body: { token: search.get("token") ?? "", password } }));
    if (session.tokens) session.close("signed-out");
    session.acknowledge();
    void navigate("/login", { state: { done: "reset" }, replace: true });
  });
  return (
    <AuthLayout title={t("resetTitle")} text={t("resetHint")}>
      <Form form={form} layout="vertical" size="large" onFinish={(values) => void submit(values)}>
        <NewPassword label={t("newPassword")} />
        <Form.Item
          name="repeat"
          label={t("repeatPassword")}
          dependencies={["password"]}
          rules={[
            { required: true, message: t("required") },
            ({ getFieldValue }) => ({ validator: (_, value) => (!value || value === getFieldValue("password") ? Promise.resolve() : Promise.reject(new Error(t("notSame")))) }),
          ]}
        >
          <Input.Password autoComplete="new-password" />
        </Form.Item>
        <div className="stack">
          <Fault error={fault} />
          <Button type="primary" htmlType="submit" block loading={isSending}>
            {t("resetSave")}
          </Button>
        </div>
      </Form>
      <p className="auth-foot">
        <Link to="/forgot">{t("linkAskAgain")}</Link>
      </p>
    </AuthLayout>
  );
}
