"""The reader of pictures on one machine: PP-OCR's networks behind an OpenAI-compatible server. Arguments: port.

It runs in the environment .tools/ocr, whose package has the networks inside: nothing is downloaded at run time. It says
what can be measured (text, colours, form, ground) and names no objects, since no network for them is there.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import io
import json
import math
import queue
import re
import resource
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "ppocr-v6"
PICTURES_AT_ONCE = 2
MEMORY_BYTES = 6_000_000_000
BODY_BYTES = 8_000_000
MOST_PIXELS = 4_000_000
PATCH = 28  # pixels of a side: common vision models count a token for each such square
FIELDS = ("tags", "colours", "text")
WORDS = 6
SURE = 0.75  # below, what looks like a letter is often a handle or a shadow
SHARE = 0.06  # of the pixels that a colour must have to be named
PLAIN = 14.0  # deviation of the pixels along the edge, of 255, up to which the ground is plain
NAMED = {
    "black": (20, 20, 20),
    "grey": (128, 128, 128),
    "white": (245, 245, 245),
    "red": (200, 30, 35),
    "orange": (240, 130, 30),
    "yellow": (245, 215, 50),
    "green": (50, 140, 60),
    "turquoise": (50, 180, 175),
    "blue": (45, 95, 200),
    "navy": (25, 35, 85),
    "light blue": (160, 200, 235),
    "purple": (115, 50, 145),
    "pink": (240, 150, 180),
    "brown": (105, 65, 40),
    "beige": (220, 200, 165),
}


class Refused(Exception):
    """The request cannot be answered, however often it is sent."""


# --- what is seen


class Reader:
    """As many engines as pictures are read at once: an engine keeps state while it reads."""

    def __init__(self) -> None:
        self._engines: queue.Queue[Any] = queue.Queue()
        self.is_loaded = False

    def load(self) -> None:
        found = importlib.util.find_spec("rapidocr")
        if found is None or not found.submodule_search_locations:
            sys.exit("the package rapidocr is not installed")
        if len(list(Path(found.submodule_search_locations[0]).glob("models/*.onnx"))) < 3:
            sys.exit("the package rapidocr has no networks inside, and none are downloaded")
        from rapidocr import RapidOCR

        params = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
        for _ in range(PICTURES_AT_ONCE):
            self._engines.put(RapidOCR(params=params))
            self.is_loaded = True

    def lines(self, pixels: Any) -> list[str]:
        engine = self._engines.get()
        try:
            found = engine(pixels[:, :, ::-1])  # as OpenCV has them
        finally:
            self._engines.put(engine)
        lines = zip(found.txts or (), found.scores or (), strict=True)
        return [line.strip() for line, score in lines if line.strip() and score >= SURE]


def described(pixels: Any, lines: list[str]) -> dict[str, Any]:
    """Only what was measured."""
    colours = main_colours(pixels)
    height, width = pixels.shape[:2]
    ratio = width / height
    form = "square" if 0.9 < ratio < 1.1 else "landscape" if ratio > 1 else "portrait"
    tags = [form, f"mostly {colours[0]}", *ground(pixels), "printed text" if lines else "no text"]
    words = dict.fromkeys(word.lower() for word in re.findall(r"[^\W\d_]{3,}", " ".join(lines)))
    tags += [word[:60] for word in words if word not in tags][:WORDS]
    return {"tags": tags, "colours": colours, "text": "\n".join(lines)}


def main_colours(pixels: Any) -> list[str]:
    """Names of the colours with the most pixels, by the distance that the eye sees (CIE Lab)."""
    import cv2
    import numpy as np

    small = cv2.resize(pixels, (96, 96), interpolation=cv2.INTER_AREA).reshape(1, -1, 3)
    names = list(NAMED)
    palette = np.array([list(NAMED.values())], np.uint8)
    seen, known = (cv2.cvtColor(np.float32(one) / 255, cv2.COLOR_RGB2LAB)[0] for one in (small, palette))
    nearest = np.linalg.norm(seen[:, None] - known[None], axis=2).argmin(axis=1)
    counts = np.bincount(nearest, minlength=len(names))
    order = [place for place in counts.argsort()[::-1] if counts[place] >= SHARE * len(nearest)]
    return [names[place] for place in order[:5]] or [names[int(counts.argmax())]]


def ground(pixels: Any) -> list[str]:
    """Whether the edge of the picture has one colour, and which."""
    import numpy as np

    edge = max(2, min(pixels.shape[:2]) // 40)
    sides = (pixels[:edge], pixels[-edge:], pixels[:, :edge], pixels[:, -edge:])
    around = np.concatenate([side.reshape(-1, 3) for side in sides])
    if float(around.std(axis=0).max()) > PLAIN:
        return ["busy background"]
    return [f"plain {main_colours(around.reshape(1, -1, 3))[0]} background"]


# --- the protocol


def picture_of(body: dict[str, Any]) -> tuple[Any, int]:
    """The pixels of the only picture, and the characters of the prompt."""
    from PIL import Image, UnidentifiedImageError

    addresses, characters = [], 0
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if not isinstance(part, dict):
                raise Refused("a part is no object")
            if part.get("type") == "image_url" and isinstance(part.get("image_url"), dict):
                addresses.append(str(part["image_url"].get("url", "")))
            else:
                characters += len(str(part.get("text") or ""))
    if len(addresses) != 1:
        raise Refused("one picture is read at a time")
    head, _, data = addresses[0].partition(",")
    if not re.fullmatch(r"data:image/(png|jpeg|webp);base64", head):
        raise Refused("the picture must be a data URL; nothing is fetched")
    import numpy as np

    try:
        picture = Image.open(io.BytesIO(base64.b64decode(data, validate=True)), formats=("PNG", "JPEG", "WEBP"))
        if picture.width * picture.height > MOST_PIXELS:
            raise Refused(f"the picture has more than {MOST_PIXELS} pixels")
        return np.array(picture.convert("RGB")), characters
    except (UnidentifiedImageError, binascii.Error, OSError, SyntaxError, ValueError):
        raise Refused("the picture cannot be decoded") from None


def wanted_fields(body: dict[str, Any]) -> dict[str, Any]:
    """The properties of the JSON schema that is asked for; without one, all fields without a bound."""
    asked = body.get("response_format") or {}
    if asked.get("type", "text") in ("text", "json_object"):
        return {name: {} for name in FIELDS}
    found = (asked.get("json_schema") or {}).get("schema", {}).get("properties", {})
    if not found or not set(found) <= set(FIELDS):
        raise Refused(f"the fields that can be answered are {', '.join(FIELDS)}")
    return dict(found)


def fitted(seen: dict[str, Any], schema: dict[str, Any], max_tokens: int) -> str:
    """The answer within the bounds of the schema, and with less text if it would have more tokens than asked for."""
    answer: dict[str, Any] = {}
    for name, bounds in schema.items():
        value = seen[name]
        most = bounds.get("maxItems" if isinstance(value, list) else "maxLength")
        answer[name] = value[:most] if most else value
    while tokens(encoded := json.dumps(answer, ensure_ascii=False)) > max_tokens and answer.get("text"):
        answer["text"] = answer["text"][: len(answer["text"]) * 3 // 4]
    return encoded


def tokens(text: str) -> int:
    ascii_count = sum(character.isascii() for character in text)
    return math.ceil(ascii_count / 4) + len(text) - ascii_count


def completion(reader: Reader, body: dict[str, Any]) -> dict[str, Any]:
    if body.get("stream"):
        raise Refused("answers are not streamed")
    schema = wanted_fields(body)
    max_tokens = body.get("max_tokens") or 1_024
    pixels, characters = picture_of(body)
    text = fitted(described(pixels, reader.lines(pixels)), schema, int(max_tokens))
    height, width = pixels.shape[:2]
    read = math.ceil(characters / 4) + math.ceil(width / PATCH) * math.ceil(height / PATCH)
    written = tokens(text)
    return {
        "object": "chat.completion",
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


def handler_of(reader: Reader) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def do_GET(self) -> None:
            self._answer(200 if reader.is_loaded else 503, {"status": "ok" if reader.is_loaded else "loading"})

        def do_POST(self) -> None:
            if self.path != "/v1/chat/completions":
                self._refuse(404, "not_found", "there is no such path")
            elif not reader.is_loaded:
                self._refuse(503, "loading", "the networks are loading")
            else:
                self._complete()

        def _complete(self) -> None:
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > BODY_BYTES:
                self._refuse(413, "invalid_request_error", "the request is too large")
                return
            try:
                body = json.loads(self.rfile.read(int(length)))
                if not isinstance(body, dict):
                    raise Refused("the request is no JSON object")
                self._answer(200, completion(reader, body))
            except Refused as error:
                self._refuse(400, "invalid_request_error", str(error))
            except (ValueError, TypeError, AttributeError, RecursionError):
                self._refuse(400, "invalid_request_error", "the request is not of the protocol")

        def _refuse(self, status: int, kind: str, message: str) -> None:
            self._answer(status, {"error": {"type": kind, "message": message}})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_line: object) -> None:
            pass

    return Handler


def main(port: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    reader = Reader()
    server = ThreadingHTTPServer(("127.0.0.1", port), handler_of(reader))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    print(f"listening on port {port}, the networks are loading", flush=True)
    reader.load()
    print("loaded", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]))
