"""The fair queue as a fluid: counts and weights run forward in steps for tenants and tracks, not for nodes.

Each tenant's work on a track is a flow. A flow drains at weight x level, where the level of a track is what weighted
max-min fairness gives it of the slots, and at most at its tenant's cap. The virtual time of a track is the work that a
flow of weight one has got.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

# With many flows, events that are closer together than this part of the elapsed time are taken as one step.
COARSENESS = 0.03
FEW_FLOWS = 64
STEP_LIMIT = 5_000
INFINITE = float("inf")
_SMALL = 1e-9


@dataclass(slots=True, eq=False)
class Flow:
    """`count` nodes of `cost` each. `ratio` is the tenant's cap by weight. `enters_at` is virtual; before zero the flow
    has had part of its first turn."""

    track: int
    count: int
    cost: float
    weight: float
    share: float = 1.0
    ratio: float = INFINITE
    enters_at: float = 0.0
    siblings: list[Flow] = field(default_factory=list)
    is_capped: bool = False
    is_over: bool = False
    # The course in parts: work done, time, virtual time, weight and whether the cap decides, at the start of each.
    parts: list[tuple[float, float, float, float, bool]] = field(default_factory=list)

    @property
    def work(self) -> float:
        return self.count * self.cost


@dataclass(slots=True)
class Course:
    """The course of one track: at each of `times` its virtual time, the nodes that have started, and the delay."""

    times: list[float] = field(default_factory=list)
    virtual: list[float] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    # Nodes are whole: at any moment each flow is half a node short of the fluid. This is the time that it takes.
    early: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Limit:
    """Slots that some tracks share."""

    slots: float
    tracks: tuple[int, ...]


class _Track:
    def __init__(self, scale: float) -> None:
        self.scale, self.level, self.virtual, self.started = scale, 0.0, 0.0, 0.0
        self.weight = self.nodes = self.capped_slots = self.capped_nodes = 0.0
        self.active = 0
        self.entries: list[tuple[float, int, Flow]] = []
        self.ends: list[tuple[float, int, Flow]] = []
        self.by_ratio: list[tuple[float, int, Flow]] = []
        self.capped_top: list[tuple[float, int, Flow]] = []
        self.course = Course()

    @property
    def rate(self) -> float:
        """Nodes that start in a microsecond."""
        return (self.nodes * self.level + self.capped_nodes) / self.scale


class Fluid:
    def __init__(self, scales: Sequence[float], limits: Sequence[Limit], flows: Sequence[Flow]) -> None:
        self._tracks = [_Track(scale) for scale in scales]
        self._limits, self._flows = limits, flows
        self._now, self._order, self._steps = 0.0, 0, 0
        self._capped_ends: list[tuple[float, int, Flow, int]] = []
        self.times: list[float] = []
        self.positions: list[float] = []

    def run(self) -> list[Course]:
        for flow in self._flows:
            track = self._tracks[flow.track]
            self._push(track.entries, max(0.0, flow.enters_at), flow)
        self._handle_events()
        while any(track.active or track.entries for track in self._tracks) and self._steps < STEP_LIMIT:
            self._steps += 1
            self._allocate()
            while self._skip_idle():
                self._handle_events()
                self._allocate()
            self._record()
            if not self._advance():
                break
            self._handle_events()
        self._record()
        return [track.course for track in self._tracks]

    # --- one step

    def _advance(self) -> bool:
        """Move to the next event, or over several of them where there are many flows."""
        step = self._capped_ends[0][0] - self._now if self._capped_ends else INFINITE
        active, rate = 0, 0.0
        for track in self._tracks:
            active += track.active
            rate += track.rate
            if track.level > 0:
                following = min(
                    track.ends[0][0] if track.ends else INFINITE, track.entries[0][0] if track.entries else INFINITE
                )
                step = min(step, (following - track.virtual) * track.scale / track.level)
        if step == INFINITE:
            return False
        step = max(step, 0.0)
        if active > FEW_FLOWS:
            step = max(step, self._now * COARSENESS, 0.25 / rate if rate else 0.0)
        self._now += step
        for track in self._tracks:
            track.started += track.rate * step
            track.virtual += track.level * step / track.scale
        return True

    def _skip_idle(self) -> bool:
        """Where no flow below its cap is served, virtual time goes on to the next flow that enters."""
        idle = [track for track in self._tracks if track.entries and track.weight <= _SMALL]
        for track in idle:
            track.virtual = max(track.virtual, track.entries[0][0])
        return bool(idle)

    def _handle_events(self) -> None:
        for track in self._tracks:
            while track.entries and track.entries[0][0] <= track.virtual + _SMALL:
                self._enter(track, heapq.heappop(track.entries)[2])
            while track.ends and track.ends[0][0] <= track.virtual * (1 + _SMALL) + _SMALL:
                ends_at, _, flow = heapq.heappop(track.ends)
                if not flow.is_over and not flow.is_capped and ends_at == self._end_of(flow):
                    track.started -= (track.virtual - ends_at) * flow.weight / flow.cost
                    self._leave(track, flow)
        while self._capped_ends and self._capped_ends[0][0] <= self._now * (1 + _SMALL) + _SMALL:
            ends_at, _, flow, part = heapq.heappop(self._capped_ends)
            if not flow.is_over and flow.is_capped and part == len(flow.parts):
                track = self._tracks[flow.track]
                track.started -= (self._now - ends_at) * flow.weight * flow.ratio / track.scale / flow.cost
                self._leave(track, flow)

    def _enter(self, track: _Track, flow: Flow) -> None:
        done = (track.virtual - flow.enters_at) * flow.weight
        track.active += 1
        track.started += (track.virtual - max(0.0, flow.enters_at)) * flow.weight / flow.cost
        self._begin(track, flow, min(done, flow.work), is_capped=False)

    def _leave(self, track: _Track, flow: Flow) -> None:
        self._take_out(track, flow)
        track.active -= 1
        flow.is_over = True
        # Its weight is left to the tenant's other tracks, whenever half of them have drained: each time would be slow.
        siblings = [other for other in flow.siblings if not other.is_over]
        if len(siblings) * 2 > len(flow.siblings):
            return
        share, weight = sum(other.share for other in siblings), sum(other.weight for other in flow.siblings)
        for other in siblings:
            other.siblings = siblings
            if other.parts:
                self._change(other, other.is_capped, weight * other.share / share)
            else:
                other.weight = weight * other.share / share

    # --- flows and their parts

    def _change(self, flow: Flow, is_capped: bool, weight: float) -> None:
        track = self._tracks[flow.track]
        done = self._done(flow)
        self._take_out(track, flow)
        flow.weight = weight
        self._begin(track, flow, done, is_capped=is_capped)

    def _begin(self, track: _Track, flow: Flow, done: float, *, is_capped: bool) -> None:
        flow.is_capped = is_capped
        flow.parts.append((done, self._now, track.virtual, flow.weight, is_capped))
        if is_capped:
            slots = flow.weight * flow.ratio
            track.capped_slots += slots
            track.capped_nodes += slots / flow.cost
            self._push(track.capped_top, -flow.ratio, flow)
            ends_at = self._now + (flow.work - done) * track.scale / slots
            self._order += 1
            heapq.heappush(self._capped_ends, (ends_at, self._order, flow, len(flow.parts)))
            return
        track.weight += flow.weight
        track.nodes += flow.weight / flow.cost
        self._push(track.ends, self._end_of(flow), flow)
        if flow.ratio < INFINITE:
            self._push(track.by_ratio, flow.ratio, flow)

    def _take_out(self, track: _Track, flow: Flow) -> None:
        if flow.is_capped:
            track.capped_slots -= flow.weight * flow.ratio
            track.capped_nodes -= flow.weight * flow.ratio / flow.cost
        else:
            track.weight -= flow.weight
            track.nodes -= flow.weight / flow.cost

    def _done(self, flow: Flow) -> float:
        done, since, virtual, weight, is_capped = flow.parts[-1]
        track = self._tracks[flow.track]
        more = (self._now - since) * flow.ratio / track.scale if is_capped else track.virtual - virtual
        return min(flow.work, done + more * weight)

    @staticmethod
    def _end_of(flow: Flow) -> float:
        done, _, virtual, weight, _ = flow.parts[-1]
        return virtual + (flow.work - done) / weight

    def _push(self, heap: list[tuple[float, int, Flow]], key: float, flow: Flow) -> None:
        self._order += 1
        heapq.heappush(heap, (key, self._order, flow))

    # --- the share of each track

    def _allocate(self) -> None:
        """Raise the level of all tracks together. The tracks of a limit that is used up stay where they are."""
        rising = {index for index, track in enumerate(self._tracks) if track.active}
        for track in self._tracks:
            track.level = 0.0
        while rising:
            level, full = min(
                ((self._level_at(limit, rising), limit) for limit in self._limits if rising.intersection(limit.tracks)),
                key=lambda pair: pair[0],
                default=(INFINITE, None),
            )
            if self._uncap_above(level, full, rising) or self._cap_below(level, rising):
                continue
            stopped = rising if full is None else rising.intersection(full.tracks)
            for index in stopped:
                track = self._tracks[index]
                track.level = min(max(level, _SMALL), 1e12) if track.weight > _SMALL else 0.0
            rising = rising - stopped

    def _level_at(self, limit: Limit, rising: set[int]) -> float:
        used = weight = 0.0
        for index in limit.tracks:
            track = self._tracks[index]
            used += track.capped_slots
            if index in rising:
                weight += track.weight
            else:
                used += track.weight * track.level
        return (limit.slots - used) / weight if weight > _SMALL else INFINITE

    def _cap_below(self, level: float, rising: set[int]) -> bool:
        """Flows whose cap is below the level drain at their cap, and the others share what is left."""
        is_changed = False
        for index in rising:
            track = self._tracks[index]
            while track.by_ratio and track.by_ratio[0][0] < level:
                flow = heapq.heappop(track.by_ratio)[2]
                if not flow.is_over and not flow.is_capped:
                    self._change(flow, True, flow.weight)
                    is_changed = True
        return is_changed

    def _uncap_above(self, level: float, full: Limit | None, rising: set[int]) -> bool:
        """Flows of a full limit that entered later may leave a flow less than its cap."""
        is_changed = False
        for index in rising.intersection(full.tracks) if full is not None else ():
            track = self._tracks[index]
            while track.capped_top and -track.capped_top[0][0] > level * (1 + _SMALL):
                flow = heapq.heappop(track.capped_top)[2]
                if not flow.is_over and flow.is_capped:
                    self._change(flow, False, flow.weight)
                    is_changed = True
        return is_changed

    def _record(self) -> None:
        position = 0.0
        for track in self._tracks:
            course = track.course
            course.times.append(self._now)
            course.virtual.append(track.virtual)
            course.started.append(track.started)
            course.early.append((track.active + 1) / 2 / track.rate if track.rate > 0 else 0.0)
            position += max(0.0, track.started - track.active / 2)
        self.times.append(self._now)
        self.positions.append(position)
