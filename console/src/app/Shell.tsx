import { BellOutlined, LogoutOutlined, MenuOutlined, UserOutlined } from "@ant-design/icons";
import { App, Badge, Button, Drawer, Dropdown, Popover } from "antd";
import { useCallback, useEffect, useRef, useState } from "react";
import { Link, NavLink, Outlet, useLocation, useNavigate } from "react-router";
import { api, call } from "@/api/client";
import { useConnection } from "@/api/connection";
import { label, useDictionaries } from "@/api/dictionaries";
import { queries, useMe } from "@/api/queries";
import { session } from "@/api/session";
import { useSocket, type TaskEvent } from "@/api/socket";
import type { Me, TaskView } from "@/api/types";
import { number, points, relative, translate, useT } from "@/i18n";
import { Act } from "@/ui/Act";
import { Fault } from "@/ui/Fault";
import { placeText } from "@/ui/place";
import { LanguageSwitch, ThemeSwitch } from "@/ui/Switches";
import { Waiting } from "@/ui/Waiting";
import { ENTRIES, isCurrent, isOpenTo } from "./navigation";
import { canNotify, notices, notifyBrowser, useNotices, type Notice } from "./notices";
import { useLiveTasks } from "./tasks";

/** The frame of every page: navigation, balance, notices, the one socket. */
export default function Shell() {
  const me = useMe();
  useDictionaries();
  if (me.data) return <Frame me={me.data} />;
  if (me.error)
    return (
      <div className="content">
        <Fault error={me.error} retry={() => void me.refetch()} />
      </div>
    );
  return <Waiting isWhole />;
}

async function signOut(): Promise<void> {
  await call(api.POST("/api/v1/auth/logout")).catch(() => undefined);
  session.close("signed-out");
}

export const noticeText = (status: string, tool: string): string =>
  translate(status === "COMPLETED" ? "noticeReady" : status === "PARTIAL" ? "noticePartial" : "noticeFailed", { tool });

const toolName = (tool: string): string => label("tools", tool) ?? translate("navStudio");

function Frame({ me }: { me: Me }) {
  const t = useT();
  const navigate = useNavigate();
  const { notification } = App.useApp();
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const isFirst = useRef(true);
  useSocket();

  const ended = useCallback(
    (event: TaskEvent) => {
      if (event.status === "CANCELLED") return;
      const tool = queries.getQueryData<TaskView>(["task", event.taskId])?.tool ?? taskTool(event.taskId) ?? "";
      const notice: Notice = { id: `${event.taskId}:${event.status}`, taskId: event.taskId, tool, status: event.status ?? "", at: Date.now() };
      notices.add(notice);
      const open = () => {
        notification.destroy(notice.id);
        void navigate(`/tasks/${event.taskId}`);
      };
      const text = noticeText(notice.status, toolName(tool));
      notification.open({
        key: notice.id,
        title: text,
        role: "status",
        duration: 8,
        actions: (
          <Button type="primary" size="small" onClick={open}>
            {translate("noticeOpen")}
          </Button>
        ),
      });
      notifyBrowser(text, open);
    },
    [navigate, notification],
  );
  useLiveTasks(ended);

  // After a change of page the focus goes to the content; a redraw never moves it.
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else {
      main.current?.focus({ preventScroll: true });
      window.scrollTo({ top: 0 });
    }
  }, [pathname]);

  const entries = ENTRIES.filter((entry) => isOpenTo(entry, me));
  return (
    <div className="frame">
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t("skip")}
      </a>
      <header className="side">
        <Link className="brand" to="/">
          <img src="/icon.svg" alt="" width="30" height="30" />
          Artiway
        </Link>
        <nav aria-label={t("navMain")}>
          <ul className="nav">
            {entries.map((entry) => (
              <li key={entry.path}>
                <Link to={entry.path} aria-current={isCurrent(entry, pathname) ? "page" : undefined}>
                  <span aria-hidden="true">{entry.icon}</span>
                  {t(entry.title)}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <Purse me={me} />
      </header>
      <div className="main">
        <div className="top">
          <Link className="brand phone-only" to="/">
            <img src="/icon.svg" alt="" width="26" height="26" />
            <span className="visually-hidden">Artiway</span>
          </Link>
          {me.permissions.includes("points.read") ? (
            <Link className="tag phone-only digits" to="/wallet">
              {points(me.balance ?? 0)}
            </Link>
          ) : null}
          <div className="row" style={{ gap: 2, flexWrap: "nowrap" }}>
            <Bell />
            <span className="desk-only">
              <LanguageSwitch />
            </span>
            <ThemeSwitch />
            <AccountMenu me={me} />
          </div>
        </div>
        <Lines me={me} />
        <main className="content" id="main" tabIndex={-1} ref={main}>
          <Outlet />
        </main>
      </div>
      <Tabs me={me} />
    </div>
  );
}

/** The tool of a task that a list in the cache shows. */
function taskTool(taskId: string): string | undefined {
  for (const [, data] of queries.getQueriesData<{ pages?: { items: { taskId: string; tool: string }[] }[] }>({ queryKey: ["tasks"] }))
    for (const page of data?.pages ?? []) {
      const found = page.items.find((task) => task.taskId === taskId);
      if (found) return found.tool;
    }
  return undefined;
}

function Purse({ me }: { me: Me }) {
  const t = useT();
  const { balance } = me;
  const frozen = me.frozen ?? 0;
  if (!me.permissions.includes("points.read") || balance === null) return null;
  return (
    <div className="purse">
      <span className="soft">{t("balance")}</span>
      <strong className="digits" data-testid="balance">
        {number(balance)}
      </strong>
      {frozen > 0 ? <span className="soft digits">{t("balanceHeld", { points: points(frozen) })}</span> : null}
      <Link to="/wallet">{t("topUp")}</Link>
    </div>
  );
}

function Lines({ me }: { me: Me }) {
  const t = useT();
  const state = useConnection();
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    // A short wait is no news.
    const timer = setTimeout(() => setLate(state === "retrying"), state === "retrying" ? 1500 : 0);
    return () => clearTimeout(timer);
  }, [state]);
  const dismiss = async () => {
    await call(api.PATCH("/api/v1/me", { body: { seenLogins: true } }));
    await queries.invalidateQueries({ queryKey: ["me"] });
  };
  return (
    <div aria-live="polite">
      {state === "offline" ? <div className="line">{t("offline")}</div> : state === "retrying" && isLate ? <div className="line">{t("retrying")}</div> : null}
      {me.newPlaceLogin ? (
        <div className="line">
          {t("newPlace", { place: placeText(me.newPlaceLogin.location), time: relative(me.newPlaceLogin.at) })}
          <Link to="/account/logins">{t("newPlaceSee")}</Link>
          <Act text={t("newPlaceMe")} run={dismiss} />
        </div>
      ) : null}
      {me.lowBalance ? (
        <div className="line info">
          {t("lowBalance", { points: points(me.balance ?? 0) })}
          <Link to="/wallet">{t("topUp")}</Link>
        </div>
      ) : null}
    </div>
  );
}

function Bell() {
  const t = useT();
  const items = useNotices();
  const [isOpen, setOpen] = useState(false);
  const [permission, setPermission] = useState(canNotify() ? Notification.permission : "denied");
  return (
    <Popover
      trigger="click"
      placement="bottomRight"
      open={isOpen}
      onOpenChange={setOpen}
      title={t("notices")}
      content={
        <div className="stack tight" style={{ width: 300, maxWidth: "80vw" }}>
          {items.length === 0 ? <p className="soft">{t("noticesEmpty")}</p> : null}
          {items.map((one) => (
            <Link key={one.id} to={`/tasks/${one.taskId}`} onClick={() => (setOpen(false), notices.remove(one.taskId))}>
              {noticeText(one.status, toolName(one.tool))} · <span className="soft">{relative(new Date(one.at).toISOString())}</span>
            </Link>
          ))}
          {items.length ? (
            <Button size="small" onClick={notices.clear}>
              {t("markRead")}
            </Button>
          ) : null}
          {permission === "default" ? (
            <Button size="small" onClick={() => void Notification.requestPermission().then(setPermission)}>
              {t("noticesEnable")}
            </Button>
          ) : null}
        </div>
      }
    >
      <Button type="text" aria-label={`${t("notices")} (${items.length})`} icon={<Badge count={items.length} size="small"><BellOutlined style={{ fontSize: 17 }} /></Badge>} />
    </Popover>
  );
}

function AccountMenu({ me }: { me: Me }) {
  const t = useT();
  const navigate = useNavigate();
  return (
    <Dropdown
      // eslint-disable-next-line jsx-a11y/no-autofocus -- a menu that opens takes the focus, for the arrow keys
      autoFocus
      trigger={["click"]}
      placement="bottomRight"
      menu={{
        items: [
          { key: "who", type: "group", label: me.email ?? me.userId },
          { key: "account", icon: <UserOutlined />, label: t("navAccount"), onClick: () => void navigate("/account") },
          { key: "out", icon: <LogoutOutlined />, label: t("signOut"), onClick: () => void signOut() },
        ],
      }}
    >
      <Button type="text" aria-label={t("accountMenu")} icon={<UserOutlined style={{ fontSize: 17 }} />} />
    </Dropdown>
  );
}

const MOST_TABS = 4;

/** The navigation of a phone: the first pages at the bottom edge, the others behind "More". */
function Tabs({ me }: { me: Me }) {
  const t = useT();
  const { pathname } = useLocation();
  const [isOpen, setOpen] = useState(false);
  const entries = ENTRIES.filter((entry) => isOpenTo(entry, me));
  const first = entries.slice(0, MOST_TABS - 1);
  const rest = entries.slice(MOST_TABS - 1);
  return (
    <nav aria-label={t("navMain")} className="phone-only">
      <ul className="tabs">
        {first.map((entry) => (
          <li key={entry.path}>
            <Link to={entry.path} aria-current={isCurrent(entry, pathname) ? "page" : undefined}>
              <span aria-hidden="true">{entry.icon}</span>
              {t(entry.title)}
            </Link>
          </li>
        ))}
        <li>
          <button type="button" onClick={() => setOpen(true)} aria-haspopup="dialog">
            <MenuOutlined aria-hidden="true" />
            {t("navMore")}
          </button>
        </li>
      </ul>
      <Drawer title={t("navMore")} placement="bottom" open={isOpen} onClose={() => setOpen(false)} size="auto">
        <ul className="nav">
          {rest.map((entry) => (
            <li key={entry.path}>
              <NavLink to={entry.path} onClick={() => setOpen(false)}>
                <span aria-hidden="true">{entry.icon}</span>
                {t(entry.title)}
              </NavLink>
            </li>
          ))}
          <li>
            <NavLink to="/account" onClick={() => setOpen(false)}>
              <UserOutlined aria-hidden="true" />
              {t("navAccount")}
            </NavLink>
          </li>
        </ul>
        <LanguageSwitch />
      </Drawer>
    </nav>
  );
}
