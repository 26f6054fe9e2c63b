"""The platform's first administrator. The deployment creates the user; the home folder keeps the password."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from local.emulator import client
from local.files import write_whole
from local.servers import ServerFailed

LOGIN = "admin@artiway.local"
FUNCTION = "DeployFunction"


def ensure(lambda_url: str, home: Path) -> dict[str, str]:
    """Create the administrator if needed. The password is generated once per home; only its owner can read it."""
    file = home / "admin.json"
    if not file.exists():
        write_whole(file, json.dumps({"login": LOGIN, "password": secrets.token_urlsafe(18)}))
    admin: dict[str, str] = json.loads(file.read_text())
    answer = client("lambda", lambda_url).invoke(
        FunctionName=FUNCTION, Payload=json.dumps({"action": "bootstrap-admin", **admin}).encode()
    )
    if "FunctionError" in answer:
        raise ServerFailed(f"the administrator could not be created: {answer['Payload'].read().decode()[:500]}")
    return admin
