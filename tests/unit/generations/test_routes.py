"""The operator's document of providers and routes: strict, with clear faults that never show a key."""

from __future__ import annotations

import copy
import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.generations.providers.model import ApiKey, FailureCode, ProviderFailed
from artiway.generations.providers.routes import LARGEST_DOCUMENT, ProvidersInvalid, StoredRoutes, parse

CANARY = "canary-key-5e1f"
DOCUMENT = {
    "providers": [
        {
            "name": "hosted",
            "baseUrl": "https://api.example.com/v1/",
            "apiKey": CANARY,
            "requestsPerMinute": 60,
            "tokensPerMinute": 90_000,
            "models": [
                {"id": "large", "inputPoints": 1.25, "outputPoints": 5},
                {"id": "org/small:free", "inputPoints": 0, "outputPoints": 0},
            ],
        },
        {
            "name": "own",
            "baseUrl": "http://127.0.0.1:9000/v1",
            "models": [{"id": "smollm2", "inputPoints": 0, "outputPoints": 0}],
        },
    ],
    "routes": {"copywriting": {"paid": ["hosted/large", "own/smollm2"], "free": ["hosted/org/small:free"]}},
}


def changed(path, value):
    """The document with another value at a path; `...` removes the field."""
    document = copy.deepcopy(DOCUMENT)
    place = document
    for part in path[:-1]:
        place = place[part]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


def fault(text):
    with pytest.raises(ProvidersInvalid) as raised:
        parse(text)
    return str(raised.value)


def test_route_gives_targets_in_order():
    routes = parse(json.dumps(DOCUMENT))
    paid = routes.of("copywriting", is_paid=True)
    assert [target.name for target in paid] == ["hosted/large", "own/smollm2"]
    assert paid[0].base_url == "https://api.example.com/v1"
    assert (paid[0].input_points, paid[0].output_points) == (Decimal("1.25"), Decimal(5))
    assert (paid[0].requests_per_minute, paid[0].tokens_per_minute) == (60, 90_000)
    assert paid[0].api_key.reveal() == CANARY
    assert [target.model_id for target in routes.of("copywriting", is_paid=False)] == ["org/small:free"]


def test_unknown_service_has_no_route():
    with pytest.raises(ProviderFailed) as raised:
        parse(json.dumps(DOCUMENT)).of("title", is_paid=True)
    assert raised.value.code == FailureCode.NO_ROUTE
    assert not raised.value.is_retryable


def test_empty_tier_has_no_route():
    routes = parse(changed(["routes", "copywriting", "free"], []))
    with pytest.raises(ProviderFailed, match="free texts of copywriting"):
        routes.of("copywriting", is_paid=False)


def test_places_are_hosts_of_all_providers():
    ipv6 = parse(changed(["providers", 1, "baseUrl"], "http://[::1]:9001/v1"))
    assert parse(json.dumps(DOCUMENT)).places() == {("api.example.com", 443), ("127.0.0.1", 9000)}
    assert ipv6.places() == {("api.example.com", 443), ("[::1]", 9001)}


@pytest.mark.parametrize(
    ("path", "value", "is_missing"),
    [
        (["providers", 0, "apiKey"], "", True),
        (["providers", 0, "apiKey"], ..., True),
        (["providers", 0, "apiKey"], None, True),
        (["providers", 1, "apiKey"], "", True),
        (["providers", 1, "apiKey"], None, False),
        (["providers", 1, "apiKey"], "any", False),
    ],
)
def test_hosted_provider_needs_a_key(path, value, is_missing):
    targets = parse(changed(path, value)).targets
    target = next(one for one in targets if one.provider == ("hosted", "own")[path[1]])
    assert target.is_key_missing is is_missing


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["providers"], ..., "lacks providers"),
        (["providers"], [], "a list of 1 to"),
        (["routes"], [], "routes is an object"),
        (["more"], 1, "unknown field 'more'"),
        (["providers", 0, "name"], "Two Words", "the name has"),
        (["providers", 0, "name"], "own", "provider 2: another one has the same name"),
        (["providers", 0, "baseUrl"], "ftp://api.example.com", "https URL"),
        (["providers", 0, "baseUrl"], "https://user:pw@api.example.com", "without user"),
        (["providers", 0, "baseUrl"], "https://api.example.com:99999/v1", "https URL"),
        (["providers", 0, "baseUrl"], "https://api.example.com/v1?key=1", "ends before /chat/completions"),
        (["providers", 0, "baseUrl"], "https://api.example.com/v1/chat/completions", "ends before"),
        (["providers", 0, "baseUrl"], "http://api.example.com/v1", "private hosts only"),
        (["providers", 0, "baseUrl"], "http://8.8.8.8/v1", "private hosts only"),
        (["providers", 0, "baseUrl"], 5, "https URL"),
        (["providers", 0, "apiKey"], "two words", "apiKey is a text"),
        (["providers", 0, "apiKey"], "k" * 5_000, "apiKey is a text"),
        (["providers", 0, "apiKey"], 7, "apiKey is a text"),
        (["providers", 0, "secret"], "x", "unknown field 'secret'"),
        (["providers", 0, "models"], {}, "models is a list"),
        (["providers", 0, "models", 0, "id"], "", "the id is a text"),
        (["providers", 0, "models", 0, "id"], "org/small:free", "two models have the same id"),
        (["providers", 0, "models", 0, "inputPoints"], -1, "inputPoints is a number"),
        (["providers", 0, "models", 0, "inputPoints"], "1", "inputPoints is a number"),
        (["providers", 0, "models", 0, "outputPoints"], True, "outputPoints is a number"),
        (["providers", 0, "models", 0, "outputPoints"], ..., "lacks outputPoints"),
        (["providers", 0, "requestsPerMinute"], 0, "requestsPerMinute is a whole number"),
        (["providers", 0, "tokensPerMinute"], 1.5, "tokensPerMinute is a whole number"),
        (["routes", "copywriting", "paid"], ["hosted/none"], "'hosted/none' is no provider/model"),
        (["routes", "copywriting", "paid"], ["own/smollm2"] * 2, "a model stands there twice"),
        (["routes", "copywriting", "paid"], "hosted/large", "a list of 0 to"),
        (["routes", "copywriting", "free"], ..., "route copywriting lacks free"),
        (["routes", "copywriting", "vip"], [], "unknown field 'vip'"),
        (["routes", "Copy"], {"paid": [], "free": []}, "a to z"),
    ],
)
def test_fault_names_its_place(path, value, words):
    found = fault(changed(path, value))
    assert words in found
    assert CANARY not in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nul",
        '{"providers": NaN, "routes": {}}',
        "[" * 50_000,
        '{"a": 1, "a": 2}',
        " " * (LARGEST_DOCUMENT + 1),
    ],
)
def test_document_that_is_no_object_is_refused(text):
    assert fault(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_gives_routes_or_a_fault(document):
    with pytest.raises(ProvidersInvalid):
        parse(json.dumps(document))


class TestStoredRoutes:
    def stored(self, *texts):
        """The routes of a secret that has each text in turn."""
        left = list(texts)
        return StoredRoutes(lambda: left.pop(0) if len(left) > 1 else left[0])

    def test_changed_document_is_used(self):
        routes = self.stored(json.dumps(DOCUMENT), changed(["routes", "copywriting", "paid"], ["own/smollm2"]))
        assert [len(routes().of("copywriting", is_paid=True)) for _ in range(2)] == [2, 1]

    def test_slip_leaves_last_document_in_force(self, capsys):
        routes = self.stored(json.dumps(DOCUMENT), json.dumps(DOCUMENT)[:-1])
        assert routes() == routes()
        assert "not JSON" in (logged := capsys.readouterr().out)
        assert CANARY not in logged

    def test_first_document_with_a_slip_lets_texts_wait(self):
        with pytest.raises(ProviderFailed) as raised:
            self.stored("nothing")()
        assert (raised.value.code, raised.value.is_waiting) == (FailureCode.INVALID, True)

    @pytest.mark.parametrize("text", ["", "{}", " {} "])
    def test_empty_document_has_no_routes(self, text):
        assert self.stored(text)().targets == ()


def test_key_is_shown_by_reveal_only():
    target = parse(json.dumps(DOCUMENT)).targets[0]
    key = ApiKey(CANARY)
    assert key.reveal() == CANARY
    for text in (repr(target), str(target), repr(key), f"{key}"):
        assert CANARY not in text
    with pytest.raises(TypeError, match="not serialised"):
        pickle.dumps(key)
