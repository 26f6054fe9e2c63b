import { ApiOutlined, AppstoreOutlined, CalendarOutlined, DashboardOutlined, EditOutlined, PictureOutlined, TeamOutlined, WalletOutlined } from "@ant-design/icons";
import type { ReactNode } from "react";
import type { Me } from "@/api/types";
import type { Word } from "@/i18n/words";

export interface Entry {
  path: string;
  title: Word;
  icon: ReactNode;
  /** Other addresses that belong to this entry. */
  also?: RegExp;
  /** One of these permissions opens the page; none means everybody. */
  permissions?: string[];
}

export const ENTRIES: Entry[] = [
  { path: "/", title: "navStudio", icon: <AppstoreOutlined />, also: /^\/studio\//, permissions: ["task.submit"] },
  { path: "/library", title: "navLibrary", icon: <PictureOutlined />, also: /^\/tasks\//, permissions: ["task.read"] },
  { path: "/text", title: "navText", icon: <EditOutlined />, permissions: ["task.submit"] },
  { path: "/wallet", title: "navWallet", icon: <WalletOutlined />, permissions: ["points.read"] },
  { path: "/team", title: "navTeam", icon: <TeamOutlined />, permissions: ["user.manage"] },
  { path: "/jobs", title: "navJobs", icon: <CalendarOutlined />, permissions: ["job.read"] },
  { path: "/developers", title: "navDevelopers", icon: <ApiOutlined /> },
  { path: "/ops", title: "navOps", icon: <DashboardOutlined />, permissions: ["ops.read"] },
];

export const isOpenTo = (entry: Entry, me: Me): boolean => !entry.permissions || entry.permissions.some((one) => me.permissions.includes(one));

export const isCurrent = (entry: Entry, pathname: string): boolean => pathname === entry.path || (entry.path !== "/" && pathname.startsWith(`${entry.path}/`)) || (entry.also?.test(pathname) ?? false);
