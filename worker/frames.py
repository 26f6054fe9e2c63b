"""Messages between parent and child: a JSON header, then blobs. No pickle: the child has decoded untrusted bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

HEADER_BYTES = 1024 * 1024
BLOB_BYTES = 512 * 1024 * 1024


def send(connection: Connection, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    connection.send_bytes(json.dumps({**header, "blobs": len(blobs)}).encode())
    for blob in blobs:
        connection.send_bytes(blob)


def receive(connection: Connection, *, max_blobs: int = 1) -> tuple[dict[str, Any], list[bytes]]:
    header = json.loads(connection.recv_bytes(HEADER_BYTES))
    count = int(header.pop("blobs", 0))
    if not 0 <= count <= max_blobs:
        raise ValueError(f"a message has {count} blobs; at most {max_blobs} are read")
    return header, [connection.recv_bytes(BLOB_BYTES) for _ in range(count)]
