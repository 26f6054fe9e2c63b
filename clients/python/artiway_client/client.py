"""The client for plain code. Generated from the OpenAPI document by `make clients`. Do not edit."""

from __future__ import annotations

import threading
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import httpx

from artiway_client import pictures
from artiway_client.operations import Operations
from artiway_client.core import RETRY_FOR_S, Answer, Call, Core, Lost, Outgoing, Renew, path_part, pause_s
from artiway_client.credentials import ApiKey, Credentials, SigningKey, Tokens, TokenStore
from artiway_client.errors import AnswerLost, ApiError, TooMany
from artiway_client.streams import TASK_ENDS, TEXT_ENDS, Event, EventParser, TextBuilder, TextFailed

if TYPE_CHECKING:
    from artiway_client import models

TIMEOUT = httpx.Timeout(40, connect=5)
POLL_S = (0.5, 3.0)
TRANSFER_RETRY_S = 300.0  # less than the life of an address
LISTENERS = "TASK_429_LISTENERS"
OnEvent = Callable[[Event], object]


class Client(Operations):
    """Every operation of the API as a method, and upload, run, wait, stream, paging on top.

    `api_key`, or `tokens` of an earlier login, or `sign_in`. With `is_signed` the key signs each request.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        is_signed: bool = False,
        tokens: TokenStore | None = None,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        credentials: Credentials | None = tokens
        if api_key is not None:
            credentials = SigningKey(api_key) if is_signed else ApiKey(api_key)
        self.core = Core(url, credentials, retry_for_s=retry_for_s)
        self._http = httpx.Client(timeout=TIMEOUT)
        self._tools: dict[str, models.ToolBody] = {}
        self._renewal = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------ requests

    def call(self, call: Call) -> Any:
        steps = self.core.steps(call)
        reply: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = None
            if isinstance(step, Outgoing):
                reply = self._send(step)
            elif isinstance(step, Renew):
                self._renew(step.stale)
            else:
                time.sleep(step)

    def _send(self, step: Outgoing) -> Answer | Lost:
        request = self._http.build_request(step.method, step.url, headers=step.headers, content=step.body)
        try:
            response = self._http.send(request, stream=step.is_stream)
            if step.is_stream and response.is_success:
                return Answer(response.status_code, response.headers, b"", response)
            return Answer(response.status_code, response.headers, response.read())
        except httpx.TransportError as error:
            was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            return Lost(str(error) or type(error).__name__, was_sent)

    def _renew(self, stale: str) -> None:
        store = self.core.credentials
        assert isinstance(store, TokenStore)
        with self._renewal:
            with store.exclusive():
                if store.tokens.access != stale:
                    return
                with Client(self.core.url, retry_for_s=self.core.retry_for_s) as other:
                    pair = other.refresh({"refreshToken": store.tokens.refresh})
                store.save(Tokens(pair["accessToken"], pair["refreshToken"]))

    def sign_in(self, login: str, password: str) -> models.TokensBody:
        """Log in and use the tokens from now on; they are renewed when they expire."""
        found = self.log_in({"login": login, "password": password})
        self.core.credentials = TokenStore(Tokens(found["accessToken"], found["refreshToken"]))
        return found

    # ------------------------------------------------------------ lists

    def each(self, listing: Callable[..., Any], *arguments: Any, **filters: Any) -> Iterator[Any]:
        """Every item of a list, page by page: `client.each(client.list_tasks, status="FAILED")`."""
        filters.setdefault("limit", 100)
        cursor: str | None = None
        while True:
            page = listing(*arguments, cursor=cursor, **filters)
            for item in page["items"]:
                yield item
            if not (cursor := page["nextCursor"]):
                return

    # ------------------------------------------------------------ pictures

    def tools(self) -> Mapping[str, models.ToolBody]:
        """The catalogue by name, read once."""
        if not self._tools:
            self._tools = {tool["tool"]: tool for tool in self.each(self.list_tools)}
        return self._tools

    def upload(self, source: pictures.Source) -> str:
        """Upload a picture (a path, bytes or an open file) and return its input id."""
        picture = pictures.read(source)
        ticket = self.create_upload(
            cast("models.UploadBody", {"contentType": pictures.content_type(picture), "bytes": len(picture)})
        )
        self._transfer(ticket["method"], ticket["url"], ticket["headers"], picture)
        return ticket["inputId"]

    def _transfer(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
        """A request to the storage: the address itself is the permission, so no credentials are sent."""
        deadline = time.monotonic() + min(self.core.retry_for_s, TRANSFER_RETRY_S)
        for attempt in itertools.count():
            reply = self._send(Outgoing(method, url, headers, body, is_stream=False))
            if isinstance(reply, Answer) and reply.status < 400:
                return reply.body
            if isinstance(reply, Answer) and reply.status < 500:
                raise ApiError(reply.status, f"STORAGE_{reply.status}", f"the storage refused {method}")
            wait_s = pause_s(attempt)
            if time.monotonic() + wait_s > deadline:
                break
            time.sleep(wait_s)
        raise AnswerLost(f"{method} {url.partition('?')[0]}: the storage does not answer")

    def submit(
        self,
        tool: str,
        *sources: pictures.Source,
        inputs: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        count: int | None = None,
        idempotency_key: str | None = None,
        **more: Any,
    ) -> models.AcceptedBody:
        """Upload `sources` as the tool's inputs in their order, and submit. `inputs` has ids of earlier uploads."""
        given = dict(inputs or {})
        if sources:
            names = pictures.input_names(pictures.tool_named(self.tools(), tool), len(sources))
            for name, source in zip(names, sources, strict=True):
                given[name] = self.upload(source)
        body = {"tool": tool, "inputs": given, "params": dict(params or {}), **more}
        if count is not None:
            body["count"] = count
        return self.submit_task(cast("models.SubmitBody", body), idempotency_key=idempotency_key)

    def run(
        self, tool: str, *sources: pictures.Source, on_event: OnEvent | None = None, **more: Any
    ) -> models.TaskViewBody:
        """Upload, submit and wait for the end; a task that fails is returned, not raised."""
        accepted = self.submit(tool, *sources, **more)
        return self.wait(accepted["taskId"], on_event=on_event)

    def wait(
        self, task_id: str, *, timeout_s: float | None = None, on_event: OnEvent | None = None
    ) -> models.TaskViewBody:
        """Follow a task to its end by its events; by polling where no stream is free."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            for event in self.task_events(task_id):
                if on_event is not None:
                    on_event(event)
                _check_time(deadline, task_id)
        except TooMany as error:
            if error.code != LISTENERS:
                raise
        poll_s, longest_s = POLL_S
        while True:
            view = self.get_task(task_id)
            if view["status"] in pictures.ENDED:
                return view
            _check_time(deadline, task_id)
            time.sleep(poll_s)
            poll_s = min(longest_s, poll_s * 1.5)

    def download(self, task: models.TaskViewBody, folder: str | Path = ".", *, prefix: str = "") -> list[Path]:
        """Save all results of a task. An address that has expired is requested again."""
        saved = []
        for number, name in enumerate(pictures.file_names(task["results"], prefix)):
            try:
                content = self._transfer("GET", task["results"][number]["url"], {})
            except ApiError as error:
                if error.status not in {401, 403}:
                    raise
                fresh = self.get_task(task["taskId"])
                content = self._transfer("GET", fresh["results"][number]["url"], {})
            saved.append(pictures.save(content, Path(folder) / name))
        return saved

    # ------------------------------------------------------------ streams

    def task_events(self, task_id: str, *, last_event_id: str | None = None) -> Iterator[Event]:
        """The events of a task up to its settlement, across broken connections, each once."""
        return self._events(f"/tasks/{path_part(task_id)}/events", TASK_ENDS, last_event_id)

    def generation_events(self, generation_id: str, *, last_event_id: str | None = None) -> Iterator[Event]:
        """The events of a text up to its end, across broken connections, each once."""
        return self._events(f"/generations/{path_part(generation_id)}/events", TEXT_ENDS, last_event_id)

    def _events(self, path: str, ends: frozenset[str], last_event_id: str | None) -> Iterator[Event]:
        parser = EventParser(last_event_id)
        last_line_at = time.monotonic()
        while True:
            headers = {"accept": "text/event-stream"}
            if parser.last_id is not None:
                headers["last-event-id"] = parser.last_id
            call = Call("GET", path, headers=headers, is_stream=True, final_codes=frozenset({LISTENERS}))
            response = cast("httpx.Response", self.call(call))
            try:
                for line in response.iter_lines():
                    last_line_at = time.monotonic()
                    if (event := parser.feed(line)) is not None:
                        yield event
                        if event.name in ends:
                            return
            except httpx.TransportError as error:
                if time.monotonic() - last_line_at > self.core.retry_for_s:
                    raise AnswerLost(f"GET {self.core.url}{path}: {error}") from error
            finally:
                response.close()
            parser.reconnect()
            time.sleep(parser.retry_s)

    def write(
        self, service: str, text: str | None = None, *, on_event: OnEvent | None = None, **more: Any
    ) -> Iterator[str]:
        """A text as it is written. `more` has fields of the request: input, params, maxTokens, lane.

        After an event `restart` the text begins again: what follows replaces what came before.
        """
        body = {"service": service, "input": {"text": text}, **more}
        accepted = self.submit_generation(cast("models.GenerationRequestBody", body))
        builder = TextBuilder()
        for event in self.generation_events(accepted["generationId"]):
            if on_event is not None:
                on_event(event)
            if new := builder.take(event):
                yield new
            if event.name == "error":
                raise TextFailed(str(event.data.get("code", "")), str(event.data.get("message", "")))


def _check_time(deadline: float | None, task_id: str) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise TimeoutError(f"{task_id} has not ended in time; it goes on")
