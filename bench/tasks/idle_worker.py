"""A worker without an engine: it claims, uploads one pixel and reports, so only the platform takes time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from artiway.tasks import catalogue
from local.emulator import client
from local.workers import physical_ids, queue_of

OUTPUTS = {"cutout": "cutout", "figure": "model"}
ENGINE = {"name": "idle", "version": "1", "isNeural": False, "detail": "no engine"}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class IdleWorkers:
    """A service of the stack: one worker process with `slots` threads for each node type."""

    name = "idle workers"

    def __init__(self, *, slots: int) -> None:
        self._slots = slots
        self._process: subprocess.Popen[str] | None = None

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        command = [sys.executable, "-m", "bench.tasks.idle_worker", str(self._slots)]
        environment = {**os.environ, "BENCH_FACTS": json.dumps(dict(facts))}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # all workers have registered
        return {}

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class WorkerThreads:
    """The threads of the worker process. The threads of one node type are one worker."""

    def __init__(self, slots: int, facts: Mapping[str, Any]) -> None:
        self._slots = slots
        self._is_stopping = threading.Event()
        physical = physical_ids(facts["awsUrl"])
        for node_type in catalogue.load().types:
            description = {"workerId": f"idle-{node_type}-{uuid4().hex[:6]}", "pool": "gpu", "types": [node_type]}
            internal = _Internal(facts["lambdaUrl"], {**description, "slots": self._slots})
            internal.call("register", engine="idle")
            self._run(internal.beat_until, self._is_stopping)
            for _ in range(self._slots):
                self._run(self._process_messages, facts, physical, internal, physical[queue_of("gpu", node_type)])

    def _run(self, target: Any, *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _process_messages(
        self, facts: Mapping[str, Any], physical: Mapping[str, str], internal: _Internal, queue_url: str
    ) -> None:
        sqs, s3 = client("sqs", facts["awsUrl"]), client("s3", facts["awsUrl"])
        while not self._is_stopping.is_set():
            found = sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=1, WaitTimeSeconds=20)
            for message in found.get("Messages", []):
                work = json.loads(message["Body"])["data"]
                claimed = {key: work[key] for key in ("nodeId", "attempt", "tenantId", "taskId") if key in work}
                answer = internal.call("claim", **claimed)
                with contextlib.suppress(sqs.exceptions.ReceiptHandleIsInvalid):  # it was delivered again meanwhile
                    sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
                if answer["outcome"] != "claimed":
                    continue
                node = answer["node"]
                name = OUTPUTS.get(node["params"]["step"], "picture")
                key = f"{node['outputPrefix'].rstrip('/')}/{name}.png"
                s3.put_object(Bucket=physical["DataArtefactBucket"], Key=key, Body=PIXEL, ContentType="image/png")
                output = {"name": name, "key": key, "contentType": "image/png", "width": 1, "height": 1}
                result = {"progress": 100, "outputs": [{**output, "bytes": len(PIXEL)}], "engine": ENGINE}
                reports: list[tuple[str, dict[str, Any]]] = [("result", result)]
                if "taskId" not in work:  # workers of the releases before the shorter path also reported the start
                    reports.insert(0, ("started", {"progress": 0}))
                for sequence, (kind, fields) in enumerate(reports, start=1):
                    body = _envelope(kind, node, internal.worker_id, sequence, fields)
                    sqs.send_message(
                        QueueUrl=physical["ProgressQueue"], MessageBody=body, MessageGroupId=node["tenantId"]
                    )


class _Internal:
    def __init__(self, lambda_url: str, description: Mapping[str, Any]) -> None:
        self._lambda, self._description = client("lambda", lambda_url), description
        self.worker_id = description["workerId"]

    def call(self, action: str, **more: Any) -> Any:
        request = json.dumps({"action": action, **self._description, **more}).encode()
        answer = self._lambda.invoke(FunctionName="InternalFunction", Payload=request)
        body = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, body
        return body

    def beat_until(self, is_stopping: threading.Event) -> None:
        while not is_stopping.wait(10):
            self.call("beat", nodes=[])


def _envelope(kind: str, node: Mapping[str, Any], worker_id: str, sequence: int, fields: Mapping[str, Any]) -> str:
    data = {key: node[key] for key in ("nodeId", "taskId", "tenantId", "attempt")}
    return json.dumps(
        {
            "type": kind,
            "aggregate": f"node:{node['nodeId']}",
            "traceId": "",
            "at": datetime.now(UTC).isoformat(),
            "data": {**data, "workerId": worker_id, "sequence": sequence, "gpuSeconds": 0, **fields},
        }
    )


if __name__ == "__main__":
    WorkerThreads(int(sys.argv[1]), json.loads(os.environ["BENCH_FACTS"]))
    print("ready", flush=True)
    threading.Event().wait()
