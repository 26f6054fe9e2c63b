import { Button, Form, Input } from "antd";
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { session } from "@/api/session";
import { useT } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { useSubmit } from "@/ui/forms";
import { Waiting } from "@/ui/Waiting";
import { AuthLayout } from "./AuthLayout";
import { NewPassword } from "./parts";

interface Values {
  displayName?: string;
  password: string;
}

export default function Invitation() {
  const t = useT();
  const navigate = useNavigate();
  const [search] = useSearchParams();
  const token = search.get("token");
  const [form] = Form.useForm<Values>();
  const found = useQuery({
    queryKey: ["invitation", token],
    enabled: token !== null,
    queryFn: () => call(api.POST("/api/v1/auth/invitations/look", { body: { token: token ?? "" } })),
  });
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    const body = { token: token ?? "", password: values.password, ...(values.displayName?.trim() ? { displayName: values.displayName.trim() } : {}) };
    session.open(await call(api.POST("/api/v1/auth/invitations/accept", { body })));
    void navigate("/", { replace: true });
  });
  if (token === null) return <Navigate to="/login" replace />;
  if (found.isPending) return <Waiting isWhole />;
  if (!found.data)
    return (
      <AuthLayout title={t("linkInvalid")} text={t("linkAskInviter")}>
        <Link to="/login">{t("backToSignIn")}</Link>
      </AuthLayout>
    );
  return (
    <AuthLayout title={t("invitationTitle", { shop: found.data.tenantName })} text={t("invitationHint", { email: found.data.email })}>
      <Form form={form} layout="vertical" size="large" onFinish={(values) => void submit(values)}>
        <Form.Item name="displayName" label={t("yourName")} rules={[{ max: 80, message: t("tooLong", { maximum: 80 }) }]}>
          <Input autoComplete="name" />
        </Form.Item>
        <NewPassword />
        <div className="stack">
          <Fault error={fault} />
          <Button type="primary" htmlType="submit" block loading={isSending}>
            {t("invitationAccept")}
          </Button>
        </div>
      </Form>
    </AuthLayout>
  );
}
