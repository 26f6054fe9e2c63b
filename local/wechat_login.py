"""A simulator of WeChat's login. A code contains the person that it identifies and is valid once.

`ok-<person>-<anything>` identifies that person, `solo-<person>-…` the same without a unionid; `busy-…`, `often-…` and
`blocked-…` are refused with WeChat's error codes; any other code is invalid.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from aiohttp import web

BUSY, INVALID_CODE, USED_CODE, TOO_OFTEN, BLOCKED = -1, 40029, 40163, 45011, 40226
_REFUSALS = {"busy": BUSY, "often": TOO_OFTEN, "blocked": BLOCKED}


class WechatLogin:
    def __init__(self, port: int) -> None:
        self._port = port
        self._used: set[tuple[str, str]] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/sns/jscode2session", self._mini)
        app.router.add_get("/sns/oauth2/access_token", self._web)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _mini(self, request: web.Request) -> web.Response:
        return await self._answer(request, request.query.get("js_code", ""), {"session_key": "c2Vzc2lvbi1rZXk="})

    async def _web(self, request: web.Request) -> web.Response:
        extra = {"access_token": "wechat-token", "expires_in": 7200, "scope": "snsapi_login"}
        return await self._answer(request, request.query.get("code", ""), extra)

    async def _answer(self, request: web.Request, code: str, extra: dict[str, Any]) -> web.Response:
        """Answer with HTTP 200 and text/plain also for a refusal, as WeChat does."""
        await asyncio.sleep(0)
        appid = request.query.get("appid", "")
        kind, _, rest = code.partition("-")
        person = rest.partition("-")[0]
        problem = 0
        if not appid or request.query.get("grant_type") != "authorization_code" or not person:
            problem = INVALID_CODE
        elif kind in _REFUSALS:
            problem = _REFUSALS[kind]
        elif kind not in {"ok", "solo"}:
            problem = INVALID_CODE
        elif (appid, code) in self._used:
            problem = USED_CODE
        if problem:
            return web.json_response({"errcode": problem, "errmsg": "refused"}, content_type="text/plain")
        self._used.add((appid, code))
        answer = {**extra, "openid": _pseudonym("o", appid, person)}
        if kind == "ok":
            answer["unionid"] = _pseudonym("u", person)
        return web.json_response(answer, content_type="text/plain")


def _pseudonym(prefix: str, *parts: str) -> str:
    return prefix + hashlib.sha256("/".join(parts).encode()).hexdigest()[:27]
