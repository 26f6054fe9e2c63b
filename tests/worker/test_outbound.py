"""The layer's outbound client in the worker's environment, with the modules of the image."""

from __future__ import annotations

import ast
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from artiway.platform.outbound import Client, TargetRefused
from tests.worker.test_container import ROOT, SHARED, image

__all__ = ["image"]
OUTBOUND = "artiway.platform.outbound"
# The modules of the layer in the image.
IN_IMAGE = {
    f"artiway/{name}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for name in SHARED
    if name.endswith(".py")
}


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


@pytest.fixture
def port():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_client_calls_only_allowed_private_targets(port):
    url = f"http://127.0.0.1:{port}/"
    assert Client(allowed=frozenset({("127.0.0.1", port)})).call("GET", url, deadline_s=30).body == b"hello"
    with pytest.raises(TargetRefused):
        Client().call("GET", url, deadline_s=30)


def test_image_has_the_client_without_the_layer(image, port):
    script = (
        f"from {OUTBOUND} import Client, parse_targets;"
        f"print(Client(allowed=parse_targets('127.0.0.1:{port}'))"
        f".call('GET', 'http://127.0.0.1:{port}/', deadline_s=30).body.decode())"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(image)}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=image, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("hello\n", "")


def test_worker_imports_no_other_layer_module():
    found = set()
    for file in (ROOT / "worker").rglob("*.py"):
        for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    assert {name for name in found if name.partition(".")[0] == "artiway"} <= IN_IMAGE
