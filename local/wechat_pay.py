"""The WeChat Pay simulator as a service of a running stack."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from local.files import write_whole
from local.wechat_keys import Json, Keys
from local.wechat_simulator import Simulator


class WechatPayService:
    """Runs the simulator's event loop in a separate thread."""

    name = "WeChat Pay simulator"

    def __init__(self, *, port: int, home: Path | None = None, now: Callable[[], datetime] | None = None) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self._home, self._now = home, now
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: web.AppRunner | None = None
        self.keys = self._load_keys()

    @property
    def secret(self) -> Json:
        return self.keys.secret(self.url)

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="wechat", daemon=True)
        self._thread.start()
        self._loop = loop
        asyncio.run_coroutine_threadsafe(self._serve(), loop).result(10)
        return {"wechatSimUrl": self.url}

    def stop(self) -> None:
        """Stop the parts that were started: a start may have failed halfway."""
        if self._loop is None:
            return
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        file = self._home / "wechat-pay.json" if self._home is not None else None
        self.simulator = Simulator(keys=self.keys, file=file, now=self._now)
        self._runner = web.AppRunner(
            self.simulator.app(), access_log=None, shutdown_timeout=0.2, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=256).start()

    def _load_keys(self) -> Keys:
        """Generated once per home, because orders survive a restart. Only the owner can read the file."""
        if self._home is None:
            return Keys.generate()
        file = self._home / "wechat-keys.json"
        if not file.exists():
            write_whole(file, json.dumps(asdict(Keys.generate())))
        return Keys(**json.loads(file.read_text()))
