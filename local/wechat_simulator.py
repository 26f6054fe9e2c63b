"""A simulator of WeChat Pay v3. It verifies requests, signs responses and causes the faults that a test asks for.

The platform does not know it: base address and keys come from the merchant's secret. `/` is a page for payments by
hand, `/sim/*` is the same as JSON, `/v3/` is the WeChat Pay protocol.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import ClientSession, ClientTimeout, web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from local.wechat_bill import BillSettings, make_bill
from local.wechat_keys import CLOCK_SKEW_S, Keys, Signer, load_key
from local.wechat_notifications import SHANGHAI, Notifications, random_digits, stamp

PAGE = Path(__file__).with_name("wechat_pay.html")
_PREPAY_FIELDS = {
    "appid", "mchid", "description", "out_trade_no", "time_expire", "attach", "notify_url", "goods_tag", "settle_info",
    "support_fapiao", "amount", "payer", "detail", "scene_info",
}  # fmt: skip
_REFUND_FIELDS = {"transaction_id", "out_trade_no", "out_refund_no", "reason", "notify_url", "amount", "goods_detail"}
_NUMBER = re.compile(r"[0-9A-Za-z_|*-]{6,32}")
Json = dict[str, Any]


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message or code


@dataclass
class Trade:
    """An order at WeChat Pay."""

    number: str
    channel: str
    body: Json
    created_at: str
    state: str = "NOTPAY"
    transaction_id: str = ""
    success_time: str = ""
    payer_total: int = 0
    openid: str = ""
    code: str = ""
    deliveries: list[Json] = field(default_factory=list)


@dataclass
class Refund:
    number: str
    trade: str
    body: Json
    refund_id: str
    created_at: str
    status: str = "PROCESSING"
    success_time: str = ""


@dataclass
class Fault:
    """A fault, the calls that it affects and how often it occurs."""

    kind: str  # status, hang, drop, drop_before, badsig, nosig, signtest, unknown_serial, tamper, stale
    path: str = "."
    method: str = "."
    times: int = 1
    status: int = 500
    code: str = "SYSTEM_ERROR"
    patch: Json = field(default_factory=dict)


@dataclass
class Behaviour:
    """Settings of the whole simulator."""

    autopay: str = ""  # before or after the answer to a new order; empty: never
    notify: str = "send"  # send, drop
    refunds: str = "manual"  # manual, or success: each refund succeeds at once
    sign_with: str = "pub"  # pub, cert
    legacy_codes: bool = False


class Simulator:
    """The merchant's view of WeChat Pay. It runs in one event loop and saves its state to `file`, if given."""

    def __init__(self, *, keys: Keys, file: Path | None = None, now: Callable[[], datetime] | None = None) -> None:
        self.keys, self._file = keys, file
        self._now = now or (lambda: datetime.now(UTC))
        self.trades: dict[str, Trade] = {}
        self.refunds: dict[str, Refund] = {}
        self.extra_transactions: dict[str, Trade] = {}
        self.bills: dict[str, BillSettings] = {}
        self.behaviour = Behaviour()
        self.faults: list[Fault] = []
        self.log: list[Json] = []
        self._background: set[asyncio.Task[Any]] = set()
        self._merchant = load_key(keys.merchant_pem).public_key()
        self._signer = Signer(keys, self._now)
        self._notifications = Notifications(keys, self._signer, self._now)
        if file is not None and file.exists():
            self._restore(json.loads(file.read_text()))

    def app(self) -> web.Application:
        app = web.Application(client_max_size=4_000_000)
        app.add_routes(
            [
                web.get("/", self._page),
                web.route("*", "/v3/{tail:.*}", self._protocol),
                web.get("/sim/state", self._state),
                web.post("/sim/behaviour", self._set_behaviour),
                web.post("/sim/faults", self._set_faults),
                web.post("/sim/orders/{number}/pay", self._pay),
                web.post("/sim/orders/{number}/notify", self._notify),
                web.post("/sim/refunds/{number}/finish", self._finish_refund),
                web.post("/sim/refunds/external", self._external_refund),
                web.post("/sim/bills/{day}", self._set_bill),
                web.post("/sim/reset", self._reset),
            ]
        )
        app.cleanup_ctx.append(self._client)
        return app

    async def _client(self, _app: web.Application) -> Any:
        async with ClientSession(timeout=ClientTimeout(total=20)) as session:
            self._notifications.session = session
            yield
            for task in list(self._background):
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    # --- the protocol

    async def _protocol(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.log.append({"method": request.method, "path": request.path_qs, "body": body.decode("utf-8", "replace")})
        fault = self._fault(request)
        if fault is not None and fault.kind == "drop_before":
            return self._disconnect(request)
        if fault is not None and fault.kind == "hang":
            await asyncio.sleep(60)
        if fault is not None and fault.kind == "status":
            return self._signed(fault.status, {"code": self._code(fault.code), "message": "a fault"}, None)
        try:
            self._authenticate(request, body)
            answer = await self._route(request, body)
        except Refusal as refusal:
            if refusal.status == 401:
                return web.json_response({"code": refusal.code, "message": refusal.message}, status=401)
            content = {"code": self._code(refusal.code), "message": refusal.message}
            return self._signed(refusal.status, content, fault)
        if fault is not None and fault.kind == "drop":
            return self._disconnect(request)
        if isinstance(answer, web.Response):
            return answer
        return self._signed(204 if answer is None else 200, answer, fault)

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if fault.times and re.search(fault.path, request.path_qs) and re.search(fault.method, request.method):
                fault.times -= 1
                return fault
        return None

    @staticmethod
    def _disconnect(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _authenticate(self, request: web.Request, body: bytes) -> None:
        given = dict(re.findall(r'(\w+)="([^"]*)"', request.headers.get("Authorization", "")))
        if given.get("mchid") != self.keys.mchid or given.get("serial_no") != self.keys.serial_no:
            raise Refusal(401, "SIGN_ERROR", "unknown merchant or certificate")
        if abs(self._now().timestamp() - int(given.get("timestamp", 0))) >= CLOCK_SKEW_S:
            raise Refusal(401, "SIGN_ERROR", "the timestamp is too old")
        lines = [request.method.encode(), request.path_qs.encode(), given["timestamp"].encode()]
        text = b"\n".join([*lines, given["nonce_str"].encode(), body, b""])
        try:
            signature = base64.b64decode(given["signature"])
            self._merchant.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            raise Refusal(401, "SIGN_ERROR", "the signature is wrong") from None

    async def _route(self, request: web.Request, body: bytes) -> Json | web.Response | None:
        path, method = request.path, request.method
        found = json.loads(body) if body else {}
        if method == "POST" and (match := re.fullmatch(r"/v3/pay/transactions/(native|jsapi|h5)", path)):
            return await self._prepay(match[1], found)
        if match := re.fullmatch(r"/v3/pay/transactions/out-trade-no/([^/]+)(/close)?", path):
            trade = self.trades.get(match[1])
            if trade is None:
                raise Refusal(404, "ORDER_NOT_EXIST")
            if match[2]:
                self._close(trade)
                return None
            return self._transaction(trade)
        if method == "POST" and path == "/v3/refund/domestic/refunds":
            return self._refund(found)
        if method == "GET" and (match := re.fullmatch(r"/v3/refund/domestic/refunds/([^/]+)", path)):
            if match[1] not in self.refunds:
                raise Refusal(404, "RESOURCE_NOT_EXISTS")
            return self._refund_view(self.refunds[match[1]])
        if path == "/v3/bill/tradebill":
            return self._bill_link(request)
        if path == "/v3/billdownload/file":
            return web.Response(body=self._bill(request.query["day"]).packed, content_type="application/octet-stream")
        raise Refusal(404, "RESOURCE_NOT_EXISTS")

    async def _prepay(self, channel: str, body: Json) -> Json:
        unknown = set(body) - _PREPAY_FIELDS
        needed = {"appid", "mchid", "description", "out_trade_no", "notify_url", "amount"} - set(body)
        if unknown or needed or None in body.values():
            raise Refusal(400, "PARAM_ERROR", f"unknown {sorted(unknown)}, missing {sorted(needed)}")
        number = body["out_trade_no"]
        if not _NUMBER.fullmatch(number) or body["amount"]["total"] < 1 or "?" in body["notify_url"]:
            raise Refusal(400, "PARAM_ERROR")
        if channel == "jsapi" and not body.get("payer", {}).get("openid"):
            raise Refusal(400, "PARAM_ERROR", "payer.openid")
        if channel == "h5" and not body.get("scene_info", {}).get("payer_client_ip"):
            raise Refusal(400, "PARAM_ERROR", "scene_info.payer_client_ip")
        if (body["mchid"], body["appid"]) != (self.keys.mchid, self.keys.appid):
            raise Refusal(400, "APPID_MCHID_NOT_MATCH")
        trade = self.trades.get(number)
        if trade is None:
            trade = self.trades[number] = Trade(number, channel, body, self._stamp())
        elif (trade.channel, trade.body) != (channel, body):
            raise Refusal(400, "INVALID_REQUEST", "请求重入时参数不一致")
        elif trade.state in {"SUCCESS", "REFUND"}:
            raise Refusal(400, "ORDER_PAID")
        elif trade.state == "CLOSED":
            raise Refusal(400, "ORDER_CLOSED")
        token = secrets.token_urlsafe(8)
        trade.code = {
            "native": f"weixin://wxpay/bizpayurl?pr={token}",
            "jsapi": f"wx{token}",
            "h5": f"https://wx.tenpay.com/cgi-bin/mmpayweb-bin/checkmweb?prepay_id=wx{token}",
        }[channel]
        self._save()
        answer = {{"native": "code_url", "jsapi": "prepay_id", "h5": "h5_url"}[channel]: trade.code}
        if self.behaviour.autopay == "before":
            await self._settle(trade, {})
        elif self.behaviour.autopay == "after":
            self._in_background(self._settle(trade, {}))
        return answer

    def _close(self, trade: Trade) -> None:
        if trade.state in {"SUCCESS", "REFUND"}:
            raise Refusal(400, "ORDER_PAID")
        trade.state = "CLOSED"
        self._save()

    def _transaction(self, trade: Trade) -> Json:
        facts: Json = {
            "appid": self.keys.appid,
            "mchid": self.keys.mchid,
            "out_trade_no": trade.number,
            "trade_state": trade.state,
            "trade_state_desc": trade.state,
            "amount": {"total": trade.body["amount"]["total"], "currency": "CNY"},
        }
        if trade.transaction_id:
            facts |= {
                "transaction_id": trade.transaction_id,
                "trade_type": {"native": "NATIVE", "jsapi": "JSAPI", "h5": "MWEB"}[trade.channel],
                "bank_type": "OTHERS",
                "success_time": trade.success_time,
                "payer": {"openid": trade.openid},
            }
            facts["amount"] |= {"payer_total": trade.payer_total, "payer_currency": "CNY"}
        return facts

    def _refund(self, body: Json) -> Json:
        if set(body) - _REFUND_FIELDS or None in body.values():
            raise Refusal(400, "PARAM_ERROR")
        trade = next((one for one in self.trades.values() if one.transaction_id == body["transaction_id"]), None)
        if trade is None:
            raise Refusal(404, "RESOURCE_NOT_EXISTS")
        number = body["out_refund_no"]
        known = self.refunds.get(number)
        if known is not None:
            if known.body != body:
                raise Refusal(400, "INVALID_REQUEST", "请求重入时参数不一致")
            return self._refund_view(known)
        spent = sum(
            one.body["amount"]["refund"]
            for one in self.refunds.values()
            if one.trade == trade.number and one.status != "CLOSED"
        )
        if spent + body["amount"]["refund"] > trade.body["amount"]["total"]:
            raise Refusal(400, "INVALID_REQUEST", "the refunds pass the payment")
        refund = Refund(number, trade.number, body, random_digits(50), self._stamp())
        self.refunds[number] = refund
        trade.state = "REFUND"
        self._save()
        if self.behaviour.refunds == "success":
            self._in_background(self._end_refund(refund, {"status": "SUCCESS"}))
        return self._refund_view(refund)

    def _refund_view(self, refund: Refund) -> Json:
        trade = self.trades[refund.trade]
        facts = {
            "refund_id": refund.refund_id,
            "out_refund_no": refund.number,
            "transaction_id": trade.transaction_id,
            "out_trade_no": trade.number,
            "channel": "ORIGINAL",
            "user_received_account": "支付用户零钱",
            "create_time": refund.created_at,
            "status": refund.status,
            "amount": {
                "total": trade.body["amount"]["total"],
                "refund": refund.body["amount"]["refund"],
                "payer_total": trade.payer_total,
                "payer_refund": refund.body["amount"]["refund"],
                "currency": "CNY",
            },
        }
        return facts | ({"success_time": refund.success_time} if refund.success_time else {})

    # --- the bill

    def _bill_link(self, request: web.Request) -> Json:
        day = request.query["bill_date"]
        settings = self.bills.get(day, BillSettings())
        is_ready = settings.ready == "now"
        if settings.ready == "auto":
            local = self._now().astimezone(SHANGHAI)
            next_day = date.fromisoformat(day) + timedelta(days=1)
            is_ready = local >= datetime(next_day.year, next_day.month, next_day.day, 10, tzinfo=SHANGHAI)
        if not is_ready:
            raise Refusal(400, "STATEMENT_CREATING")
        bill = self._bill(day)
        if bill.rows == 0 and not settings.empty_bill:
            raise Refusal(400, "NO_STATEMENT_EXIST")
        address = (
            f"{request.scheme}://{request.host}/v3/billdownload/file?token={secrets.token_hex(8)}&day={quote(day)}"
        )
        return {"hash_type": "SHA1", "hash_value": bill.hash_value, "download_url": address}

    def _bill(self, day: str) -> Any:
        trades = [*self.trades.values(), *self.extra_transactions.values()]
        return make_bill(day, self.keys, trades, list(self.refunds.values()), self.bills.get(day, BillSettings()))

    # --- signing

    def _signed(self, status: int, content: Json | None, fault: Fault | None) -> web.Response:
        if content is not None and fault is not None and fault.patch:
            content = _merge(content, fault.patch)
        body = b"" if content is None else json.dumps(content, ensure_ascii=False).encode()
        headers = self._signer.sign(body, self.behaviour.sign_with)
        match fault.kind if fault is not None else "":
            case "nosig":
                headers = {}
            case "badsig":
                headers["Wechatpay-Signature"] = base64.b64encode(secrets.token_bytes(256)).decode()
            case "signtest":
                headers["Wechatpay-Signature"] = f"WECHATPAY/SIGNTEST/{headers['Wechatpay-Signature'][19:]}"
            case "unknown_serial":
                headers["Wechatpay-Serial"] = "PUB_KEY_ID_0000000000000000000000000000"
            case "stale":
                headers = self._signer.sign(body, self.behaviour.sign_with, age_s=CLOCK_SKEW_S)
            case "tamper":
                body = body.replace(b"NOTPAY", b"CLOSED").replace(b"SUCCESS", b"NOTPAY") + b" "
        return web.Response(status=status, body=body, headers=headers, content_type="application/json")

    # --- notifications

    async def _settle(self, trade: Trade, options: Json) -> list[int]:
        """Pay an order. Returns the statuses of the notifications' responses."""
        if trade.state == "CLOSED" and not options.get("force"):
            raise Refusal(409, "ORDER_CLOSED")
        if trade.state != "NOTPAY" and trade.state != "CLOSED" and not options.get("force"):
            raise Refusal(409, "ORDER_PAID")
        target = trade
        if trade.transaction_id:  # `force` pays a second time
            target = Trade(trade.number, trade.channel, trade.body, trade.created_at)
        target.state = "SUCCESS"
        target.transaction_id = f"42000{random_digits(23)}"
        target.success_time = options.get("successTime") or self._stamp()
        target.openid = (
            options.get("openid") or trade.body.get("payer", {}).get("openid") or "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"
        )
        target.payer_total = options.get("payerTotal", trade.body["amount"]["total"])
        if target is not trade:
            self.extra_transactions[target.transaction_id] = target
        self._save()
        if options.get("mode", self.behaviour.notify) == "drop":
            return []
        return await self._send_paid(target, options)

    async def _send_paid(self, trade: Trade, options: Json) -> list[int]:
        resource = _merge(self._transaction(trade), options.get("patch", {}))
        if "amount" in options:
            resource["amount"]["total"] = options["amount"]
        statuses = await self._deliver(trade.body["notify_url"], "TRANSACTION.SUCCESS", resource, options)
        trade.deliveries.append({"at": self._stamp(), "statuses": statuses})
        return statuses

    async def _end_refund(self, refund: Refund, options: Json) -> list[int]:
        refund.status = options.get("status", "SUCCESS")
        if refund.status == "SUCCESS":
            refund.success_time = self._stamp()
        self._save()
        if options.get("mode", self.behaviour.notify) == "drop":
            return []
        facts = self._refund_view(refund)
        resource = {k: v for k, v in facts.items() if k not in {"status", "create_time", "channel"}}
        resource |= {"mchid": self.keys.mchid, "refund_status": options.get("status", refund.status)}
        resource["amount"] = {k: v for k, v in facts["amount"].items() if k != "currency"}
        url = refund.body.get("notify_url") or self._refund_url(refund)
        return await self._deliver(url, f"REFUND.{refund.status}", _merge(resource, options.get("patch", {})), options)

    async def _deliver(self, url: str, event_type: str, resource: Json, options: Json) -> list[int]:
        return await self._notifications.deliver(url, event_type, resource, options, self.behaviour.sign_with)

    def _refund_url(self, refund: Refund) -> str:
        return str(self.trades[refund.trade].body["notify_url"]).replace("/pay/notify", "/refund/notify")

    # --- by hand

    async def _page(self, _request: web.Request) -> web.Response:
        return web.Response(text=PAGE.read_text("utf-8"), content_type="text/html")

    async def _state(self, _request: web.Request) -> web.Response:
        state = {
            "trades": [asdict(one) for one in self.trades.values()],
            "refunds": [asdict(one) for one in self.refunds.values()],
            "behaviour": asdict(self.behaviour),
            "faults": [asdict(one) for one in self.faults],
            "bills": {day: asdict(one) for day, one in self.bills.items()},
            "log": self.log[-1000:],
        }
        return web.json_response(state)

    async def _set_behaviour(self, request: web.Request) -> web.Response:
        self.behaviour = Behaviour(**{**asdict(self.behaviour), **await request.json()})
        return web.json_response(asdict(self.behaviour))

    async def _set_faults(self, request: web.Request) -> web.Response:
        self.faults = [Fault(**one) for one in await request.json()]
        return web.json_response([asdict(one) for one in self.faults])

    async def _pay(self, request: web.Request) -> web.Response:
        """Pay and notify before answering, or notify in the background with `later`."""
        trade, options = self._trade(request), await _options(request)
        try:
            return await self._answer(self._settle(trade, options), options)
        except Refusal as refusal:
            return web.json_response({"code": refusal.code}, status=refusal.status)

    async def _notify(self, request: web.Request) -> web.Response:
        trade, options = self._trade(request), await _options(request)
        if "transactionId" in options:
            trade = self.extra_transactions.get(options["transactionId"], trade)
        return await self._answer(self._send_paid(trade, options), options)

    async def _finish_refund(self, request: web.Request) -> web.Response:
        refund, options = self.refunds.get(request.match_info["number"]), await _options(request)
        if refund is None:
            raise web.HTTPNotFound
        return await self._answer(self._end_refund(refund, options), options)

    async def _external_refund(self, request: web.Request) -> web.Response:
        """A refund from the merchant's console: the platform learns of it only by notification."""
        options = await _options(request)
        trade = self.trades[options["trade"]]
        body = {"transaction_id": trade.transaction_id, "amount": {"refund": options["refund"]}}
        refund = Refund(f"ext{random_digits(20)}", trade.number, body, random_digits(50), self._stamp())
        self.refunds[refund.number] = refund
        trade.state = "REFUND"
        return await self._answer(self._end_refund(refund, options), options)

    async def _answer(self, notification: Any, options: Json) -> web.Response:
        if options.get("later"):
            self._in_background(notification)
            return web.json_response({"statuses": []})
        self._notifications.envelopes.clear()
        return web.json_response({"statuses": await notification, "envelopes": list(self._notifications.envelopes)})

    async def _set_bill(self, request: web.Request) -> web.Response:
        self.bills[request.match_info["day"]] = settings = BillSettings(**await request.json())
        return web.json_response(asdict(settings))

    async def _reset(self, _request: web.Request) -> web.Response:
        for kept in (self.trades, self.refunds, self.extra_transactions, self.bills, self.faults, self.log):
            kept.clear()
        self.behaviour = Behaviour()
        self._notifications.forget()
        self._save()
        return web.json_response({})

    def _trade(self, request: web.Request) -> Trade:
        trade = self.trades.get(request.match_info["number"])
        if trade is None:
            raise web.HTTPNotFound
        return trade

    def _in_background(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _code(self, code: str) -> str:
        return code.replace("_", "") if self.behaviour.legacy_codes else code

    def _stamp(self) -> str:
        return stamp(self._now())

    def _save(self) -> None:
        if self._file is None:
            return
        state = {
            "trades": [asdict(one) for one in self.trades.values()],
            "refunds": [asdict(one) for one in self.refunds.values()],
        }
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(state, ensure_ascii=False))
        partial.rename(self._file)

    def _restore(self, state: Json) -> None:
        self.trades = {one["number"]: Trade(**one) for one in state["trades"]}
        self.refunds = {one["number"]: Refund(**one) for one in state["refunds"]}


def _merge(content: Json, patch: Json) -> Json:
    merged = dict(content)
    for name, value in patch.items():
        merged[name] = _merge(merged.get(name) or {}, value) if isinstance(value, dict) else value
    return merged


async def _options(request: web.Request) -> Json:
    with contextlib.suppress(ValueError):
        options: Json = await request.json()
        return options
    return {}
