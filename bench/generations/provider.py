"""An OpenAI-compatible provider whose tokens are the times at which it sends them.

The clock is the machine's monotonic one, which all processes share, so a reader knows the age of each token.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiohttp import web

TOKENS_PER_SECOND = 20


def stamp() -> str:
    return f"{time.monotonic():.4f} "


async def complete(request: web.Request) -> web.StreamResponse:
    asked = await request.json()
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    begun = time.monotonic()
    for number in range(asked["max_tokens"]):
        await asyncio.sleep(max(0.0, begun + number / TOKENS_PER_SECOND - time.monotonic()))
        delta = {"choices": [{"index": 0, "delta": {"content": stamp()}, "finish_reason": None}]}
        await response.write(f"data: {json.dumps(delta)}\n\n".encode())
    usage = {"prompt_tokens": 10, "completion_tokens": asked["max_tokens"], "total_tokens": 10 + asked["max_tokens"]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    await response.write(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
    return response


if __name__ == "__main__":
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", complete)])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
