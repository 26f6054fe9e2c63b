import { LockOutlined } from "@ant-design/icons";
import type { ReactNode } from "react";
import { useUser } from "@/api/queries";
import { useT } from "@/i18n";
import { Empty } from "@/ui/Empty";

/** The children, for users who have one of the permissions. */
export function Allowed({ permissions, children }: { permissions?: string[]; children: ReactNode }) {
  const me = useUser();
  const t = useT();
  if (!permissions || permissions.some((one) => me.permissions.includes(one))) return children;
  return <Empty isPage icon={<LockOutlined />} title={t("notAllowed")} text={t("notAllowedText")} />;
}
