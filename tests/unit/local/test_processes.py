from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from local.processes import Processes, holder_of, identity


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"], stdout=-1)


def test_next_run_ends_processes_of_killed_run(tmp_path: Path) -> None:
    with sleeper() as child:
        assert child.stdout is not None
        child.stdout.readline()
        Processes(tmp_path).add(child.pid)
        assert Processes(tmp_path).end_leftovers() == [child.pid]
        assert child.wait(10) != 0
    assert Processes(tmp_path).end_leftovers() == []


def test_other_process_with_recorded_pid_is_not_killed(tmp_path: Path) -> None:
    with sleeper() as child:
        Processes(tmp_path).add(child.pid)
        (tmp_path / "processes" / str(child.pid)).write_text(f"{child.pid} 1")
        assert Processes(tmp_path).end_leftovers() == []
        assert child.poll() is None
        child.kill()


def test_removed_process_is_no_leftover(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.add(os.getpid())
    processes.remove(os.getpid())
    assert processes.end_leftovers() == []


def test_ended_process_has_no_identity() -> None:
    with sleeper() as child:
        assert identity(child.pid) == identity(child.pid) != ""
        child.kill()
        child.wait()
        assert identity(child.pid) == ""


def test_the_holder_of_a_port_is_named() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert f"pid {os.getpid()}" in holder_of(port)
    assert holder_of(port) == ""
