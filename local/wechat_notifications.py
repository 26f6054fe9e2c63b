"""Notifications of the WeChat Pay simulator: encrypted, signed and posted, with the faults that a test asks for."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from aiohttp import ClientError, ClientSession
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from local.wechat_keys import CLOCK_SKEW_S, Keys, Signer, new_key

SHANGHAI = timezone(timedelta(hours=8))
Json = dict[str, Any]


class Notifications:
    """Posts notifications. `envelopes` holds those that a test asked to get instead (`handOver`)."""

    def __init__(self, keys: Keys, signer: Signer, now: Callable[[], datetime]) -> None:
        self._keys, self._signer, self._now = keys, signer, now
        self.session: ClientSession
        self.envelopes: list[Json] = []
        self._last: tuple[str, dict[str, str], bytes] | None = None

    def forget(self) -> None:
        self.envelopes.clear()
        self._last = None

    async def deliver(self, url: str, event_type: str, resource: Json, options: Json, sign_with: str) -> list[int]:
        """Post a notification with the faults in `options`. Without a 2xx answer it is posted again."""
        if options.get("delayMs"):
            await asyncio.sleep(options["delayMs"] / 1000)
        if options.get("replay") and self._last is not None:
            url, headers, body = self._last
        else:
            body = self._envelope(event_type, resource, options)
            headers = self._signature(body, options, sign_with)
            self._last = (url, headers, body)
        if options.get("handOver"):  # for a test that delivers it
            self.envelopes.append({"url": url, "headers": headers, "body": body.decode()})
            return []
        if options.get("corrupt"):
            body = body.replace(b'"encrypt-resource"', b'"encrypt_resource"')
        statuses = await asyncio.gather(*(self._post(url, headers, body) for _ in range(options.get("copies", 1))))
        retries = options.get("retry", [])
        if retries and not any(200 <= status < 300 for status in statuses):
            await asyncio.sleep(retries[0])
            again = {**{k: v for k, v in options.items() if k != "kind"}, "retry": retries[1:], "copies": 1}
            return [*statuses, *await self.deliver(url, event_type, resource, again, sign_with)]
        return list(statuses)

    def _envelope(self, event_type: str, resource: Json, options: Json) -> bytes:
        key = secrets.token_hex(16) if options.get("kind") == "badaead" else self._keys.api_v3_key
        nonce = secrets.token_hex(6)
        aad = "refund" if event_type.startswith("REFUND") else "transaction"
        text = json.dumps(resource, ensure_ascii=False).encode()
        sealed = AESGCM(key.encode()).encrypt(nonce.encode(), text, aad.encode())
        envelope = {
            "id": options.get("id") or f"EV-{random_digits(18)}",
            "create_time": stamp(self._now()),
            "resource_type": "encrypt-resource",
            "event_type": options.get("eventType", event_type),
            "summary": "支付成功",
            "resource": {
                "original_type": aad,
                "algorithm": "AEAD_AES_256_GCM",
                "ciphertext": base64.b64encode(sealed).decode(),
                "associated_data": aad,
                "nonce": nonce,
            },
        }
        return json.dumps(envelope, ensure_ascii=False).encode()

    def _signature(self, body: bytes, options: Json, sign_with: str) -> dict[str, str]:
        ages = {"stale": CLOCK_SKEW_S, "future": -CLOCK_SKEW_S}
        kind = options.get("kind", "")
        headers = self._signer.sign(body, options.get("signWith", sign_with), age_s=ages.get(kind, 0))
        match kind:
            case "forge":
                headers["Wechatpay-Signature"] = base64.b64encode(secrets.token_bytes(256)).decode()
            case "leaked":  # an attacker with the APIv3 key does not have WeChat Pay's RSA key
                text = b"\n".join(
                    [headers["Wechatpay-Timestamp"].encode(), headers["Wechatpay-Nonce"].encode(), body, b""]
                )
                forged = new_key().sign(text, padding.PKCS1v15(), hashes.SHA256())
                headers["Wechatpay-Signature"] = base64.b64encode(forged).decode()
            case "nosig":
                headers = {}
            case "unknown_serial":
                headers["Wechatpay-Serial"] = "PUB_KEY_ID_0000000000000000000000000000"
            case "signtest":
                headers["Wechatpay-Signature"] = f"WECHATPAY/SIGNTEST/{headers['Wechatpay-Signature'][19:]}"
        return headers

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        try:
            sent = {**headers, "Content-Type": "application/json", "User-Agent": "Mozilla/4.0"}
            async with self.session.post(url, data=body, headers=sent, allow_redirects=False) as answer:
                await answer.read()
                return answer.status
        except (ClientError, TimeoutError, OSError):
            return 0


def random_digits(count: int) -> str:
    return f"{secrets.randbelow(10**count):0{count}d}"


def stamp(moment: datetime) -> str:
    return moment.astimezone(SHANGHAI).isoformat(timespec="seconds")
