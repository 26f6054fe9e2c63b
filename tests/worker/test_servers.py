"""The engines that send a step to an operator's server, against stand-ins that speak the servers' protocols."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tests.worker.fakes import FakeObjects, FakeStore, settings
from worker.child import StopRequested
from worker.engines.comfyui import (
    WORKFLOWS,
    ComfyEngine,
    ComfySettings,
    filled,
    workflow,
)
from worker.engines.images_api import ImagesEngine, ImagesSettings
from worker.engines.websocket import GUID
from worker.engines.weights import Weights
from worker.errors import EngineBusy, EngineFailed, EngineNotInstalled
from worker.pictures import Limits, Picture, decode, encode
from worker.runner import Runner
from worker.steps import COMFYUI_STEPS, read_params, step_of
from worker.transfer import Transfer

RED = Picture(np.full((96, 128, 3), (200, 30, 30), np.uint8))
PROMPT_ID = "0f3c-11"


def form(headers, body):
    """The parts of a form, as a server reads them."""
    border = re.search(r"boundary=(\S+)", headers["Content-Type"])[1].encode()
    found = {}
    for part in body.split(b"--" + border)[1:-1]:
        head, _, data = part.partition(b"\r\n\r\n")
        found[re.search(rb'name="([^"]+)"', head)[1].decode()] = data[:-2]
    return found


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def finish(self):
        with contextlib.suppress(OSError):  # a client that cancels closes its connection
            super().finish()

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, data, status=200, kind="application/json"):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        with contextlib.suppress(OSError):
            self.end_headers()
            self.wfile.write(data)


class Comfy(Server):
    """ComfyUI: uploads, a queue of workflows, messages over a WebSocket, a history and the pictures."""

    def do_POST(self):
        state, body = self.server.state, self.body()
        path = urlsplit(self.path).path
        state["calls"].append(path)
        if path == "/upload/image":
            name = f"up{len(state['uploads'])}.png"
            state["uploads"][name] = form(self.headers, body)["image"]
            self.answer({"name": name, "subfolder": "", "type": "input"})
        elif path == "/prompt":
            state["prompt"] = json.loads(body)["prompt"]
            if state["refuses"]:
                self.answer({"error": {"message": "no such checkpoint"}, "node_errors": {}}, 400)
                return
            self.answer({"prompt_id": PROMPT_ID, "number": 1, "node_errors": {}} if not state["garbage"] else b"<html>")
            state["queued"].set()
        elif path in ("/queue", "/interrupt"):
            state["cancelled"].append((path, json.loads(body)))
            self.answer({})

    def do_GET(self):
        state, place = self.server.state, urlsplit(self.path)
        if place.path == "/ws":
            self.messages(state)
        elif place.path == f"/history/{PROMPT_ID}":
            self.answer({PROMPT_ID: state["entry"]} if state["entry"] else {})
        elif place.path == "/view":
            state["viewed"] = parse_qs(place.query)
            self.answer(state["made"], kind="image/png")
        else:
            self.answer({}, 404)

    def messages(self, state):
        if not state["sockets"]:
            self.answer({}, 404)
            return
        accept = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + GUID).digest())
        self.wfile.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        self.close_connection = True
        state["queued"].wait(30)
        for message in state["messages"]:
            if callable(message):
                message(state)
                continue
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            size = bytes([len(data)]) if len(data) < 126 else bytes([126]) + struct.pack(">H", len(data))
            self.wfile.write(bytes([0x82 if isinstance(message, bytes) else 0x81]) + size + data)
            self.wfile.flush()
        state["over"].wait(30)


def message(kind, **data):
    return {"type": kind, "data": {"prompt_id": PROMPT_ID, **data}}


def complete(state):
    image = {"filename": "artiway_1.png", "subfolder": "", "type": "output"}
    state["entry"] = {
        "outputs": {"9": {"images": [image]}},
        "status": {"status_str": "success"},
    }


@pytest.fixture
def serve():
    servers = []

    def start(handler, **state):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.state = state
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}", state

    yield start
    for server, thread in servers:
        for event in ("queued", "over"):
            server.state.get(event, threading.Event()).set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def comfy(serve):
    def start(**changes):
        made = encode(Picture(np.full((96, 128, 3), (10, 90, 220), np.uint8)), "png", 90)
        progress = [message("progress", value=step, max=4, node="7") for step in range(1, 5)]
        state = {
            "calls": [], "uploads": {}, "refuses": False, "garbage": False, "queued": threading.Event(),
            "over": threading.Event(), "cancelled": [], "sockets": True, "entry": None, "made": made,
            "messages": [b"\x00preview", *progress, complete, message("executing", node=None)],
        }  # fmt: skip
        return serve(Comfy, **{**state, **changes})

    return start


def run(engine, step_type, step, inputs, report=lambda _percent: None, **params):
    wanted = step_of(step_type, {"step": step})
    engine.load(wanted, None)
    return engine.run(wanted, None, inputs, read_params(wanted, params), report)


def comfy_engine(url):
    return ComfyEngine(ComfySettings(url=url, checkpoint="shop.safetensors"))


def test_comfyui_repaints_inside_the_mask_only(comfy):
    url, state = comfy()
    seen = []
    made, info = run(
        comfy_engine(url), "extend", "repaint", {"product": RED}, seen.append,
        regions=[[0.25, 0.25, 0.5, 0.5]], prompt="a blue heart", seed=7,
    )  # fmt: skip
    assert (info.name, info.is_neural) == ("comfyui", True)
    assert tuple(made.rgb[48, 64]) == (10, 90, 220)
    assert np.array_equal(made.rgb[:20], RED.rgb[:20])
    assert state["prompt"]["2"]["inputs"]["text"] == "a blue heart"
    assert state["prompt"]["7"]["inputs"]["seed"] == 7
    assert state["prompt"]["1"]["inputs"]["ckpt_name"] == "shop.safetensors"
    mask = decode(state["uploads"][state["prompt"]["5"]["inputs"]["image"]], Limits()).rgb
    assert (mask[48, 64].max(), mask[5, 5].max()) == (255, 0)
    assert seen == sorted(seen)
    assert max(seen) > 80
    assert state["cancelled"] == []


def test_comfyui_extends_and_keeps_the_original(comfy):
    url, state = comfy(made=encode(Picture(np.full((144, 192, 3), 77, np.uint8)), "png", 90))
    made, _ = run(comfy_engine(url), "extend", "extend", {"product": RED})
    assert (made.width, made.height) == (192, 144)
    assert np.array_equal(made.rgb[24:120, 32:160], RED.rgb)
    assert tuple(made.rgb[2, 2]) == (77, 77, 77)
    assert state["prompt"]["5"]["inputs"]["left"] == 32


def test_comfyui_without_messages_is_polled(comfy):
    url, state = comfy(sockets=False)
    complete(state)
    made, _ = run(comfy_engine(url), "model", "img2img", {"product": RED}, prompt="blue")
    assert tuple(made.rgb[0, 0]) == (10, 90, 220)


def test_cancel_reaches_the_comfyui_server(comfy):
    url, state = comfy(messages=[message("progress", value=1, max=20, node="7")])

    def report(percent):
        if percent > 12:
            raise StopRequested

    with pytest.raises(StopRequested):
        run(comfy_engine(url), "model", "img2img", {"product": RED}, report)
    assert dict(state["cancelled"]) == {
        "/queue": {"delete": [PROMPT_ID]},
        "/interrupt": {"prompt_id": PROMPT_ID},
    }


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"refuses": True}, EngineNotInstalled),
        ({"garbage": True}, EngineFailed),
        ({"made": b"no picture", "entry": "done"}, EngineFailed),
        (
            {"messages": [message("execution_error", exception_message="CUDA out of memory")]},
            EngineFailed,
        ),
        ({"messages": [message("execution_interrupted")]}, EngineBusy),
    ],
)
def test_bad_answers_of_comfyui_are_errors(comfy, changes, error):
    url, state = comfy(**changes)
    if changes.get("entry"):
        complete(state)
    with pytest.raises(error):
        run(comfy_engine(url), "model", "img2img", {"product": RED})


@pytest.mark.parametrize(
    "outputs", [{}, None, {"9": {"text": ["seen"]}}, {"9": {"images": [{"type": "output"}]}}, {"9": ["images"]}]
)
def test_workflow_without_a_picture_is_an_error(comfy, outputs):
    url, _ = comfy(sockets=False, entry={"status": {"status_str": "success"}, "outputs": outputs})
    with pytest.raises(EngineFailed, match="made no picture"):
        run(comfy_engine(url), "model", "img2img", {"product": RED})


def test_workflow_that_failed_is_found_in_history(comfy):
    failed = {
        "status": {
            "status_str": "error",
            "messages": [["execution_error", {"exception_message": "no VAE"}]],
        }
    }
    url, _ = comfy(sockets=False, entry=failed)
    with pytest.raises(EngineFailed, match="no VAE"):
        run(comfy_engine(url), "model", "img2img", {"product": RED})


def test_server_that_is_away_is_retried():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineBusy):
            run(comfy_engine(url), "model", "img2img", {"product": RED})


def test_every_step_has_a_complete_workflow():
    names = "prompt seed denoise width height left right top bottom checkpoint image mask"
    values = dict.fromkeys(names.split(), 1)
    assert set(WORKFLOWS) == COMFYUI_STEPS
    for name in set(WORKFLOWS.values()):
        assert "{{" not in json.dumps(filled(workflow(name), values))
    with pytest.raises(EngineNotInstalled, match="unknown placeholder"):
        filled({"a": "{{nothing}}"}, values)


def test_own_workflow_replaces_the_shipped_one(tmp_path):
    (tmp_path / "scene.json").write_text('{"1": {"inputs": {"text": "shop: {{prompt}}"}}}')
    found = filled(workflow("scene", str(tmp_path)), {"prompt": "beach"})
    assert found["1"]["inputs"]["text"] == "shop: beach"
    assert workflow("inpaint", str(tmp_path)) == workflow("inpaint")


class Images(Server):
    """The images API: one form in, one picture in base64 out."""

    def do_POST(self):
        state = self.server.state
        state["form"] = form(self.headers, self.body())
        state["key"] = self.headers.get("Authorization")
        if state["waits"]:
            state["over"].wait(30)
        self.answer(state["body"], state["status"])


@pytest.fixture
def images(serve):
    def start(**changes):
        data = base64.b64encode(encode(Picture(np.full((64, 64, 3), (0, 200, 0), np.uint8)), "png", 90)).decode()
        state = {
            "body": {"data": [{"b64_json": data}]},
            "status": 200,
            "waits": False,
            "over": threading.Event(),
        }
        url, state = serve(Images, **{**state, **changes})
        return ImagesEngine(ImagesSettings(f"{url}/v1", key="sk-shop", model="m1")), state

    return start


def test_images_api_gets_a_mask_transparent_to_change(images):
    engine, state = images()
    made, info = run(engine, "extend", "erase", {"product": RED}, regions=[[0.5, 0, 0.5, 1]])
    assert (info.name, info.is_neural) == ("images_api", True)
    assert tuple(made.rgb[50, 120]) == (0, 200, 0)
    assert np.array_equal(made.rgb[:, :60], RED.rgb[:, :60])
    mask = decode(state["form"]["mask"], Limits())
    assert (mask.alpha[50, 120], mask.alpha[50, 5]) == (0, 255)
    assert (state["form"]["model"], state["key"]) == (b"m1", "Bearer sk-shop")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"status": 401, "body": {"error": "key"}}, EngineNotInstalled),
        ({"status": 429, "body": {}}, EngineBusy),
        ({"status": 503, "body": {}}, EngineBusy),
        ({"body": {"data": []}}, EngineFailed),
        ({"body": {"data": [{"b64_json": "%%%"}]}}, EngineFailed),
        ({"body": b"<html>"}, EngineFailed),
    ],
)
def test_bad_answers_of_images_api_are_errors(images, changes, error):
    engine, _ = images(**changes)
    with pytest.raises(error):
        run(engine, "model", "img2img", {"product": RED})


def test_cancel_ends_a_call_of_images_api(images):
    engine, state = images(waits=True)
    calls = iter(range(100))

    def report(_percent):
        if next(calls) > 3:
            raise StopRequested

    with pytest.raises(StopRequested):
        run(engine, "model", "img2img", {"product": RED}, report)
    assert "prompt" in state["form"]


def test_engine_without_an_address_is_not_installed():
    with pytest.raises(EngineNotInstalled, match="ARTIWAY_COMFYUI_URL"):
        ComfyEngine(ComfySettings())
    with pytest.raises(EngineNotInstalled, match="ARTIWAY_IMAGES_API_URL"):
        ImagesEngine(ImagesSettings())


def test_worker_with_a_server_reports_its_steps():
    config = settings(
        work_queue_urls={"extend": "q"},
        engines={"extend": "comfyui,preview"},
        comfyui_url="http://studio:8188",
    )
    runner = Runner(config, Transfer(FakeObjects()), Weights(FakeStore(), config))
    assert runner.neural_steps() == ["extend", "erase", "repaint"]
