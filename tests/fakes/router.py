"""A router of providers that answers as a test scripts it. The real one is tested against servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from artiway.generations.providers.model import (
    Chosen,
    FailureCode,
    Finish,
    FinishReason,
    Limits,
    Prompt,
    ProviderFailed,
    RoutedItem,
    Target,
    Text,
    Usage,
)

FIRST = Target("alpha", "http://alpha.test/v1", "small")
SECOND = Target("beta", "http://beta.test/v1", "large")
USAGE = Usage(40, 100)

Script = Sequence[RoutedItem | ProviderFailed | Callable[[], object]]


def whole(*pieces: str, usage: Usage | None = USAGE) -> list[RoutedItem]:
    return [*(Text(piece) for piece in pieces), Finish(FinishReason.STOP, usage)]


class ScriptedRouter:
    """Each call takes the next script, the last one for ever. A callable in a script is called between two items."""

    def __init__(self, *scripts: Script, targets: Sequence[Target] = (FIRST,)) -> None:
        self.scripts = list(scripts) or [whole("Red ", "cotton ", "dress.")]
        self.route = list(targets)
        self.prompts: list[Prompt] = []
        self.closed = 0

    def targets(self, service: str, *, is_paid: bool) -> Sequence[Target]:
        if not self.route:
            raise ProviderFailed(FailureCode.NO_ROUTE, f"no provider is configured for {service}")
        return self.route

    def named(self, model: str, services: Collection[str], *, is_paid: bool) -> Sequence[Target]:
        found = [target for target in self.route if target.name == model]
        if not found:
            raise ProviderFailed(FailureCode.NO_ROUTE, f"no route has {model}")
        return found

    def stream(
        self,
        targets: Sequence[Target],
        prompt: Prompt,
        limits: Limits,
        is_cancelled: Callable[[], bool],
        admit: Callable[[Target], bool] = lambda _target: True,
    ) -> Iterator[RoutedItem]:
        self.prompts.append(prompt)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        target = next((one for one in targets if admit(one)), None)
        try:
            if target is None:
                raise ProviderFailed(FailureCode.BUSY, "every model is at its limit")
            yield Chosen(target)
            for item in script:
                if is_cancelled():
                    yield Finish(FinishReason.CANCELLED)
                    return
                if isinstance(item, ProviderFailed):
                    raise item
                if callable(item):
                    item()
                else:
                    yield item
        finally:
            self.closed += 1
