"""`python -m bench.fairness`: the noisy neighbour under four schedulers, same arrivals; a table, JSON and a PNG."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import redis

from bench.fairness.chart import draw
from bench.fairness.story import (
    PRIORITY,
    WEIGHTS,
    Fifo,
    Ours,
    Outcome,
    RoundRobin,
    Story,
    StrictPriority,
    cumulative,
    play,
)
from local.servers import free_port, running, start_valkey

RESULTS = Path(__file__).parent.parent / "results"


def row(outcome: Outcome, fifo: Outcome) -> dict[str, Any]:
    cells: dict[str, Any] = {"scheduler": outcome.name}
    cells |= {f"{t} mean s": f"{outcome.response_s[t]:,.0f}" for t in PRIORITY}
    cells["vip vs FIFO"] = f"{outcome.response_s['vip'] / fifo.response_s['vip'] - 1:+.0%}"
    cells["shares %"] = "/".join(f"{outcome.shares[t] * 100:.1f}" for t in PRIORITY)
    cells["Jain"] = f"{outcome.jain:.4f}"
    cells["worst lag (nodes)"] = f"{outcome.lag_nodes:.1f}"
    cells["longest silence s"] = "/".join(f"{outcome.longest_gap_s[t]:,.0f}" for t in PRIORITY)
    return cells


def show(rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    widths = [max(len(c), *(len(str(r[c])) for r in rows)) for c in columns]
    for line in [columns, *([str(r[c]) for c in columns] for r in rows)]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))


def remarks(story: Story, fifo: Outcome, strict: Outcome, ours: Outcome) -> list[str]:
    ideal = 1 - story.ideal_vip_s() / fifo.response_s["vip"]
    gain = 1 - ours.response_s["vip"] / fifo.response_s["vip"]
    faster = ours.response_s["vip"] - strict.response_s["vip"]
    silent, waits = strict.longest_gap_s["free"], ours.longest_gap_s["free"]
    return [
        _goal(f"VIP mean response {gain:.1%} lower than FIFO (goal 80 %, ideal {ideal:.1%})", is_met=gain >= 0.8),
        _goal(f"Jain index {ours.jain:.5f} (goal 0.999)", is_met=ours.jain >= 0.999),
        _goal(f"largest lag behind ideal sharing {ours.lag_nodes:.2f} node times (goal 2)", is_met=ours.lag_nodes <= 2),
        (
            f"strict priority is {faster:,.0f} s faster for the VIP on average and leaves the free tenant without"
            f" anything for {silent:,.0f} s, where ours leaves it {waits:,.0f} s"
        ),
    ]


def _goal(text: str, *, is_met: bool) -> str:
    return f"{text}: {'met' if is_met else 'MISSED'}"


def main() -> None:
    story = Story()
    with (
        tempfile.TemporaryDirectory() as home,
        running(start_valkey(Path(home), free_port(), is_durable=False)) as server,
    ):
        ours = Ours(redis.Redis.from_url(server.url))
        outcomes = [play(scheduler, story) for scheduler in (Fifo(), StrictPriority(), RoundRobin(), ours)]
    fifo, strict, _, fair = outcomes
    print(
        f"weights {'/'.join(str(WEIGHTS[t]) for t in PRIORITY)} for {'/'.join(PRIORITY)}; ideal shares 62.5/25.0/12.5"
    )
    show([row(outcome, fifo) for outcome in outcomes])
    print(*remarks(story, fifo, strict, fair), sep="\n")
    RESULTS.mkdir(exist_ok=True)
    until = max(at for at, _ in fair.starts)
    draw(RESULTS / "fairness.png", [(o.name, list(cumulative(o, until))) for o in outcomes])
    table = [{k: v for k, v in vars(outcome).items() if k != "starts"} for outcome in outcomes]
    (RESULTS / "fairness.json").write_text(json.dumps({"story": vars(story), "outcomes": table}, indent=2))
    print(f"chart: {(RESULTS / 'fairness.png').relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
