"""Answers the calls of workers. A worker reaches pictures by addresses only, each for one object and little longer than
its lease; the addresses are computed here without I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from artiway.settings.model import SettingValues
from artiway.tasks.catalogue import Catalogue
from artiway.tasks.contract import FORMATS
from artiway.tasks.lifecycle import NodeService, WrongPool
from artiway.tasks.model import WorkerCard
from artiway.workers.model import Asset, AssetAccess, Heartbeat, Order, WorkerSettings
from artiway.workers.settings import PROGRESS_INTERVAL_MS

# An address outlives its lease by this time, for a request at the end of the lease and for clocks that differ.
SLACK_S = 5


class Urls(Protocol):
    def get(self, key: str, *, ttl_s: int) -> str: ...

    def put(self, key: str, headers: Mapping[str, str], *, ttl_s: int) -> str: ...


class Places(Protocol):
    def places(self, node_ids: Sequence[UUID]) -> Mapping[UUID, tuple[UUID, UUID]]: ...


class Assets(Protocol):
    def asset(
        self, tenant_id: UUID, *, node_id: UUID, attempt: int, worker_id: str, pool: str | None, asset_id: UUID
    ) -> Asset | None: ...


class WorkerService:
    def __init__(
        self,
        nodes: NodeService,
        places: Places,
        assets: Assets,
        urls: Urls,
        catalogue: Catalogue,
        values: SettingValues,
    ) -> None:
        self._nodes, self._places, self._assets, self._urls = nodes, places, assets, urls
        self._catalogue, self._values = catalogue, values

    def register(self, card: WorkerCard, *, engine: str, pool: str | None = None) -> WorkerSettings:
        """`pool`, here and below, is the pool that the caller's permission proves; None if it proves none."""
        _same_pool(card, pool)
        self._nodes.register(card, engine=engine)
        return self.settings()

    def claim(
        self,
        *,
        node_id: UUID,
        attempt: int,
        worker_id: str,
        place: tuple[UUID, UUID] | None = None,
        pool: str | None = None,
    ) -> Order | None:
        """The node with the addresses of its inputs and outputs. None: the attempt is not this worker's."""
        order = self._nodes.claim(node_id=node_id, attempt=attempt, worker_id=worker_id, place=place, pool=pool)
        if order is None:
            return None
        outputs = self._outputs(order)
        return {**order, "outputs": outputs, "urls": self._addresses(order, outputs)}

    def beat(self, card: WorkerCard, held: Sequence[tuple[UUID, int]], *, pool: str | None = None) -> Heartbeat:
        """Renew the leases, and with them the addresses."""
        _same_pool(card, pool)
        beat = self._nodes.beat(card, held)
        urls = {node_id: self._addresses(order, self._outputs(order)) for node_id, order in beat.renewed.items()}
        return Heartbeat(beat.verdicts, urls, beat.is_draining, self.settings())

    def release(self, *, worker_id: str, held: Sequence[tuple[UUID, int]]) -> int:
        return self._nodes.release(worker_id=worker_id, held=held)

    def asset(
        self, *, worker_id: str, node_id: UUID, attempt: int, asset_id: UUID, pool: str | None = None
    ) -> AssetAccess:
        """May the user of a node that this worker holds use an asset? That of another tenant is not found."""
        place = self._places.places([node_id]).get(node_id)
        found = place and self._assets.asset(
            place[0], node_id=node_id, attempt=attempt, worker_id=worker_id, pool=pool, asset_id=asset_id
        )
        if not found:
            return AssetAccess("refused", "this worker does not hold the node")
        if not found.is_user_active:
            return AssetAccess("refused", "the user or the tenant may not work")
        if found.key is None:
            return AssetAccess("not_found", "there is no such asset")
        url = self._urls.get(found.key, ttl_s=self._ttl_s())
        return AssetAccess("allowed", content_type=found.content_type or "", url=url)

    def settings(self) -> WorkerSettings:
        terms = self._nodes.terms()
        values = (terms.lease_s, terms.beat_s, self._values.get(PROGRESS_INTERVAL_MS))
        version = hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]
        return WorkerSettings(version, *values)

    def _outputs(self, order: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The names of a step's pictures follow from its parameters, so they are known before it runs."""
        params = order["params"]
        step = self._catalogue.steps.get(params.get("step"))
        if step is None:  # of an older release; the worker fails the node
            return []
        content_type, ending = FORMATS[self._catalogue.picture_format(params)]
        key = f"{order['outputPrefix']}{step.output}.{ending}"
        # S3 refuses to replace an object, so a result stays as it was reported.
        headers = {"content-type": content_type, "if-none-match": "*"}
        return [{"name": step.output, "key": key, "contentType": content_type, "headers": headers}]

    def _addresses(self, order: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        ttl_s = self._ttl_s()
        reads = {source["key"]: self._urls.get(source["key"], ttl_s=ttl_s) for source in order["inputs"]}
        return reads | {one["key"]: self._urls.put(one["key"], one["headers"], ttl_s=ttl_s) for one in outputs}

    def _ttl_s(self) -> int:
        return self._nodes.terms().lease_s + SLACK_S


def _same_pool(card: WorkerCard, pool: str | None) -> None:
    if pool is not None and card.pool != pool:
        raise WrongPool("this worker is of another pool", pool=pool)
