"""WeChat's login API: the mini program's code2session and the web's OAuth turn a code into a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from artiway.errors import NotAllowed, TooMany, Unauthenticated, Unavailable
from artiway.identity.model import WechatPerson
from artiway.platform.logs import Logger

logger = Logger("wechat")
TIMEOUT_S = 3
ANSWER_LIMIT = 65_536
RETRY_AFTER_S = 5
RATE_WAIT_S = 60
_PATHS = {
    "mini": ("/sns/jscode2session", "js_code"),
    "web": ("/sns/oauth2/access_token", "code"),
}
_WRONG_CODES = frozenset({40029, 40163, 41008})  # invalid, used before, missing
_TOO_OFTEN, _BLOCKED = 45011, 40226


class WechatUnavailable(Unavailable):
    code = "AUTH_503_WECHAT"

    def __init__(self) -> None:
        super().__init__("WeChat does not answer; try again", retry_after_s=RETRY_AFTER_S)


class CodeRefused(Unauthenticated):
    code = "AUTH_401_BAD_CREDENTIALS"


class WechatLoginClient:
    """`apps` returns {"mini": {"appid", "secret"}, "web": …}. The session key never leaves this class."""

    def __init__(self, base_url: str, apps: Callable[[], dict[str, Any]]) -> None:
        self._base_url, self._apps = base_url.rstrip("/"), apps

    def exchange(self, app: str, code: str) -> WechatPerson:
        known = self._apps()[app]
        path, name = _PATHS[app]
        query = {"appid": known["appid"], "secret": known["secret"], name: code, "grant_type": "authorization_code"}
        answer = self._get(f"{self._base_url}{path}?{urlencode(query)}")
        problem = answer.get("errcode") or 0
        if problem:
            raise _refusal(problem)
        openid, unionid = answer.get("openid"), answer.get("unionid")
        if not isinstance(openid, str) or not 0 < len(openid) <= 128:
            raise WechatUnavailable
        is_named = isinstance(unionid, str) and 0 < len(unionid) <= 128
        return WechatPerson(str(known["appid"]), openid, unionid if is_named else None)

    def _get(self, url: str) -> dict[str, Any]:
        import urllib3

        try:
            # No retry: WeChat accepts a code once, and the first request may have used it.
            with urllib3.PoolManager().request(
                "GET", url, timeout=TIMEOUT_S, retries=False, redirect=False, preload_content=False
            ) as response:
                answer = json.loads(response.read(ANSWER_LIMIT))
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            # The error's text contains the URL and so the app's secret: only its class is logged.
            logger.warning("WeChat did not answer", kind=type(error).__name__)
            raise WechatUnavailable from None
        if not isinstance(answer, dict):
            raise WechatUnavailable
        return answer


def _refusal(problem: int) -> Exception:
    if problem in _WRONG_CODES:
        return CodeRefused("the code is not valid, or was used before")
    if problem == _TOO_OFTEN:
        return TooMany("WeChat asks to slow down", retry_after_s=RATE_WAIT_S, code="AUTH_429_THROTTLED")
    if problem == _BLOCKED:
        return NotAllowed("WeChat has blocked this account", code="AUTH_403_ACCOUNT_CLOSED")
    logger.error("WeChat refused", errcode=problem)  # busy, or our own credentials are wrong
    return WechatUnavailable()
