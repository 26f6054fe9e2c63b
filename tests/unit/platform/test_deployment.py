from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from artiway.platform import deployment


@pytest.fixture
def cloudformation():
    """CloudFormation's response URL as a real server, and the answers that it received."""
    answers: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            answers.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/answer", answers
    server.shutdown()
    thread.join()
    server.server_close()


def event(url, kind="Create", resource="Custom::Migration"):
    return {
        "RequestType": kind,
        "ResourceType": resource,
        "ResponseURL": url,
        "StackId": "s",
        "RequestId": "r",
        "LogicalResourceId": "Migration",
        "ResourceProperties": {"SchemaVersion": "1"},
    }


def test_custom_resource_returns_its_data(cloudformation):
    url, answers = cloudformation
    deployment.answer_custom_resource(event(url), None, lambda action, given: {"action": action, **given})
    assert answers[0]["Status"] == "SUCCESS"
    assert answers[0]["Data"] == {"action": "migrate", "SchemaVersion": "1"}
    assert answers[0]["PhysicalResourceId"] == "Migration"


def test_failure_is_reported_to_cloudformation_at_once(cloudformation):
    url, answers = cloudformation

    def perform(*_):
        raise ZeroDivisionError("division by zero")

    deployment.answer_custom_resource(event(url), None, perform)
    assert (answers[0]["Status"], answers[0]["Reason"]) == ("FAILED", "ZeroDivisionError: division by zero")


def test_deleting_stack_performs_nothing(cloudformation):
    url, answers = cloudformation
    deployment.answer_custom_resource(event(url, "Delete"), None, lambda *_: pytest.fail("performed"))
    assert answers[0]["Status"] == "SUCCESS"
