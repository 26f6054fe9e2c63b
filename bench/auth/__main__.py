"""Token verification, passwords, and the authorizer's cold import: `python -m bench.auth`.

Each operation runs beside the bare library in the same run, in random order, so that other load affects both equally.
Imports are timed in fresh interpreters with bytecode, as in a warm Lambda image.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import jwt

from artiway.identity import tokens
from artiway.identity.passwords import Argon2Passwords
from artiway.identity.token_verifier import Verifier
from tests.fakes.identity import LocalSigner

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench/results/auth.json"
ROUNDS = 2_000
HASHES = 30
IMPORTS = 25
GOAL_IMPORT_RATIO = 1.2
# The libraries that the authorizer needs.
BARE = "import jwt, cryptography"
AUTHORIZER = "import app"
TIMED = "import time; began = time.process_time(); {}; print(time.process_time() - began)"


def percentiles(samples_s: list[float]) -> dict[str, float]:
    ranked = sorted(samples_s)
    return {
        f"p{share}_us": round(ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))] * 1e6, 1)
        for share in (50, 95, 99)
    }


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    samples: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways.items())
    for number in range(rounds + rounds // 10):
        random.shuffle(order)
        for name, way in order:
            began = time.perf_counter()
            way()
            took = time.perf_counter() - began
            if number >= rounds // 10:  # the first rounds warm up
                samples[name].append(took)
    return {name: percentiles(taken) for name, taken in samples.items()}


def verification() -> dict[str, dict[str, float]]:
    signer = LocalSigner()
    jwk = signer.jwk()
    verifier = Verifier(json.dumps({"keys": [jwk]}), issuer="artiway")
    token = tokens.issue(
        signer,
        issuer="artiway",
        tenant_id=uuid4(),
        user_id=uuid4(),
        permissions=("task.submit", "task.read", "task.cancel", "points.read", "order.create"),
        family_id=str(uuid4()),
        now=datetime.now(UTC),
    )
    key = jwt.PyJWK(jwk, "ES256")
    options = {"algorithms": ["ES256"], "audience": tokens.AUDIENCE, "issuer": "artiway"}
    return measure(
        {
            "token verification": lambda: verifier.verify(token),
            "bare jwt.decode": lambda: jwt.decode(token, key=key, **options),
        },
        ROUNDS,
    )


def passwords() -> dict[str, dict[str, float]]:
    hasher = Argon2Passwords()
    stored = hasher.hash("correct horse")
    return measure(
        {
            "password, right": lambda: hasher.matches(stored, "correct horse"),
            "password, unknown login": lambda: hasher.matches(None, "correct horse"),
        },
        HASHES,
    )


def imports() -> dict[str, float]:
    """CPU milliseconds: the median over many fresh interpreters, in alternation."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "functions/authorizer"), str(ROOT / "layers/core")]),
        "ARTIWAY_TOKEN_JWKS": "",
        "ARTIWAY_TOKEN_ISSUER": "artiway",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    taken: dict[str, list[float]] = {BARE: [], AUTHORIZER: []}
    for number in range(IMPORTS + 2):
        for code in random.sample(list(taken), 2):
            answer = subprocess.run(
                [sys.executable, "-c", TIMED.format(code)], env=environment, capture_output=True, text=True, check=True
            )
            if number >= 2:  # the first imports write the bytecode
                taken[code].append(float(answer.stdout) * 1000)
    bare, authorizer = (sorted(taken[code])[len(taken[code]) // 2] for code in (BARE, AUTHORIZER))
    return {"bare_ms": round(bare, 1), "authorizer_ms": round(authorizer, 1), "ratio": round(authorizer / bare, 3)}


def main() -> None:
    result = {"verification": verification(), "passwords": passwords(), "import": imports()}
    print(f"{'':28}{'p50':>12}{'p95':>12}{'p99':>12}  (µs)")
    for part in ("verification", "passwords"):
        for name, figures in result[part].items():
            print(f"{name:28}{figures['p50_us']:12,.1f}{figures['p95_us']:12,.1f}{figures['p99_us']:12,.1f}")
    found = result["import"]
    verdict = "met" if found["ratio"] <= GOAL_IMPORT_RATIO else "missed"
    print(
        f"authorizer import {found['authorizer_ms']} ms CPU, jwt + cryptography alone {found['bare_ms']} ms: ", end=""
    )
    print(f"ratio {found['ratio']} (goal ≤ {GOAL_IMPORT_RATIO}: {verdict})")
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps({**result, "machine": machine}, indent=1) + "\n")


if __name__ == "__main__":
    main()
