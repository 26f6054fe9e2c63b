import { App, Button, Form, Input, Segmented, Switch } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "react-router";
import { useUser } from "@/api/queries";
import { raw } from "@/api/raw";
import type { Me } from "@/api/types";
import { canNotify } from "@/app/notices";
import { setAppearance, useAppearance } from "@/app/theme";
import { setLanguage, useLanguage, useT, valueText } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { useSubmit } from "@/ui/forms";
import { NewPassword } from "../auth/parts";
import { Logins } from "./Logins";

type Profile = Me & { displayName?: string | null; phone?: string | null; emailNotices?: boolean; tenantName?: string };

export default function Account() {
  const t = useT();
  const me = useUser() as Profile;
  const { pathname } = useLocation();
  const logins = useRef<HTMLElement>(null);
  // The notice of a new place links to the list of sign-ins.
  useEffect(() => {
    if (pathname.endsWith("/logins")) logins.current?.scrollIntoView();
  }, [pathname]);
  return (
    <Page title={t("navAccount")} text={[me.email, me.tenantName, me.roles.map((role) => valueText("role", role)).join(", ")].filter(Boolean).join(" · ")}>
      <div className="stack loose" style={{ maxWidth: 820 }}>
        <ProfileForm me={me} />
        <PasswordForm />
        <Appearance />
        <Notices me={me} />
        <section className="stack" ref={logins} aria-labelledby="acc-logins">
          <div>
            <h2 id="acc-logins">{t("accLogins")}</h2>
            <p className="soft">{t("accLoginsHint")}</p>
          </div>
          <Logins path="/me/logins" />
        </section>
      </div>
    </Page>
  );
}

function ProfileForm({ me }: { me: Profile }) {
  const t = useT();
  const client = useQueryClient();
  const { message } = App.useApp();
  const [form] = Form.useForm<{ displayName: string }>();
  const { submit, fault, isSending } = useSubmit(form, async ({ displayName }) => {
    await raw("PATCH", "/me", { displayName: displayName.trim() || null });
    await Promise.all(["me", "users"].map((name) => client.invalidateQueries({ queryKey: [name] })));
    void message.success(t("saved"));
  });
  return (
    <section className="card" aria-labelledby="acc-profile">
      <h2 id="acc-profile" style={{ marginBottom: 14 }}>
        {t("accProfile")}
      </h2>
      <Form form={form} layout="vertical" initialValues={{ displayName: me.displayName ?? "" }} onFinish={(values) => void submit(values)}>
        <Form.Item name="displayName" label={t("accName")} rules={[{ max: 80, message: t("tooLong", { maximum: 80 }) }]}>
          <Input autoComplete="name" />
        </Form.Item>
        <Fault error={fault} />
        <Button type="primary" htmlType="submit" loading={isSending}>
          {t("save")}
        </Button>
      </Form>
    </section>
  );
}

interface Passwords {
  currentPassword: string;
  password: string;
}

function PasswordForm() {
  const t = useT();
  const [isDone, setDone] = useState(false);
  const [form] = Form.useForm<Passwords>();
  const { submit, fault, isSending } = useSubmit(
    form,
    async ({ currentPassword, password }) => {
      setDone(false);
      await raw("POST", "/me/password", { currentPassword, newPassword: password });
      form.resetFields();
      setDone(true);
    },
    { names: { newPassword: "password" }, codes: { AUTH_401_BAD_CREDENTIALS: "currentPassword" } },
  );
  return (
    <section className="card" aria-labelledby="acc-password">
      <h2 id="acc-password" style={{ marginBottom: 14 }}>
        {t("accPassword")}
      </h2>
      <Form form={form} layout="vertical" onFinish={(values) => void submit(values)}>
        <Form.Item name="currentPassword" label={t("accCurrentPassword")} rules={[{ required: true, message: t("required") }]}>
          <Input.Password autoComplete="current-password" size="large" />
        </Form.Item>
        <NewPassword label={t("newPassword")} />
        <Fault error={fault} />
        <div className="row">
          <Button type="primary" htmlType="submit" loading={isSending}>
            {t("accChangePassword")}
          </Button>
          <span role="status">{isDone ? t("accPasswordChanged") : ""}</span>
        </div>
      </Form>
    </section>
  );
}

function Appearance() {
  const t = useT();
  const client = useQueryClient();
  const language = useLanguage();
  const appearance = useAppearance();
  const [fault, setFault] = useState<unknown>(null);
  const choose = (next: "en" | "zh") => {
    setLanguage(next);
    setFault(null);
    // The language of mails; the console itself follows the choice of this browser.
    raw("PATCH", "/me", { language: next }).then(() => client.invalidateQueries({ queryKey: ["me"] }), setFault);
  };
  return (
    <section className="card stack" aria-labelledby="acc-look">
      <h2 id="acc-look">{t("accLook")}</h2>
      <div className="row">
        <span style={{ minWidth: 120 }}>{t("language")}</span>
        <Segmented<"en" | "zh"> aria-label={t("language")} value={language} onChange={choose} options={[{ value: "zh", label: "中文" }, { value: "en", label: "English" }]} />
      </div>
      <Fault error={fault} />
      <div className="row">
        <span style={{ minWidth: 120 }}>{t("theme")}</span>
        <Segmented aria-label={t("theme")} value={appearance} onChange={setAppearance} options={[{ value: "auto" as const, label: t("themeAuto") }, { value: "light" as const, label: t("themeLight") }, { value: "dark" as const, label: t("themeDark") }]} />
      </div>
    </section>
  );
}

function Notices({ me }: { me: Profile }) {
  const t = useT();
  const client = useQueryClient();
  const [fault, setFault] = useState<unknown>(null);
  const [permission, setPermission] = useState(canNotify() ? Notification.permission : "denied");
  const change = async (emailNotices: boolean) => {
    setFault(null);
    try {
      client.setQueryData(["me"], await raw("PATCH", "/me", { emailNotices }));
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <section className="card stack" aria-labelledby="acc-notices">
      <h2 id="acc-notices">{t("notices")}</h2>
      <div className="row">
        <Switch aria-label={t("accEmailNotices")} checked={me.emailNotices ?? false} onChange={(isOn) => void change(isOn)} />
        <span>{t("accEmailNotices")}</span>
      </div>
      <div className="row">
        {permission === "default" ? <Button onClick={() => void Notification.requestPermission().then(setPermission)}>{t("noticesEnable")}</Button> : <span className="soft">{t(permission === "granted" ? "accBrowserOn" : "noticesBlocked")}</span>}
      </div>
      <Fault error={fault} />
    </section>
  );
}
