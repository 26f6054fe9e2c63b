import { dateTime, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { usePaged } from "@/ui/lists";
import { placeText } from "@/ui/place";

interface Login {
  loginId: string;
  method: string;
  address: string;
  location: string | null;
  at: string;
  isNewPlace: boolean;
}

/** The sign-ins of a person with place and time. */
export function Logins({ path }: { path: string }) {
  const t = useT();
  const found = usePaged<Login>(["logins", path], path);
  return (
    <DataTable<Login>
      label={t("accLogins")}
      source={found}
      rowKey={(login) => login.loginId}
      empty={t("accNoLogins")}
      columns={[
        { title: t("accWhen"), cell: (login) => dateTime(login.at) },
        {
          title: t("accPlace"),
          cell: (login) => (
            <>
              {placeText(login.location)} {login.isNewPlace ? <span className="tag warn">{t("accNewPlace")}</span> : null}
            </>
          ),
        },
        { title: t("accAddress"), cell: (login) => <code>{login.address}</code> },
        { title: t("accMethod"), cell: (login) => valueText("login", login.method) },
      ]}
    />
  );
}
