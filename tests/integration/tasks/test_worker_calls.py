"""What `internal` gives a worker: addresses for the pictures of its nodes, a user's right to an asset, settings."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from artiway import bootstrap
from artiway.bootstrap.live_settings import service_setting_values, setting_values
from artiway.platform.object_urls import ObjectUrls
from artiway.settings.repository import PostgresSettingReader
from artiway.settings.service import LiveValues
from artiway.tasks.contract import FORMATS
from artiway.tasks.lifecycle import WrongPool
from artiway.workers.service import SLACK_S
from artiway.workers.settings import LEASE_SECONDS, PROGRESS_INTERVAL_MS
from local.emulator import client, start_emulator
from local.lambdas import function_arn
from local.servers import free_port, running
from tests.integration.tasks.test_life import deliver_all, held, submit
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]
BUCKET = "artefacts"
LEASE_S = LEASE_SECONDS.default


@dataclass
class Context:
    invoked_function_arn: str


class LateClock:
    """The time at which an address was signed, seconds ago."""

    late_s = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) - timedelta(seconds=self.late_s)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(start_emulator(tmp_path_factory.mktemp("aws"), free_port())) as emulator:
        client("s3", emulator.url).create_bucket(Bucket=BUCKET)
        yield emulator.url


class Desk:
    """Calls the function as a worker does, and uses the addresses that it gets."""

    def __init__(self, world: Any, url: str) -> None:
        self.world, self.clock, self.s3 = world, LateClock(), client("s3", url)
        signer = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        bootstrap.object_urls.supply(ObjectUrls(BUCKET, self.clock, {**signer, "AWS_ENDPOINT_URL": url}))
        self._handler = load_handler(ROOT / "functions/internal").handler

    def call(self, action: str, *, alias: str = "gpu", worker_id: str = "w1", **fields: Any) -> dict[str, Any]:
        context = Context(function_arn("InternalFunction", alias))
        return dict(self._handler({"action": action, "workerId": worker_id, **fields}, context))

    def node(self, name: str) -> dict[str, Any]:
        """The claim of a node that worker w1 holds, repeated; its inputs exist."""
        _, holding = held(self.world, name)
        order = holding.order
        answer = self.call("claim", nodeId=order["nodeId"], attempt=order["attempt"])
        assert answer["outcome"] == "claimed"
        node: dict[str, Any] = answer["node"]
        for one in node["inputs"]:
            self.s3.put_object(Bucket=BUCKET, Key=one["key"], Body=one["key"].encode())
        return node

    def beat(self, *nodes: dict[str, Any], worker_id: str = "w1", **fields: Any) -> dict[str, Any]:
        nodes_held = [{"nodeId": node["nodeId"], "attempt": node["attempt"]} for node in nodes]
        facts = {"pool": "gpu", "types": ["cutout"], "slots": 1, "nodes": nodes_held}
        return self.call("beat", worker_id=worker_id, **facts | fields)


@pytest.fixture
def desk(world: Any, aws: str) -> Desk:
    world.worker()
    return Desk(world, aws)


def fetch(url: str) -> int | bytes:
    try:
        with urllib.request.urlopen(url) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.code


def store(url: str, output: dict[str, Any], data: bytes) -> int:
    request = urllib.request.Request(url, data=data, headers=output["headers"], method="PUT")
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture
def nodes(desk: Desk, world: Any) -> list[dict[str, Any]]:
    """Two running nodes of two tenants."""
    for tool in ("style", "cutout"):
        submit(world, world.tenant(), tool)
    deliver_all(world)
    return [desk.node(name) for name in sorted({one.order["name"] for one in world.workers[0].held})]


class TestAddresses:
    def test_claim_reaches_exactly_the_pictures_of_its_node(self, nodes):
        for node in nodes:
            keys = [one["key"] for one in (*node["inputs"], *node["outputs"])]
            assert sorted(node["urls"]) == sorted(keys)
            (source,), (output,) = node["inputs"], node["outputs"]
            assert fetch(node["urls"][source["key"]]) == source["key"].encode()
            assert store(node["urls"][output["key"]], output, b"picture") == 200
            assert output["key"].startswith(node["outputPrefix"])

    def test_pictures_of_another_node_are_refused(self, nodes):
        own, other = nodes
        (source,), (target,) = own["inputs"], other["inputs"]
        assert fetch(own["urls"][source["key"]].replace(source["key"], target["key"])) == 403
        (output,), (place,) = own["outputs"], other["outputs"]
        assert store(own["urls"][output["key"]].replace(output["key"], place["key"]), output, b"forged") == 403
        assert store(own["urls"][source["key"]], output, b"forged") == 403, "an input is read, never written"

    def test_addresses_end_with_the_lease(self, desk, nodes):
        desk.clock.late_s = LEASE_S
        node = desk.node("style_1")
        key = node["inputs"][0]["key"]
        assert fetch(node["urls"][key]) == key.encode()
        desk.clock.late_s = LEASE_S + SLACK_S + 1
        node = desk.node("style_1")
        (source,), (output,) = node["inputs"], node["outputs"]
        assert fetch(node["urls"][source["key"]]) == 403
        assert store(node["urls"][output["key"]], output, b"late") == 403

    def test_key_of_the_worker_reads_no_picture(self, desk, nodes, aws):
        import boto3
        from botocore.exceptions import ClientError

        session = boto3.Session("worker", "worker", region_name="us-east-1")
        own = session.client("s3", endpoint_url=aws)
        desk.s3.put_object(Bucket=BUCKET, Key="models/m", Body=b"weights")
        assert own.get_object(Bucket=BUCKET, Key="models/m")["Body"].read() == b"weights"
        key = nodes[0]["inputs"][0]["key"]
        with pytest.raises(ClientError, match="AccessDenied"):
            own.get_object(Bucket=BUCKET, Key=key)
        with pytest.raises(ClientError, match="AccessDenied"):
            own.put_object(Bucket=BUCKET, Key="models/m", Body=b"poison")
        assert fetch(own.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})) == 403

    def test_heartbeat_renews_the_addresses_it_holds(self, desk, nodes):
        answer = {one["nodeId"]: one for one in desk.beat(*nodes)["nodes"]}
        for node in nodes:
            assert answer[node["nodeId"]]["verdict"] == "go"
            assert sorted(answer[node["nodeId"]]["urls"]) == sorted(node["urls"])
            key = node["inputs"][0]["key"]
            assert fetch(answer[node["nodeId"]]["urls"][key]) == key.encode()

    def test_heartbeat_of_another_worker_gets_no_address(self, desk, nodes):
        answer = desk.beat(*nodes, worker_id="w2")["nodes"]
        assert [(one["verdict"], one["urls"]) for one in answer] == [("fenced", {})] * 2

    def test_fenced_attempt_cannot_change_the_next_result(self, desk, world, nodes):
        old = next(node for node in nodes if node["name"] == "style_1")
        world.workers[0].held.clear()
        world.advance(LEASE_S + 1)
        world.sweep()
        world.advance(5)
        deliver_all(world)
        new = desk.node("style_1")
        assert (old["nodeId"], old["attempt"] + 1) == (new["nodeId"], new["attempt"])
        ((output,), (stale,)) = new["outputs"], old["outputs"]
        assert store(new["urls"][output["key"]], output, b"good") == 200
        assert store(old["urls"][stale["key"]], stale, b"late") == 200  # a place of its own, which nobody reads
        assert store(new["urls"][output["key"]], output, b"again") == 412
        assert desk.s3.get_object(Bucket=BUCKET, Key=output["key"])["Body"].read() == b"good"
        (answer,) = desk.beat(old)["nodes"]
        assert (answer["verdict"], answer["urls"]) == ("fenced", {})

    def test_node_reads_the_pictures_of_nodes_before_it(self, desk, world):
        submit(world, world.tenant(), "model_photo", count=1)
        deliver_all(world)
        cutout = desk.node("cutout")
        world.finish(*held(world, "cutout"))
        deliver_all(world)
        model = desk.node("model_1")
        assert [one["key"] for one in model["inputs"]] == [cutout["outputs"][0]["key"]]
        (answer,) = desk.beat(model)["nodes"]
        assert sorted(answer["urls"]) == sorted(model["urls"])

    def test_every_step_and_format_has_its_output(self, desk):
        for name, step in bootstrap.catalogue().steps.items():
            for picture_format, (content_type, ending) in FORMATS.items():
                order = {"params": {"step": name, "format": picture_format}, "outputPrefix": "outputs/t/"}
                (output,) = bootstrap.workers()._outputs(order)
                assert (output["name"], output["contentType"]) == (step.output, content_type)
                assert output["key"] == f"outputs/t/{step.output}.{ending}"


class TestPool:
    def test_worker_of_another_pool_claims_nothing(self, desk, world, monkeypatch):
        monkeypatch.setattr(world, "offer", lambda data: None)
        task = submit(world, world.tenant(), "style")
        deliver_all(world)
        (node,) = world.rows("SELECT node_id, attempt FROM task_node WHERE task_id = %s", task.task_id)
        wanted = {"nodeId": str(node["node_id"]), "attempt": node["attempt"]}
        with pytest.raises(WrongPool):
            desk.call("claim", alias="enterprise", **wanted)
        assert world.statuses(task.task_id) == {"style_1": "QUEUED"}
        assert desk.call("claim", alias="gpu", **wanted)["outcome"] == "claimed"
        world.workers[0].held.clear()
        world.advance(LEASE_S + 1)
        monkeypatch.undo()
        world.run_to_end()

    @pytest.mark.parametrize("action", ["register", "beat"])
    def test_worker_cannot_name_another_pool(self, desk, action):
        facts = {"pool": "enterprise", "types": ["cutout"], "slots": 1, "nodes": []}
        with pytest.raises(WrongPool):
            desk.call(action, alias="gpu", worker_id="w9", **facts)

    def test_worker_of_the_release_before_has_no_alias(self, desk, nodes):
        assert desk.call("claim", alias="", nodeId=nodes[0]["nodeId"], attempt=1)["outcome"] == "claimed"


class TestAssets:
    @pytest.fixture
    def node(self, nodes) -> dict[str, Any]:
        return next(node for node in nodes if node["name"] == "style_1")

    @pytest.fixture
    def upload(self, desk, world, node) -> UUID:
        return self.add(desk, world, UUID(node["tenantId"]))

    @staticmethod
    def add(desk: Desk, world: Any, tenant_id: UUID, *, width: int | None = 8) -> UUID:
        asset_id = uuid4()
        key = f"inputs/{tenant_id}/{asset_id}"
        (user,) = world.rows("SELECT user_id FROM app_user WHERE tenant_id = %s", tenant_id)
        world.superuser.execute(
            "INSERT INTO upload (tenant_id, input_id, user_id, key, content_type, bytes, width, height, expires_at)"
            " VALUES (%s, %s, %s, %s, 'image/png', 5, %s, 8, now() + interval '1 day')",
            [tenant_id, asset_id, user["user_id"], key, width],
        )
        desk.s3.put_object(Bucket=BUCKET, Key=key, Body=b"asset")
        return asset_id

    def ask(self, desk: Desk, node: dict[str, Any], asset_id: UUID, **changes: Any) -> dict[str, Any]:
        fields = {"nodeId": node["nodeId"], "attempt": node["attempt"], "assetId": str(asset_id)}
        return desk.call("asset", **fields | changes)

    def test_asset_of_the_tenant_comes_with_address(self, desk, node, upload):
        answer = self.ask(desk, node, upload)
        assert (answer["outcome"], answer["contentType"]) == ("allowed", "image/png")
        assert fetch(answer["url"]) == b"asset"

    def test_result_of_the_tenant_is_an_asset(self, desk, world, node):
        tenant_id = UUID(node["tenantId"])
        (user,) = world.rows("SELECT user_id FROM app_user WHERE tenant_id = %s", tenant_id)
        task = submit(world, (tenant_id, user["user_id"]), "hd_fix")
        deliver_all(world)
        (name,) = world.statuses(task.task_id)
        world.finish(*held(world, name))
        deliver_all(world)
        (row,) = world.rows("SELECT artefact_id FROM artefact WHERE task_id = %s", task.task_id)
        assert self.ask(desk, node, row["artefact_id"])["outcome"] == "allowed"

    def test_asset_of_another_tenant_is_not_found(self, desk, world, node):
        foreign = self.add(desk, world, world.tenant()[0])
        unknown = self.ask(desk, node, uuid4())
        assert self.ask(desk, node, foreign) == unknown
        assert (unknown["outcome"], unknown["url"]) == ("not_found", "")

    def test_upload_that_was_never_inspected_is_not_found(self, desk, world, node):
        raw = self.add(desk, world, UUID(node["tenantId"]), width=None)
        assert self.ask(desk, node, raw)["outcome"] == "not_found"

    @pytest.mark.parametrize(
        "changes",
        [{"worker_id": "w2"}, {"attempt": 2}, {"nodeId": str(uuid4())}, {"alias": "enterprise"}],
        ids=["worker", "attempt", "node", "pool"],
    )
    def test_node_that_is_not_held_gets_refusal(self, desk, node, upload, changes):
        answer = self.ask(desk, node, upload, **changes)
        assert (answer["outcome"], answer["url"]) == ("refused", "")

    def test_lease_that_ended_gets_refusal(self, desk, world, node, upload):
        world.advance(LEASE_S + 1)
        assert self.ask(desk, node, upload)["outcome"] == "refused"

    def test_disabled_user_gets_refusal(self, desk, world, node, upload):
        world.superuser.execute("UPDATE app_user SET status = 'DISABLED' WHERE tenant_id = %s", [node["tenantId"]])
        answer = self.ask(desk, node, upload)
        assert (answer["outcome"], answer["url"]) == ("refused", "")


class TestSettings:
    def test_changed_value_reaches_workers_with_the_beat(self, desk, world):
        for provider in (setting_values, service_setting_values):
            provider.supply(LiveValues(PostgresSettingReader(world.service_database), bootstrap.cache()))
        before = desk.beat()["settings"]
        assert before == {**desk.call("register", pool="gpu", types=["cutout"], slots=1)["settings"]}
        bootstrap.live_settings().put(PROGRESS_INTERVAL_MS.key, 700, actor_id=None)
        bootstrap.live_settings().put(LEASE_SECONDS.key, 12, actor_id=None)
        bootstrap.setting_values().forget()
        try:
            after = desk.beat()["settings"]
        finally:
            for setting in (PROGRESS_INTERVAL_MS, LEASE_SECONDS):
                bootstrap.live_settings().restore(setting.key, actor_id=None)
            bootstrap.setting_values().forget()
        assert (after["progressIntervalMs"], after["leaseSeconds"], after["beatSeconds"]) == (700, 12, 4)
        assert after["version"] != before["version"]
        assert desk.beat()["settings"] == before
