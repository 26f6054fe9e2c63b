"""Downloads the roots of RDS's own certificates and writes those of each region to a file: `rds_roots.py <folder>`.

Functions that connect to RDS without a proxy verify it with the file of their region: the roots of all regions together
would cost 15 ms for each connection. AWS adds roots, so a build downloads them, or reads RDS_ROOTS: a file, an address,
or `none`.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import urllib.request
from collections import defaultdict
from pathlib import Path

URL = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
TIMEOUT_S = 20
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_REGION = re.compile(rb"Amazon RDS ([a-z]+(?:-[a-z]+)+-\d) Root CA")


def by_region(bundle: str) -> dict[str, str]:
    """The certificates of a bundle by region. A root's own name is the one place that has its region."""
    found = defaultdict[str, str](str)
    for match in _CERTIFICATE.finditer(bundle):
        if region := _REGION.search(base64.b64decode(match[1])):
            found[region[1].decode()] += match[0] + "\n"
    return dict(found)


def main() -> None:
    folder, source = Path(sys.argv[1]), os.environ.get("RDS_ROOTS") or URL
    if source == "none":
        return
    try:
        bundle = Path(source).read_text() if "://" not in source else _download(source)
    except OSError as error:
        reason = f"The root certificates of RDS could not be read from {source}: {error}."
        if source != URL:
            sys.exit(reason)
        # A build without a network is not deployed: without the file, migrations refuse to connect.
        sys.stderr.write(f"Warning: {reason} Do not deploy these layers, or set RDS_ROOTS to a copy and build again.\n")
        return
    roots = by_region(bundle)
    if not roots:
        sys.exit(f"{source} holds no root certificate of RDS")
    for region, text in roots.items():
        (folder / f"rds-{region}.pem").write_text(text)


def _download(address: str) -> str:
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:  # noqa: S310 (the operator's own choice)
        text: str = answer.read().decode()
    return text


if __name__ == "__main__":
    main()
