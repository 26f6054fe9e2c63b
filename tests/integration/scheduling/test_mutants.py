"""A rule that is broken in the Lua is noticed: each mutant of the scripts differs from the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha1

import pytest
import redis

from artiway.scheduling import scripts
from artiway.scheduling.model import Completion, Lane, Node, Pool, Priority, Snapshot, TenantPolicy, Track
from tests.integration.scheduling.support import LEASE_MS, Twins

TRACKS = [
    Track(kind, lane, model, step)
    for kind in ("cutout", "model")
    for lane in ("vip", "free")
    for model, step in (("", ""), ("flux", ""), ("", "scene"))
]
COSTS = [1, 2, 3, 7, 1_000_000, 6_000_000, 34_000_000]
# Of each rule: the text in the scripts, and what breaks it.
MUTANTS = {
    "a return starts a node late": ("max(is_return and clock - due or clock, tenant.last)", "max(clock, tenant.last)"),
    "credit goes before the clock": ("local used = min(tenant.credit, tag - clock)", "local used = tenant.credit"),
    "credit of an idle tenant is lost": ("max(0, tenant.last - tenant.credit), 0, now_ms", "tenant.last, 0, now_ms"),
    "credit at the cap is unbounded": ("min(tenant.credit, charge(tenant.dearest, tenant.weight))", "tenant.credit"),
    "credit at the cap is lost": ("min(tenant.credit, charge(tenant.dearest, tenant.weight))", "0"),
    "a head that leaves stays charged": (
        "work.tenant.last - charge(work.cost, work.tenant.weight)",
        "work.tenant.last",
    ),
    "a priority is ignored": ("rank * NODE_RANK + of, work.waiting == 0", "NODE_RANK + of, work.waiting == 0"),
    "a blocked track's time goes on": ("track.lag + clock - track.blocked_at or track.lag", "track.lag or track.lag"),
    "a user may pass its cap": ("(user_steps[name] or 0) >= cap", "(user_steps[name] or 0) > cap"),
    "a tenant may pass its cap": (
        "not tenant.is_capped and tenant.running >= tenant.cap",
        "not tenant.is_capped and false",
    ),
    "a model's limit is ignored": ("and running_of[c] < limits[c]", ""),
    "a step's limit is ignored": ("and (not d or running_of[d] < limits[d])", ""),
    "a lane's share is ignored": ("return share and min(", "return false and min("),
    "a user's clock stands still": (
        "work.clock = max(work.clock, users[2] % USER_RANK)",
        "work.clock = work.clock + 0",
    ),
    "a charge is rounded down": ("return ceil(cost / weight)", "return floor(cost / weight)"),
    "a debt is forgiven": ("tenant.last = tenant.last + owed", "tenant.last = tenant.last + 0"),
    "the later of equal tags goes": ("window.member < best.member", "window.member > best.member"),
    "a returned node goes to the end": ("tonumber(node.rank), tonumber(node.seq)", "tonumber(node.rank), seq + 1"),
}


def exercise(valkey: redis.Redis, seed: int) -> None:
    """A hundred random steps, each compared with the oracle."""
    valkey.flushall()
    dice = random.Random(seed)
    pool = Pool({"cutout": 3, "model": 2}, {"free": Lane("free", share_percent=40)}, {"flux": 1}, steps={"scene": 1})
    policies = [TenantPolicy("A", 3, cap=2), TenantPolicy("B", 2, user_cap=1), TenantPolicy("C", 1)]
    twins = Twins(valkey, Snapshot(pool, policies, user_caps={("C", "u"): 2}))
    owe_and_overpay_when_idle(twins)
    overpay_at_the_cap(twins)
    for step in range(100):
        twins.now_ms += 1_000
        running = list(twins.oracle.running)
        match dice.randrange(8):
            case 0 | 1 | 2:
                twins.enqueue([made(dice, f"n{step}-{i}") for i in range(dice.randint(1, 5))])
            case 3 | 4:
                twins.dispatch(dice.randint(1, 4))
            case 5 if running:
                ends = dice.sample(running, k=min(2, len(running)))
                twins.complete(
                    [Completion(one, dice.choice([None, *COSTS])) for one in ends], dispatch=dice.randint(0, 2)
                )
            case 6 if twins.oracle.waiting:
                twins.cancel([dice.choice(list(twins.oracle.waiting))])
            case 7 if dice.random() < 0.3:
                twins.now_ms += LEASE_MS
                twins.reclaim()
        if step % 3 == 0:
            twins.check()


def owe_and_overpay_when_idle(twins: Twins) -> None:
    twins.enqueue([Node(f"idle{i}", "C", "v", TRACKS[0], 9_000_000) for i in range(2)])
    twins.dispatch(2)
    twins.complete([Completion("idle0", 34_000_000), Completion("idle1", 0)])
    twins.enqueue([Node("back", "C", "v", TRACKS[0], 1_000_000)])
    twins.check()
    twins.end(twins.dispatch(1))


def overpay_at_the_cap(twins: Twins) -> None:
    """The capped tenant's nodes cost nothing in the end, so that it has more credit than it may keep."""
    names = [f"{tenant}{i}" for tenant in "AC" for i in range(12)]
    twins.enqueue([Node(name, name[0], "u", TRACKS[0], 9_000_000) for name in names])
    for _ in range(6):
        chosen = twins.dispatch(3)
        twins.complete([Completion(one.node.node_id, 0 if one.node.tenant_id == "A" else None) for one in chosen])
        twins.check()


def made(dice: random.Random, name: str) -> Node:
    priority = dice.choice([*Priority, Priority.NORMAL])
    return Node(name, dice.choice("ABC"), dice.choice("uv"), dice.choice(TRACKS), dice.choice(COSTS), priority)


def mutated(original: Callable[[str], scripts.Script], text: str, instead: str) -> Callable[[str], scripts.Script]:
    def script(verb: str) -> scripts.Script:
        broken = original(verb).text.replace(text, instead)
        return scripts.Script(broken, sha1(broken.encode()).hexdigest())

    return script


def test_unbroken_scripts_pass(valkey: redis.Redis) -> None:
    for seed in range(2):
        exercise(valkey, seed)


@pytest.mark.parametrize("rule", MUTANTS)
def test_mutant_is_noticed(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    text, instead = MUTANTS[rule]
    assert any(text in scripts.script(verb).text for verb in scripts.verbs()), "the mutant mutates nothing"
    monkeypatch.setattr(scripts, "script", mutated(scripts.script, text, instead))
    with pytest.raises((AssertionError, redis.ResponseError, ValueError, KeyError)):
        for seed in range(6):
            exercise(valkey, seed)
