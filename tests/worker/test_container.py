"""The image as far as it can be checked without a build: copied files, variables, pins, entry point."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.worker.emulator import free_port, until
from worker.settings import WorkerSettings

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "worker/Dockerfile").read_text("utf-8").replace("\\\n", " ")
LINES = [line for line in TEXT.splitlines() if line and not line.startswith("#")]


# The modules of the layer that workers share. They import only the standard library and pydantic.
SHARED = [
    "__init__.py",
    "platform/__init__.py",
    "platform/outbound.py",
    "tasks/__init__.py",
    "tasks/catalogue.toml",
    "tasks/contract.py",
    "tasks/parameters.py",
]


def of(word: str) -> list[str]:
    """The arguments of each instruction with this name."""
    return [line.split(maxsplit=1)[1] for line in LINES if line.split()[0] == word]


def arguments() -> dict[str, str]:
    """The default of each build argument."""
    return dict(line.split("=", 1) for line in of("ARG"))


def variables() -> dict[str, str]:
    return dict(part.split("=", 1) for line in of("ENV") for part in shlex.split(line))


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / lock).read_text("utf-8"), re.MULTILINE))


def is_sent(path: str) -> bool:
    """Whether Docker sends a file to the build. The last matching pattern decides; a folder covers its files."""
    answer = True
    for pattern in (ROOT / "worker/Dockerfile.dockerignore").read_text("utf-8").split():
        wanted = pattern.lstrip("!")
        heads = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
        # Two stars match any number of folders, including none.
        fits = any(fnmatch(head, form) for head in heads for form in (wanted, wanted.replace("/**/", "/")))
        answer = pattern.startswith("!") if fits else answer
    return answer


def copied() -> list[tuple[str, str]]:
    """(source, target) of each COPY from the build context."""
    pairs = []
    for line in of("COPY"):
        if not line.startswith("--from"):
            *sources, target_folder = line.split()
            pairs += [(source.replace("$LOCK", arguments()["LOCK"]), target_folder) for source in sources]
    return pairs


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder /srv of the image, copied from the build context."""
    for source, target_folder in copied():
        if not target_folder.startswith("/srv/"):
            continue
        root = ROOT / source
        for file in [root] if root.is_file() else root.rglob("*"):
            name = str(file.relative_to(ROOT))
            if not file.is_file() or not is_sent(name):
                continue
            inside = str(file.relative_to(root)) if root.is_dir() else root.name if target_folder.endswith("/") else ""
            target = tmp_path / target_folder.removeprefix("/srv/") / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return tmp_path


def test_copied_files_exist_and_reach_the_build():
    for source, _ in copied():
        assert (ROOT / source).exists()
        assert is_sent(source)


def test_image_holds_only_worker_and_shared_modules(image):
    assert sorted(entry.name for entry in image.iterdir()) == ["artiway", "worker"]
    shared = sorted(str(path.relative_to(image / "artiway")) for path in (image / "artiway").rglob("*.*"))
    assert shared == SHARED
    assert is_sent("worker/engines/preview/cutout.py")
    for path in ("template.yaml", ".git/config", "layers/core/artiway/ids.py", "worker/__pycache__/loop.pyc"):
        assert not is_sent(path), path


def test_image_variables_are_settings_of_the_worker():
    names = {name.removeprefix("ARTIWAY_").lower() for name in variables() if name.startswith("ARTIWAY_")}
    assert names == {"model_folder", "beat_file"}
    assert names <= set(WorkerSettings.model_fields)


def test_cuda_version_matches_the_locked_wheels():
    base = arguments()["BASE"]
    (locked,) = [name for name in pins("worker/gpu.lock") if name.startswith("nvidia-cudnn-cu")]
    assert re.findall(r"cuda:(\d+)\.", base) == re.findall(r"cu(\d+)$", locked)


@pytest.mark.parametrize("lock", ["cpu.lock", "gpu.lock"])
def test_tests_run_with_the_versions_of_the_image(lock):
    ours, theirs = pins("tools/worker.lock"), pins(f"worker/{lock}")
    wanted = [line for line in (ROOT / "worker/runtime.in").read_text("utf-8").split("\n") if re.match(r"[a-z]", line)]
    assert {name: theirs.get(name) for name in wanted} == {name: ours[name] for name in wanted}


def test_image_python_matches_its_lock():
    documented = (ROOT / "docs/worker.md").read_text("utf-8")
    commands = documented.replace("\\\n", "")
    locked = dict(re.findall(r"--python-version (3\.\d+) .* worker/(\w+)\.in", commands))
    cpu = dict(re.findall(r"--build-arg (\w+)=(\S+)", documented))
    for chosen in (arguments(), arguments() | cpu):
        assert locked[chosen["PYTHON"].removeprefix("python")] == chosen["LOCK"].removesuffix(".lock")
    assert cpu.keys() == arguments().keys()


def test_image_has_no_pip_or_compiler():
    (final,) = re.findall(r"^FROM \$BASE\n(.*)", TEXT, re.MULTILINE | re.DOTALL)
    assert "--without-pip /opt/worker" in TEXT
    (installed,) = re.findall(r"apt-get install -y --no-install-recommends ([^&]*)", final)
    assert installed.split() == ["$PYTHON", "ca-certificates"]


def test_entry_point_starts_and_stops_on_its_signal(image):
    (entry,), (stop,) = of("ENTRYPOINT"), of("STOPSIGNAL")
    command = json.loads(entry)
    assert command[0] == "python"
    log = image / "log"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(image),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",  # no server listens there
        "ARTIWAY_INTERNAL_FUNCTION": "InternalFunction",
        "ARTIWAY_WORK_QUEUE_URLS": '{"cutout": "http://127.0.0.1:1/q"}',
        "ARTIWAY_PROGRESS_QUEUE_URL": "http://127.0.0.1:1/p",
        "ARTIWAY_ARTEFACT_BUCKET": "artefacts",
        **{name: value for name, value in variables().items() if name not in ("PATH", "PYTHONPATH")},
        "ARTIWAY_MODEL_FOLDER": str(image / "models"),
        "ARTIWAY_BEAT_FILE": str(image / "beat"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command[1:]], cwd=image, env=environment, stdout=output, stderr=output
        )
    try:
        until(lambda: "not registered yet" in log.read_text() or process.poll() is not None)
        process.send_signal(signal.Signals[stop])
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("age_s", "status"), [(5, 0), (300, 1), (None, 1)])
def test_health_check_accepts_only_a_fresh_heartbeat(tmp_path, age_s, status):
    (line,) = of("HEALTHCHECK")
    command = json.loads(line[line.index("CMD") + 3 :])
    file = tmp_path / "beat"
    if age_s is not None:
        file.touch()
        then = file.stat().st_mtime - age_s
        os.utime(file, (then, then))
    script = command[-1].replace(variables()["ARTIWAY_BEAT_FILE"], str(file))
    assert script != command[-1]
    ran = subprocess.run([sys.executable, *command[1:-1], script], capture_output=True, check=False)
    assert ran.returncode == status
