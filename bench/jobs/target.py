"""A target of HTTP jobs that takes a number of requests per second: later ones wait for their turn."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web


class Pace:
    def __init__(self, per_second: int | None) -> None:
        self._step_s = 1 / per_second if per_second else 0.0
        self._next = time.monotonic()

    async def turn(self) -> None:
        self._next = max(self._next + self._step_s, time.monotonic())
        await asyncio.sleep(self._next - time.monotonic() if self._step_s else 0)


def serve(port: int, per_second: int | None) -> None:
    pace = Pace(per_second)

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await pace.turn()
        return web.Response(text="ok")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None, backlog=2_048)
