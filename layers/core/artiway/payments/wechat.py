"""WeChat Pay v3: signs requests, accepts only signed answers, and raises OutcomeUnknown without one."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from artiway.payments.model import (
    CURRENCY,
    BillBroken,
    BillNotReady,
    Channel,
    Forged,
    GatewayRefused,
    NoBill,
    Notification,
    Order,
    OutcomeUnknown,
    Payment,
    PaymentAway,
    RateLimited,
    RefundReport,
    RefundStatus,
    Undecryptable,
)
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("wechat")

SCHEMA = "WECHATPAY2-SHA256-RSA2048"
PROBE = "WECHATPAY/SIGNTEST/"
WINDOW = timedelta(minutes=5)
OFFICIAL_URL, BACKUP_URL = "https://api.mch.weixin.qq.com", "https://api2.mch.weixin.qq.com"
ANSWER_LIMIT_BYTES = 1_000_000
BILL_LIMIT_BYTES = 256_000_000
PREPAY_LIFE = {
    Channel.NATIVE: timedelta(hours=2),
    Channel.JSAPI: timedelta(hours=2),
    Channel.H5: timedelta(minutes=5),
}
_CODE_FIELD = {Channel.NATIVE: "code_url", Channel.JSAPI: "prepay_id", Channel.H5: "h5_url"}
# A code that is about to expire is not returned again.
_CODE_MARGIN = timedelta(seconds=30)


@dataclass(frozen=True, repr=False)
class Merchant:
    """Our merchant account and WeChat's public keys. Immutable: a rotated secret makes a new object."""

    base_url: str
    mchid: str
    appid: str
    serial_no: str
    private_key: RSAPrivateKey
    api_v3_key: bytes
    wanted_serial: str
    platform_keys: Mapping[str, RSAPublicKey]

    @staticmethod
    def from_json(text: str) -> Merchant:
        """Parse the secret. Raises PaymentAway; neither the error nor the log contains any of its text."""
        try:
            found = json.loads(text)
            keys: dict[str, RSAPublicKey] = {}
            for certificate in found.get("platformCertificates") or []:
                loaded = x509.load_pem_x509_certificate(certificate["certificatePem"].encode())
                keys[certificate["serialNo"]] = cast("RSAPublicKey", loaded.public_key())
            if found.get("platformPublicKeyId"):
                pem = found["platformPublicKeyPem"].encode()
                keys[found["platformPublicKeyId"]] = cast("RSAPublicKey", serialization.load_pem_public_key(pem))
            private_key = serialization.load_pem_private_key(found["privateKeyPem"].encode(), password=None)
            merchant = Merchant(
                base_url=found["baseUrl"].rstrip("/"),
                mchid=found["mchid"],
                appid=found["appid"],
                serial_no=found["serialNo"],
                private_key=cast("RSAPrivateKey", private_key),
                api_v3_key=found["apiV3Key"].encode(),
                wanted_serial=found.get("platformPublicKeyId") or next(iter(keys)),
                platform_keys=MappingProxyType(keys),
            )
            AESGCM(merchant.api_v3_key)
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            logger.error("the merchant secret is not usable", reason=type(error).__name__)
            raise PaymentAway("not configured") from None
        return merchant

    def sign(self, *lines: str | bytes) -> str:
        text = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
        return base64.b64encode(self.private_key.sign(text, padding.PKCS1v15(), hashes.SHA256())).decode()


merchant_from_json = lru_cache(maxsize=2)(Merchant.from_json)  # parsing keys is slow, and the text rarely changes


def verify(merchant: Merchant, headers: Mapping[str, str], body: bytes, *, now: datetime) -> None:
    """Check that WeChat signed this within five minutes. Does no I/O, whatever the headers contain. Raises Forged."""
    found = {name.lower(): value for name, value in headers.items()}
    serial = found.get("wechatpay-serial", "")
    signature = found.get("wechatpay-signature", "")
    timestamp, nonce = found.get("wechatpay-timestamp", ""), found.get("wechatpay-nonce", "")
    if not (serial and signature and timestamp and nonce):
        raise Forged("unsigned")
    if signature.startswith(PROBE):
        raise Forged("probe")
    if found.get("wechatpay-signature-type", SCHEMA) != SCHEMA:
        raise Forged("signature_type")
    key = merchant.platform_keys.get(serial)
    if key is None:
        raise Forged("unknown_serial")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise Forged("timestamp")
    if abs(now.timestamp() - int(timestamp)) >= WINDOW.total_seconds():
        raise Forged("stale")
    try:
        text = b"\n".join((timestamp.encode(), nonce.encode(), body, b""))
        key.verify(base64.b64decode(signature, validate=True), text, padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        raise Forged("signature") from None


class NotificationReader:
    """Verifies notifications, then decrypts them."""

    def __init__(self, merchant: Callable[[], Merchant], clock: Clock) -> None:
        self._merchant, self._clock = merchant, clock

    def read(self, headers: Mapping[str, str], body: bytes) -> Notification:
        """Raises Forged, Undecryptable."""
        merchant = self._merchant()
        verify(merchant, headers, body, now=self._clock.now())
        try:
            envelope = json.loads(body)
            resource = envelope["resource"]
            sealed = base64.b64decode(resource["ciphertext"], validate=True)
            aad = (resource.get("associated_data") or "").encode()
            opened = AESGCM(merchant.api_v3_key).decrypt(resource["nonce"].encode(), sealed, aad)
            return _notification(str(envelope["id"]), str(envelope["event_type"]), json.loads(opened))
        except (InvalidTag, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Undecryptable(type(error).__name__) from None


def _notification(notification_id: str, event_type: str, found: Mapping[str, Any]) -> Notification:
    match event_type.partition(".")[0]:
        case "TRANSACTION":
            return Notification(notification_id, event_type, payment=payment_of(found))
        case "REFUND":
            return Notification(notification_id, event_type, refund=refund_of(found))
    return Notification(notification_id, event_type)


def payment_of(found: Mapping[str, Any]) -> Payment:
    """Parse a transaction. Unknown fields and values are ignored."""
    amount = found.get("amount") or {}
    return Payment(
        mchid=str(found.get("mchid", "")),
        appid=str(found.get("appid", "")),
        out_trade_no=str(found.get("out_trade_no", "")),
        trade_state=str(found.get("trade_state", "")),
        transaction_id=found.get("transaction_id"),
        amount_fen=amount.get("total"),
        currency=amount.get("currency"),
        payer_total_fen=amount.get("payer_total"),
        payer_openid=(found.get("payer") or {}).get("openid"),
        paid_at=datetime.fromisoformat(found["success_time"]) if found.get("success_time") else None,
    )


def refund_of(found: Mapping[str, Any]) -> RefundReport:
    """A refund in an answer has `status`, in a notification `refund_status`."""
    started_at, amount = found.get("create_time"), found["amount"]
    return RefundReport(
        out_trade_no=str(found["out_trade_no"]),
        out_refund_no=str(found["out_refund_no"]),
        wechat_id=found.get("refund_id"),
        status=RefundStatus(found.get("status") or found["refund_status"]),
        amount_fen=int(amount["refund"]),
        started_at=datetime.fromisoformat(started_at) if started_at else None,
        mchid=found.get("mchid"),
        transaction_id=found.get("transaction_id"),
        total_fen=amount.get("total"),
        currency=amount.get("currency"),
    )


def _refund_answer(found: Mapping[str, Any], out_refund_no: str) -> RefundReport:
    try:
        report = refund_of(found)
    except (KeyError, TypeError, ValueError):
        raise OutcomeUnknown("an answer that is no refund") from None
    if report.out_refund_no != out_refund_no:
        raise OutcomeUnknown("an answer about another refund")
    return report


class WechatPay:
    """The client. Each call returns a verified answer, or raises GatewayRefused or OutcomeUnknown."""

    def __init__(
        self, merchant: Callable[[], Merchant], clock: Clock, *, connect_timeout_s: float = 2, read_timeout_s: float = 5
    ) -> None:
        self._merchant, self._clock = merchant, clock
        timeout = urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s)
        self._pool = urllib3.PoolManager(maxsize=16, timeout=timeout, retries=False)

    @property
    def identity(self) -> tuple[str, str]:
        """Our merchant id and app id, which a payment must have."""
        merchant = self._merchant()
        return merchant.mchid, merchant.appid

    # --- orders

    def prepay_body(self, *, order: Order, description: str, notify_url: str, client_address: str) -> str:
        body: dict[str, Any] = {
            "appid": order.appid,
            "mchid": order.mchid,
            "description": description,
            "out_trade_no": order.out_trade_no,
            "time_expire": order.expires_at.replace(microsecond=0).isoformat(),
            "notify_url": notify_url,
            "amount": {"total": order.amount_fen, "currency": CURRENCY},
        }
        if order.channel is Channel.JSAPI:
            body["payer"] = {"openid": order.openid}
        if order.channel is Channel.H5:
            body["scene_info"] = {"payer_client_ip": client_address, "h5_info": {"type": "Wap"}}
        return _to_json(body)

    def prepay(self, order: Order) -> tuple[str, datetime]:
        """The payment code, and the time until which it may be returned to payers."""
        asked_at = self._clock.now()
        answer = self._call("POST", f"/v3/pay/transactions/{order.channel}", order.prepay_body)
        code = answer.get(_CODE_FIELD[order.channel])
        if not isinstance(code, str) or not code:
            raise OutcomeUnknown("an answer without a code")
        return code, min(asked_at + PREPAY_LIFE[order.channel] - _CODE_MARGIN, order.expires_at)

    def pay_params(self, prepay_id: str) -> dict[str, str]:
        """The arguments of wx.requestPayment in a mini program."""
        merchant = self._merchant()
        timestamp, nonce = str(int(self._clock.now().timestamp())), secrets.token_hex(16)
        package = f"prepay_id={prepay_id}"
        return {
            "appId": merchant.appid,
            "timeStamp": timestamp,
            "nonceStr": nonce,
            "package": package,
            "signType": "RSA",
            "paySign": merchant.sign(merchant.appid, timestamp, nonce, package),
        }

    def query(self, out_trade_no: str) -> Payment:
        number, mchid = quote(out_trade_no, safe=""), self._merchant().mchid
        payment = payment_of(self._call("GET", f"/v3/pay/transactions/out-trade-no/{number}?mchid={mchid}"))
        if payment.out_trade_no != out_trade_no:
            raise OutcomeUnknown("an answer about another order")
        return payment

    def close(self, out_trade_no: str) -> None:
        number, mchid = quote(out_trade_no, safe=""), self._merchant().mchid
        self._call("POST", f"/v3/pay/transactions/out-trade-no/{number}/close", _to_json({"mchid": mchid}))

    # --- refunds

    def refund_body(self, *, order: Order, out_refund_no: str, amount_fen: int, reason: str, notify_url: str) -> str:
        body = {
            "transaction_id": order.transaction_id,
            "out_refund_no": out_refund_no,
            "reason": reason,
            "notify_url": notify_url,
            "amount": {"refund": amount_fen, "total": order.amount_fen, "currency": CURRENCY},
        }
        return _to_json(body)

    def refund(self, request_body: str) -> RefundReport:
        out_refund_no = json.loads(request_body)["out_refund_no"]
        return _refund_answer(self._call("POST", "/v3/refund/domestic/refunds", request_body), out_refund_no)

    def query_refund(self, out_refund_no: str) -> RefundReport:
        found = self._call("GET", f"/v3/refund/domestic/refunds/{quote(out_refund_no, safe='')}")
        return _refund_answer(found, out_refund_no)

    # --- bill

    def bill(self, day: date) -> str:
        """The trade bill of a day, its hash checked. Raises BillNotReady, NoBill, BillBroken, OutcomeUnknown."""
        query = urlencode({"bill_date": day.isoformat(), "bill_type": "ALL", "tar_type": "GZIP"})
        try:
            found = self._call("GET", f"/v3/bill/tradebill?{query}")
        except GatewayRefused as refusal:
            if refusal.code == "STATEMENTCREATING":
                raise BillNotReady from refusal
            if refusal.code == "NOSTATEMENTEXIST":
                raise NoBill from refusal
            raise
        address = urlsplit(str(found["download_url"]))
        # The download is not signed. Its hash is part of the signed answer before it.
        status, _, packed = self._send("GET", f"{address.path}?{address.query}", b"", limit=BILL_LIMIT_BYTES)
        if status != 200:
            raise OutcomeUnknown(f"the bill's download answered {status}")
        content = _unpacked(packed)
        if found.get("hash_type") != "SHA1" or hashlib.sha1(content).hexdigest() != found["hash_value"]:  # noqa: S324 (theirs)
            raise BillBroken("the bill's hash does not match")
        return content.decode("utf-8-sig")

    # --- the protocol

    def _call(self, method: str, target: str, body: str = "") -> dict[str, Any]:
        status, headers, content = self._send(method, target, body.encode(), limit=ANSWER_LIMIT_BYTES)
        if status == 429:
            raise RateLimited("too many requests")
        if status >= 500 or status == 401:
            # A 401 is not signed: WeChat did not accept our signature. The outcome counts as unknown.
            logger.warning("wechat answered with an error", target=_place(target), status=status)
            raise OutcomeUnknown(f"status {status}")
        try:
            verify(self._merchant(), headers, content, now=self._clock.now())
            answer = json.loads(content) if content else {}
        except Forged as forged:
            logger.warning("an answer could not be verified", target=_place(target), reason=forged.reason)
            raise OutcomeUnknown(f"unverified: {forged.reason}") from None
        except ValueError:
            raise OutcomeUnknown("not JSON") from None
        if not isinstance(answer, dict):
            raise OutcomeUnknown("not an object")
        if status >= 300:
            code = str(answer.get("code", ""))
            if code.replace("_", "") in {"FREQUENCYLIMITED", "RATELIMITEXCEEDED"}:
                raise RateLimited(code)
            if code.replace("_", "") == "SYSTEMERROR":
                raise OutcomeUnknown(code)
            raise GatewayRefused(code, status)
        return answer

    def _send(self, method: str, target: str, body: bytes, *, limit: int) -> tuple[int, Mapping[str, str], bytes]:
        merchant = self._merchant()
        timestamp, nonce = str(int(self._clock.now().timestamp())), secrets.token_hex(16)
        signature = merchant.sign(method, target, timestamp, nonce, body)
        headers = {
            "Authorization": (
                f'{SCHEMA} mchid="{merchant.mchid}",nonce_str="{nonce}",timestamp="{timestamp}",'
                f'serial_no="{merchant.serial_no}",signature="{signature}"'
            ),
            "Accept": "application/json",
            "User-Agent": "artiway/1",
            "Wechatpay-Serial": merchant.wanted_serial,
        }
        if body:
            headers["Content-Type"] = "application/json"
        hosts = [merchant.base_url, BACKUP_URL] if merchant.base_url == OFFICIAL_URL else [merchant.base_url]
        for host in hosts:
            try:
                answer = self._pool.request(
                    method, host + target, body=body or None, headers=headers, redirect=False, preload_content=False
                )
                try:
                    content = answer.read(limit + 1, decode_content=False)
                finally:
                    answer.release_conn()
            except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError):
                continue  # no connection was made, so the backup host may be tried
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise OutcomeUnknown(type(error).__name__) from None
            if len(content) > limit:
                raise OutcomeUnknown("the answer is too large")
            return answer.status, answer.headers, content
        raise OutcomeUnknown("not reachable")


def _place(target: str) -> str:
    return target.partition("?")[0]


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _unpacked(packed: bytes) -> bytes:
    """Gunzip with a size limit: a small file can expand without end."""
    if not packed.startswith(b"\x1f\x8b"):
        return packed
    try:
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(packed, BILL_LIMIT_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise BillBroken("the bill is truncated or too large")
    except (zlib.error, gzip.BadGzipFile) as error:
        raise BillBroken("the bill cannot be unpacked") from error
    return content
