"""The language model's process: installed behind, started again after a crash, ended with the stack."""

from __future__ import annotations

import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from local import text_model
from local.servers import free_port, port_is_free
from local.text_model import TextModel, is_healthy

READY_S = 60
# In the place of `python text_model_main.py <port>`: answers /health and nothing else.
SERVER = """#!{python}
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


class Reports:
    """The lines of the stack's output, and a wait for one of them."""

    def __init__(self):
        self.lines = []
        self._changed = threading.Condition()

    def __call__(self, line):
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def wait_for(self, text, count=1):
        with self._changed:
            found = self._changed.wait_for(lambda: sum(text in line for line in self.lines) >= count, READY_S)
            assert found, self.lines


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def environment(tmp_path):
    """An environment whose interpreter is a small server."""
    import sys

    place = tmp_path / "llm"
    program = place / "bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(SERVER.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (place / text_model.READY).touch()
    return place


def test_process_is_started_again_and_ends(tmp_path, reports, environment):
    model, port = TextModel(tmp_path / "home", environment=environment), free_port()
    model.start(port, reports)
    try:
        reports.wait_for("language model on port")
        assert is_healthy(port)
        (pid,) = model.pids()
        os.kill(pid, signal.SIGKILL)
        reports.wait_for("ended with status -9")
        reports.wait_for("language model on port", count=2)
        assert model.pids() != [pid]
    finally:
        model.stop()
    assert port_is_free(port)
    assert model.pids() == []
    assert list((tmp_path / "home/processes").iterdir()) == []


def test_missing_model_is_installed_behind(tmp_path, reports, environment, monkeypatch):
    (environment / text_model.READY).unlink()
    (tmp_path / "Makefile").write_text(f".tools/llm/.ready:\n\t@touch {environment / text_model.READY}\n")
    monkeypatch.setattr(text_model, "ROOT", tmp_path)
    model = TextModel(tmp_path / "home", environment=environment)
    model.start(free_port(), reports)
    try:
        assert model.wait_until_ready(READY_S), reports.lines
    finally:
        model.stop()
    assert [line.partition(":")[2].split()[0] for line in reports.lines[:2]] == ["downloading", "installed"]


def test_failed_download_is_reported(tmp_path, reports, environment, monkeypatch):
    (environment / text_model.READY).unlink()
    (tmp_path / "Makefile").write_text(".tools/llm/.ready:\n\t@false\n")
    monkeypatch.setattr(text_model, "ROOT", tmp_path)
    model = TextModel(tmp_path / "home", environment=environment)
    model.start(free_port(), reports)
    reports.wait_for("was not installed")
    model.stop()


def test_stop_ends_a_download(tmp_path, reports, environment, monkeypatch):
    (environment / text_model.READY).unlink()
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    (tmp_path / "Makefile").write_text(f".tools/llm/.ready:\n\t@echo $$$$ > {pid_file}; exec sleep 600\n")
    monkeypatch.setattr(text_model, "ROOT", tmp_path)
    model = TextModel(tmp_path / "home", environment=environment)
    model.start(free_port(), reports)
    pid = int(pid_file.read_text())  # waits for the download
    model.stop()
    assert not _is_running(pid)


def _is_running(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_document_routes_every_service_to_model():
    from artiway.generations import services
    from artiway.generations.providers.routes import parse

    routes = parse(text_model.document(8_123))
    for service in services.load():
        for is_paid in (True, False):
            assert [target.name for target in routes.of(service, is_paid=is_paid)] == ["local/smollm2-135m"]
    assert routes.places() == {("127.0.0.1", 8_123)}
