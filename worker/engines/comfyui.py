"""Sends a step to a ComfyUI server of the operator as a workflow, follows its progress and brings the picture back."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from artiway.platform.outbound import OutboundError
from worker.engines.ask import ANSWER_BYTES, Ask, ServerEngine, checked, multipart, png, received
from worker.engines.base import Report
from worker.engines.websocket import SocketClosed, WebSocket
from worker.errors import EngineBusy, EngineFailed, EngineNotInstalled
from worker.pictures import Picture
from worker.steps import Step

# The workflow of each step. An operator's folder may replace any of them.
WORKFLOWS: Mapping[str, str] = {
    "img2img": "img2img",
    "derive": "img2img",
    "erase": "inpaint",
    "repaint": "inpaint",
    "extend": "outpaint",
    "scene": "scene",
    "figure": "try_on",
}
CALL_S, CONNECT_S, CANCEL_S, LONGEST_S = 30.0, 10.0, 0.5, 3_600.0
WATCH_S, POLL_S = 0.25, 1.0
_PLACE = re.compile(r"\{\{([a-z_]+)\}\}")
Json = dict[str, Any]


@dataclass(frozen=True)
class ComfySettings:
    url: str = ""
    checkpoint: str = "sd_xl_base_1.0.safetensors"
    folder: str = ""


def workflow(name: str, folder: str = "") -> Json:
    own = Path(folder) / f"{name}.json" if folder else None
    text = own.read_text("utf-8") if own and own.exists() else (files("worker") / f"workflows/{name}.json").read_text()
    found = json.loads(text)
    if not isinstance(found, dict):
        raise EngineNotInstalled(f"the workflow {name} is not an object of nodes")
    return found


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """The workflow with its placeholders replaced: a whole text by the value itself, a part of a text by its text."""
    if isinstance(value, dict):
        return {key: filled(one, values) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, values) for one in value]
    if not isinstance(value, str):
        return value
    unknown = [name for name in _PLACE.findall(value) if name not in values]
    if unknown:
        raise EngineNotInstalled(f"the workflow has an unknown placeholder {unknown[0]}")
    whole = _PLACE.fullmatch(value)
    return values[whole[1]] if whole else _PLACE.sub(lambda found: str(values[found[1]]), value)


class ComfyEngine(ServerEngine):
    name = "comfyui"
    address_variable = "ARTIWAY_COMFYUI_URL"
    steps = frozenset(WORKFLOWS)

    def __init__(self, settings: ComfySettings) -> None:
        super().__init__(settings.url)
        self._settings = settings

    def _make(self, step: Step, ask: Ask, report: Report) -> tuple[Picture, str]:
        name = WORKFLOWS[step.name]
        graph = filled(workflow(name, self._settings.folder), self._values(ask))
        report(8)
        made = self._made(graph, report)
        return made, f"workflow {name} on the operator's ComfyUI, checkpoint {self._settings.checkpoint}"

    def _values(self, ask: Ask) -> Json:
        values: Json = {
            "prompt": ask.prompt,
            "seed": ask.seed % 2**53,
            "denoise": round(ask.denoise, 3),
            "width": ask.size[0],
            "height": ask.size[1],
            "left": ask.sides[0],
            "right": ask.sides[1],
            "top": ask.sides[2],
            "bottom": ask.sides[3],
            "checkpoint": self._settings.checkpoint,
        }
        if ask.picture is not None:
            values["image"] = self._upload(png(ask.picture))
        if ask.mask is not None:
            values["mask"] = self._upload(png(Picture(ask.mask[:, :, None].repeat(3, axis=2))))
        return values

    def _upload(self, data: bytes) -> str:
        name = f"artiway-{uuid4().hex}.png"
        kind, body = multipart({"overwrite": "true", "type": "input"}, {"image": (name, data)})
        answer = self._json("POST", "/upload/image", body, kind)
        folder = str(answer.get("subfolder") or "")
        return f"{folder}/{answer.get('name', name)}" if folder else str(answer.get("name", name))

    def _made(self, graph: Json, report: Report) -> Picture:
        client_id = uuid4().hex
        with self._socket(client_id) as socket:  # before the workflow is queued, so that no message is missed
            body = json.dumps({"prompt": graph, "client_id": client_id}).encode()
            prompt_id = self._json("POST", "/prompt", body).get("prompt_id")
            if not isinstance(prompt_id, str) or not re.fullmatch(r"[A-Za-z0-9-]{1,64}", prompt_id):
                raise EngineFailed("ComfyUI's answer has no prompt_id")
            try:
                outputs = self._outputs(socket, prompt_id, report)
                return self._view(outputs)
            except BaseException:
                self._cancel(prompt_id)
                raise

    @contextlib.contextmanager
    def _socket(self, client_id: str) -> Iterator[WebSocket | None]:
        """The server's messages; None where it offers none, then its history is polled."""
        try:
            target, connection = self._client.connect(f"{self._url}/ws?clientId={client_id}", deadline_s=CONNECT_S)
            try:
                socket = WebSocket(connection, target.authority, target.path, deadline_s=LONGEST_S)
            except BaseException:
                connection.close()
                raise
        except (SocketClosed, OutboundError, OSError):
            yield None
            return
        try:
            yield socket
        finally:
            socket.close()

    def _outputs(self, socket: WebSocket | None, prompt_id: str, report: Report) -> Json:
        percent, asked_at = 10.0, time.monotonic()
        while True:
            report(percent)  # raises when the attempt is to stop
            text = None
            if socket is not None:
                try:
                    text = socket.receive(WATCH_S)
                except SocketClosed:
                    socket = None
            else:
                time.sleep(WATCH_S)
            message = message_of(text, prompt_id)
            if message.get("type") == "progress":
                data = message["data"]
                percent = max(percent, min(90.0, 10 + 80 * float(data["value"]) / max(1.0, float(data["max"]))))
            is_done = message.get("type") in ("execution_success", "done")
            # Messages may be lost: the history is the truth, so it is read now and then as well.
            if is_done or time.monotonic() - asked_at > POLL_S:
                asked_at = time.monotonic()
                if (found := self._history(prompt_id)) is not None:
                    return found

    def _history(self, prompt_id: str) -> Json | None:
        entry = self._json("GET", f"/history/{prompt_id}").get(prompt_id)
        if not isinstance(entry, dict):
            return None
        status = entry.get("status") or {}
        if status.get("status_str") == "error":
            raise EngineFailed(f"ComfyUI could not run the workflow: {error_of(status)}")
        # A workflow that ended has its outputs in the same answer; without any, more polls find none either.
        return entry if entry.get("outputs") or status.get("status_str") == "success" else None

    def _view(self, entry: Json) -> Picture:
        query = urlencode(saved_picture(entry))
        answer = self._client.call("GET", f"{self._url}/view?{query}", deadline_s=CALL_S, answer_bytes=ANSWER_BYTES)
        return received(checked(answer, "/view").body)

    def _cancel(self, prompt_id: str) -> None:
        """Best effort: out of the queue, and out of the GPU if it runs."""
        for path, body in (("/queue", {"delete": [prompt_id]}), ("/interrupt", {"prompt_id": prompt_id})):
            with contextlib.suppress(OutboundError):
                self._client.call(
                    "POST",
                    f"{self._url}{path}",
                    deadline_s=CANCEL_S,
                    headers={"Content-Type": "application/json"},
                    body=json.dumps(body).encode(),
                )

    def _json(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Json:
        headers = {"Content-Type": kind} if body is not None else {}
        answer = self._client.call(method, f"{self._url}{path}", deadline_s=CALL_S, headers=headers, body=body)
        try:
            found = json.loads(checked(answer, path.partition("?")[0]).body)
        except ValueError as error:
            raise EngineFailed("ComfyUI's answer is not JSON") from error
        if not isinstance(found, dict):
            raise EngineFailed("ComfyUI's answer is not an object")
        return found


def saved_picture(entry: Json) -> dict[str, str]:
    """The last picture that the workflow saved, else the last that it showed."""
    try:
        images = [one for output in (entry.get("outputs") or {}).values() for one in output.get("images", ())]
        last = ([one for one in images if one.get("type") == "output"] or images)[-1]
        return {key: str(last.get(key, "")) for key in ("subfolder", "type")} | {"filename": str(last["filename"])}
    except (LookupError, AttributeError, TypeError) as error:
        raise EngineFailed("the workflow made no picture") from error


def message_of(text: str | None, prompt_id: str) -> Json:
    """A message about our workflow; empty for all others. Its end is named `done`."""
    try:
        message = json.loads(text or "{}")
        data = message.get("data") or {}
        if data.get("prompt_id") != prompt_id:
            return {}
        if message.get("type") == "execution_error":
            raise EngineFailed(f"ComfyUI could not run the workflow: {str(data.get('exception_message'))[:200]}")
        if message.get("type") == "execution_interrupted":
            raise EngineBusy("the workflow was interrupted on the server")
        if message.get("type") == "progress" and not ({"value", "max"} <= data.keys()):
            return {}
        if message.get("type") == "executing" and data.get("node") is None:
            return {"type": "done"}
        return dict(message)
    except (ValueError, AttributeError, TypeError):
        return {}


def error_of(status: Mapping[str, Any]) -> str:
    for kind, data in status.get("messages") or ():
        if kind == "execution_error":
            return str(data.get("exception_message"))[:200]
    return "no reason given"
