import { lazy, Suspense } from "react";
import { NavLink, Route, Routes } from "react-router";
import { useAllowed, useUser } from "@/api/queries";
import { number, useT } from "@/i18n";
import NotFound from "@/ui/NotFound";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { Packages } from "./Packages";
import "./wallet.css";

const Orders = lazy(() => import("./Orders"));
const Ledger = lazy(() => import("./Ledger"));
const Usage = lazy(() => import("./Usage"));
const Receipt = lazy(() => import("./Receipt"));
const Payment = lazy(() => import("./Payment"));

export default function Wallet() {
  return (
    <Suspense fallback={<Waiting />}>
      <Routes>
        <Route path="receipts/:orderId" element={<Receipt />} />
        <Route path="pay/:orderId" element={<Payment />} />
        <Route path="*" element={<Parts />} />
      </Routes>
    </Suspense>
  );
}

function Parts() {
  const t = useT();
  const me = useUser() as ReturnType<typeof useUser> & { balance?: number; frozen?: number };
  const mayBuy = useAllowed("order.create");
  return (
    <Page title={t("navWallet")} text={t("walHint")}>
      <div className="wal-balance card">
        <div>
          <span className="soft">{t("balance")}</span>
          <strong className="digits">{number(me.balance ?? 0)}</strong>
        </div>
        <div>
          <span className="soft">{t("walHeld")}</span>
          <strong className="digits">{number(me.frozen ?? 0)}</strong>
        </div>
        <p className="soft">{t("walHeldHint")}</p>
      </div>
      <nav className="wal-nav" aria-label={t("navWallet")}>
        {mayBuy ? (
          <NavLink to="/wallet" end>
            {t("walTopUp")}
          </NavLink>
        ) : null}
        {mayBuy ? <NavLink to="/wallet/orders">{t("walOrders")}</NavLink> : null}
        <NavLink to="/wallet/usage">{t("walUsage")}</NavLink>
        <NavLink to="/wallet/ledger" end>
          {t("walLedger")}
        </NavLink>
      </nav>
      <Suspense fallback={<Waiting />}>
        <Routes>
          <Route index element={mayBuy ? <Packages /> : <Ledger />} />
          <Route path="orders" element={<Orders />} />
          <Route path="usage" element={<Usage />} />
          <Route path="ledger" element={<Ledger />} />
          <Route path="*" element={<NotFound isPart />} />
        </Routes>
      </Suspense>
    </Page>
  );
}
