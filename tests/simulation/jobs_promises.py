"""What must hold at the end of a simulated run of jobs, checked on the rows that it left."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from uuid import UUID

from artiway.jobs import cron, zones
from tests.simulation.jobs_story import JobsStory, KnownJob

UTC = zones.zone("UTC")
MOST = 100_000


class JobsPromises:
    def __init__(self, story: JobsStory) -> None:
        self.story, self.world = story, story.world
        self.runs = self.world.runs()
        self.results = defaultdict(list)
        for row in self.world.rows("SELECT * FROM run_result ORDER BY run_id, generation, attempt"):
            self.results[row["run_id"], row["generation"]].append(row)

    def check(self) -> None:
        self.everything_ended()
        self.each_fire_is_a_run_or_explained()
        self.no_attempt_takes_effect_twice()
        self.attempts_stay_within_their_limit()
        self.runs_started_at_or_after_their_time()
        self.tasks_were_submitted_once()
        assert self.world.loads() == self.world.counted_runs()
        assert self.world.run_sweeper.slow() == {"run_results": 0, "run_counters": 0}

    def everything_ended(self) -> None:
        assert {run["state"] for run in self.runs} <= {"SUCCESS", "FAILED", "TERMINATED"}
        assert all((run["dead_at"] is not None) == (run["state"] == "FAILED") for run in self.runs)

    def each_fire_is_a_run_or_explained(self) -> None:
        for job in self.story.jobs:
            runs = Counter(
                run["scheduled_at"]
                for run in self.runs
                if run["job_id"] == job.job_id and run["kind"] in ("SCHEDULED", "CATCHUP")
            )
            noted = self._noted(job)
            assert not runs.keys() & noted, "a fire is both a run and a note"
            assert max(runs.values(), default=1) == 1
            if job.once_at is not None:
                assert {*runs, *noted} <= {job.once_at}
                if job.version == 2 and self._is_completed(job):  # else it was paused at its time
                    assert {*runs, *noted} == {job.once_at}
                continue
            expected: set[datetime] = set()
            early: set[datetime] = set()  # decided before the clock stepped back, and then the schedule changed
            for segment in job.segments:
                assert segment.until is not None
                expected.update(cron.parse(segment.expr).between(segment.since, segment.until, UTC, MOST))
                latest = max(segment.until, segment.latest or segment.until)
                early.update(cron.parse(segment.expr).between(segment.until, latest, UTC, MOST))
            assert expected - {*runs, *noted} == set()
            assert {*runs, *noted} - expected <= early

    def _is_completed(self, job: KnownJob) -> bool:
        (row,) = self.world.rows("SELECT status FROM job WHERE job_id = %s", job.job_id)
        return row["status"] == "COMPLETED"

    def _noted(self, job: KnownJob) -> set[datetime]:
        found: set[datetime] = set()
        for note in self.world.notes(job.job_id):
            if note["fires"] == 1:
                times = [note["first_at"]]
            else:
                exprs = [
                    segment.expr
                    for segment in job.segments
                    if segment.since < note["first_at"] and (segment.until is None or note["first_at"] <= segment.until)
                ]
                later = cron.parse(exprs[-1]).between(note["first_at"], note["last_at"], UTC, MOST)
                times = [note["first_at"], *later]
            assert len(times) == note["fires"]
            found.update(times)
        return found

    def no_attempt_takes_effect_twice(self) -> None:
        for results in self.results.values():
            assert max(Counter(row["attempt"] for row in results).values()) == 1
            succeeded = [row["attempt"] for row in results if row["outcome"] == "SUCCEEDED"]
            assert succeeded in ([], [max(row["attempt"] for row in results)])
        for run in self.runs:
            last = self.results.get((run["run_id"], run["generation"]), [])
            if run["state"] == "SUCCESS":
                assert [row["outcome"] for row in last].count("SUCCEEDED") == 1
            if run["state"] == "TERMINATED":
                assert all(row["outcome"] != "SUCCEEDED" for row in last)

    def attempts_stay_within_their_limit(self) -> None:
        most = {row["job_id"]: row["max_attempts"] for row in self.world.rows("SELECT job_id, max_attempts FROM job")}
        called: dict[UUID, set[tuple[int, int]]] = defaultdict(set)
        for call in self.world.calls:
            called[call.run_id].add((call.generation, call.attempt))
        for run in self.runs:
            assert run["attempt"] <= most[run["job_id"]]
            assert all(attempt <= most[run["job_id"]] for _, attempt in called[run["run_id"]])
            assert all(generation <= run["generation"] for generation, _ in called[run["run_id"]])

    def runs_started_at_or_after_their_time(self) -> None:
        for run in self.runs:
            if run["attempt"] == 1 and run["generation"] == 1 and run["started_at"] is not None:
                assert run["started_at"] >= run["assigned_at"]

    def tasks_were_submitted_once(self) -> None:
        tasks = self.world.rows("SELECT submission_key, ended_at FROM task")
        assert len({task["submission_key"] for task in tasks}) == len(tasks)
        assert all(task["ended_at"] is not None for task in tasks)
        assert self.world.rows("SELECT 1 FROM points_hold WHERE status = 'HELD'") == []
