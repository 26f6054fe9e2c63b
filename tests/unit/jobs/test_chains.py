"""The text of predecessors in a body, and circles of jobs."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from artiway.jobs.chains.model import circle, placeholders, rendered

A, B, C, D = (UUID(int=number) for number in range(1, 5))
FIRST = {"jobId": f"job_{A.hex}", "runId": "run_1", "httpStatus": 200, "answer": 'line "one"\nline two'}
SECOND = {"jobId": f"job_{B.hex}", "runId": "run_2", "httpStatus": 202, "answer": None}


class TestBody:
    def test_text_takes_answers_of_both(self):
        body = f"{{{{predecessor.answer}}}}|{{{{ predecessor.job_{B.hex}.httpStatus }}}}|{{{{predecessor.runId}}}}"
        assert rendered(body, [FIRST, SECOND]) == f"{FIRST['answer']}|202|run_1"

    def test_json_stays_valid(self):
        body = {"text": "{{predecessor.answer}}", "list": ["{{predecessor.httpStatus}}", 7, None]}
        found = rendered(body, [FIRST])
        assert json.loads(json.dumps(found)) == {"text": FIRST["answer"], "list": ["200", 7, None]}

    def test_missing_answer_is_empty(self):
        assert rendered(f"[{{{{predecessor.job_{B.hex}.answer}}}}]", [FIRST, SECOND]) == "[]"
        assert rendered(f"[{{{{predecessor.job_{D.hex}.answer}}}}]", [FIRST]) == "[]"

    @pytest.mark.parametrize("body", ["{{predecessor.secret}}", "{{ other.answer }}", "secret:NAME", "", None, 7])
    def test_other_text_stays(self, body):
        assert rendered(body, [FIRST]) == body

    def test_answer_is_not_rendered_again(self):
        answer = {**FIRST, "answer": "{{predecessor.runId}}"}
        assert rendered("{{predecessor.answer}}", [answer]) == "{{predecessor.runId}}"

    def test_job_without_predecessors_keeps_its_body(self):
        assert rendered("{{predecessor.answer}}", None) == "{{predecessor.answer}}"

    def test_placeholders_name_their_jobs(self):
        body = {"a": "{{predecessor.answer}}", "b": [f"{{{{predecessor.job_{A.hex}.runId}}}}"]}
        assert placeholders(body) == ["", f"job_{A.hex}"]


class TestCircles:
    @pytest.mark.parametrize(
        ("edges", "job", "after", "found"),
        [
            ([], A, [B], []),
            ([(B, A)], A, [B], [A, B, A]),
            ([(B, A), (C, B)], A, [C], [A, C, B, A]),
            ([(B, A), (C, B)], D, [C], []),
            ([(B, A), (C, A), (D, B), (D, C)], A, [], []),
            ([(A, B), (B, C)], A, [D], []),
            ([], A, [A], [A, A]),
        ],
    )
    def test_circle_is_found(self, edges, job, after, found):
        assert circle(edges, job, after) == found
