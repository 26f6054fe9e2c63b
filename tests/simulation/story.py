"""The actions of users, workers and operators in a simulated world, and its faults, chosen by the seed."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from uuid import UUID

import redis

from artiway.errors import ArtiwayError
from artiway.platform import tracing
from artiway.tasks.model import FlowNode, OnFailure
from tests.simulation.chaos import Crash
from tests.simulation.seeded import SimulatedWorld, Simulation
from tests.simulation.world import MANAGER, http_node

STEPS = 140
LIMIT = 60
POINTS = 1_000_000
SHOWN = 30


def random_flow(random: Random, limit: int = LIMIT) -> list[FlowNode]:
    """Mostly small; 4 in 100 have 20 to 60 nodes. In every third flow some nodes are calls, which name others."""
    count = random.choice([1, 2, 3, 5, 8, 8, 13]) if random.random() < 0.96 else random.randint(20, limit)
    picture = UUID(int=random.getrandbits(128), version=4)
    nodes: list[FlowNode] = []
    calls = random.choice([0, 0, 0.4])
    for number in range(count):
        before = [f"n{other}" for other in range(number) if random.random() < min(0.5, 2 / max(1, number))]
        made = [one for one in before if nodes[int(one[1:])].type is None]
        if random.random() < calls:
            named = [f"{{{{nodes.{one}.{'url' if one in made else 'answer'}}}}}" for one in before[:3]]
            nodes.append(http_node(f"n{number}", *before, body={"of": named}))
            continue
        uploads = {} if made else {"product": picture}
        sources = {"product": made[0]} if made else {}
        nodes.append(FlowNode(f"n{number}", "derive", None, {}, uploads, sources, tuple(before)))
    random.shuffle(nodes)
    return nodes


class Story:
    def __init__(self, world: SimulatedWorld) -> None:
        self.world, self.random = world, world.random
        self.tenants = [world.tenant("vip", points=POINTS), world.tenant("free", points=POINTS, queue_depth=50)]
        for name in ("w1", "w2", "w3"):
            world.worker(name)
        self.tasks: list[tuple[UUID, UUID]] = []
        world.targets.answer = lambda _: self.random.choice([200, 200, 200, 200, 200, 503, 503, 404, None])

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.act()

    def act(self) -> None:
        moves = {
            self.submit: 5,
            self.deliver: 60,
            self.work: 34,
            self.cancel: 1,
            self.retry: 2.5,
            self.wait: 6,
            self.flush: 0.7,
            self.lose_tokens: 1,
            self.restart_machine: 0.4,
            self.hand_back: 1.5,
        }
        (move,) = self.random.choices(list(moves), list(moves.values()))
        self.world.note(move.__name__)
        self.world.chaos.act("story")
        with contextlib.suppress(Crash, ArtiwayError):
            move()

    def submit(self) -> None:
        if len(self.tasks) < 4:
            tenant_id, user_id = self.random.choice(self.tenants)
            nodes = random_flow(self.random)
            with tracing.traced(f"1-00000000-{len(self.tasks):024x}"):  # a new one would be random
                accepted = self.world.tasks.submit_flow(
                    tenant_id=tenant_id,
                    user_id=user_id,
                    name="",
                    nodes=nodes,
                    webhook_url=None,
                    on_failure=self.random.choice([OnFailure.CONTINUE, OnFailure.CONTINUE, OnFailure.STOP]),
                )
            self.tasks.append((tenant_id, accepted.task.task_id))

    def deliver(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.world.deliver_one()

    def work(self) -> None:
        worker = self.random.choice(self.world.workers)
        if not worker.held:
            return
        holding = self.random.choice(worker.held)
        chance = self.random.random()
        if chance < 0.60:
            self.world.finish(worker, holding)
        elif chance < 0.67:
            self.world.report(worker, holding, "progress", progress=self.random.randint(1, 99))
        elif chance < 0.77:
            self.world.fail(worker, holding, is_retryable=True)
        elif chance < 0.80:
            self.world.fail(worker, holding, is_retryable=False)
        elif chance < 0.89:
            worker.held.remove(holding)  # crashed; it sends no report
        else:
            holding.is_asleep = True  # sends no heartbeat, and reports late

    def cancel(self) -> None:
        if self.tasks:
            tenant_id, task_id = self.random.choice(self.tasks)
            self.world.tasks.cancel(tenant_id=tenant_id, task_id=task_id, requester=MANAGER)

    def retry(self) -> None:
        if self.tasks:
            tenant_id, task_id = self.random.choice(self.tasks)
            self.world.tasks.retry(tenant_id=tenant_id, task_id=task_id, requester=MANAGER)

    def wait(self) -> None:
        self.world.advance(self.random.choice([1, 12, 31, 45]))
        self.world.beat()
        self.world.sweep(is_slow=self.random.random() < 0.2)

    def flush(self) -> None:
        self.world.redis.flushall()

    def lose_tokens(self) -> None:
        for token in self.world.machine.tokens():
            if self.random.random() < 0.2:
                self.world.machine.time_out(token)

    def restart_machine(self) -> None:
        self.world.machine.restart()

    def hand_back(self) -> None:
        """A worker shuts down, returns its nodes and registers again."""
        worker = self.random.choice(self.world.workers)
        held = [(UUID(one.order["nodeId"]), one.order["attempt"]) for one in worker.held]
        worker.held.clear()
        self.world.nodes.release(worker_id=worker.card.worker_id, held=held)
        self.world.nodes.register(worker.card, engine="fake")


@contextlib.contextmanager
def played(simulation: Simulation, seed: int, *, steps: int = STEPS) -> Iterator[Story]:
    """The whole run of a seed, until every task has ended. Odd seeds use the real fair queue."""
    with simulation.world(seed) as world:
        try:
            if seed % 2:
                world.use_fair_queue()
            story = Story(world)
            chaos = world.chaos
            chaos.crash, chaos.duplicate, chaos.refuse = 0.006, 0.12, 0.02
            chaos.lose, chaos.delay = 0.01, 0.12
            story.play(steps)
            world.targets.answer = lambda _: 200
            world.run_to_end()
            yield story
        except Exception as error:
            error.add_note(f"to repeat it: ARTIWAY_SEED={seed}. The end of the trace:")
            for line in world.trace[-SHOWN:]:
                error.add_note(line[:200])
            raise


def digest(story: Story) -> str:
    """A hash of the trace and of all rows."""
    return hashlib.sha256("\n".join(story.world.trace + story.world.rows_left()).encode()).hexdigest()


def main(seed: str, redis_url: str, superuser: str, _owner: str, app: str, service: str) -> None:
    """Run one seed in an existing database and print the hash."""
    addresses = SimpleNamespace(superuser=superuser, app=app, service=service)
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        simulation = Simulation(addresses, client)
        with contextlib.closing(simulation), played(simulation, int(seed)) as story:
            sys.stdout.write(digest(story))


if __name__ == "__main__":
    main(*sys.argv[1:])
