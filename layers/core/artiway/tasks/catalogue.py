"""Reads catalogue.toml and turns a request for a tool, or a caller's flow, into a plan of nodes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any
from uuid import UUID

from artiway.jobs.settings import BODY_BYTES
from artiway.settings.model import Defaults, Setting, SettingValues
from artiway.tasks import dag, parameters
from artiway.tasks.calls import nodes as calls
from artiway.tasks.calls.settings import HTTP_PRICE
from artiway.tasks.model import HTTP, FlowNode, InvalidRequest, Node, Plan, PlannedNode, Source

MICROSECONDS = 1_000_000
MOST_OUTPUTS = 50
HIGHEST_PRICE = 10_000
FLOW = "flow"


@dataclass(frozen=True)
class NodeType:
    """`price` is for a node of a caller's flow."""

    name: str
    cost_us: int
    price: Setting[int]


@dataclass(frozen=True)
class Refusal:
    """Parameters that are valid alone and refused together. The error names the first one."""

    params: Mapping[str, Any]
    reason: str


@dataclass(frozen=True)
class Step:
    """One operation of a node type. `main` lists the names of its main input, preferred first; it may be empty."""

    name: str
    type: NodeType
    main: tuple[str, ...]
    optional: tuple[str, ...]
    output: str
    one_of: tuple[str, ...]
    refuses: tuple[Refusal, ...]
    params: Mapping[str, parameters.Schema]
    model: str = ""
    needs_network: bool = False
    help: Mapping[str, str] = field(default_factory=dict)
    draft: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolNode:
    name: str
    step: Step
    inputs: Mapping[str, str]
    params: Mapping[str, Any]
    is_result: bool


@dataclass(frozen=True)
class Tool:
    """`price_points`, `count` and `most_outputs` are in force now; `price` and `limit` are their settings."""

    name: str
    group: str
    title: Mapping[str, str]
    price: Setting[int]
    limit: Setting[int] | None
    price_points: int
    count: Mapping[str, int]
    most_outputs: int
    inputs: tuple[str, ...]
    optional_inputs: tuple[str, ...]
    batch: str | None
    params: Mapping[str, parameters.Schema]
    nodes: tuple[ToolNode, ...]

    @property
    def node_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.step.type.name for node in self.nodes))

    @property
    def steps(self) -> frozenset[str]:
        return frozenset(node.step.name for node in self.nodes)

    @property
    def input_help(self) -> dict[str, str]:
        """What an input is, where its name does not say it."""
        return {
            reference.removeprefix("@"): node.step.help[name]
            for node in self.nodes
            for name, reference in node.inputs.items()
            if name in node.step.help and reference.startswith("@")
        }

    @property
    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.params), "additionalProperties": False}
        faults = [
            parameters.together(refusal.params, self.params)
            for node in self.nodes
            if node.is_result
            for refusal in node.step.refuses
        ]
        return schema | ({"not": {"anyOf": faults}} if faults else {})

    def with_values(self, values: SettingValues) -> Tool:
        """The tool with the price and the limit that are in force."""
        most = 1 if self.limit is None else values.get(self.limit)
        count = {**self.count, "maximum": most, "default": min(self.count["default"], most)}
        return replace(
            self,
            price_points=values.get(self.price),
            count=self.count if self.batch is not None else count,
            most_outputs=most,
        )


class Catalogue:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.values: SettingValues = Defaults()
        self.types = {name: _type(name, row) for name, row in data["types"].items()}
        self._common: Mapping[str, parameters.Schema] = data["common"]
        self.steps = {name: self._step(name, row) for name, row in data["steps"].items()}
        self._tools = {name: self._tool(name, row) for name, row in data["tools"].items()}

    def with_values(self, values: SettingValues) -> Catalogue:
        """The same catalogue, with prices and limits from these settings."""
        other = copy(self)
        other.values = values
        return other

    @property
    def tools(self) -> dict[str, Tool]:
        return {name: tool.with_values(self.values) for name, tool in self._tools.items()}

    @property
    def models(self) -> dict[str, list[str]]:
        """The models that steps declare, and the steps of each."""
        found: dict[str, list[str]] = {}
        for step in self.steps.values():
            if step.model:
                found.setdefault(step.model, []).append(step.name)
        return found

    def draft_notes(self, steps: Iterable[str]) -> list[dict[str, str]]:
        """What the drafts of these steps can and cannot do, by language, in the order of the catalogue."""
        wanted = frozenset(steps)
        return [dict(step.draft) for step in self.steps.values() if step.name in wanted and step.draft]

    def drafts_of(self, nodes: Sequence[Node], dependencies: Mapping[UUID, Sequence[UUID]]) -> set[str]:
        """The nodes whose picture was made without a network that they, or a node before them, need."""
        found: dict[UUID, str] = {}
        for node in sorted(nodes, key=lambda one: one.position):
            step = self.steps.get(node.step)
            is_without = bool(step and step.needs_network and node.engine and not node.engine.get("isNeural"))
            if is_without or any(other in found for other in dependencies.get(node.node_id, ())):
                found[node.node_id] = node.name
        return set(found.values())

    def picture_format(self, params: Mapping[str, Any]) -> str:
        """The format of the picture that a node with these parameters makes."""
        return str(params.get("format", self._common["format"]["default"]))

    def tool(self, name: str) -> Tool:
        if name not in self._tools:
            raise InvalidRequest("tool", f"there is no tool {name[:64]}")
        return self._tools[name].with_values(self.values)

    def plan(
        self, tool_name: str, *, inputs: Mapping[str, UUID], params: Mapping[str, Any], count: int | None, seed: int
    ) -> Plan:
        """The DAG of a request. Raises InvalidRequest for any fault in it, before points are held."""
        tool = self.tool(tool_name)
        _check("params", tool.params, params)
        outputs = self._outputs(tool, inputs, count)
        nodes = [
            self._planned(tool, node, number, inputs, {"seed": seed, **params})
            for node in tool.nodes
            for number in (range(1, outputs + 1) if "{i}" in node.name else (0,))
        ]
        return Plan(tool.name, dag.ordered(nodes))

    def flow(self, nodes: Sequence[FlowNode], *, seed: int) -> Plan:
        dag.ordered(nodes)  # a circle is reported before faults of single nodes
        by_name = {node.name: node for node in nodes}
        planned = [
            self._http_node(node, by_name) if node.type == HTTP else self._flow_node(node, by_name, seed)
            for node in nodes
        ]
        ordered = dag.ordered(planned)
        self._check_outputs(ordered)
        return Plan(FLOW, ordered)

    def _outputs(self, tool: Tool, inputs: Mapping[str, UUID], count: int | None) -> int:
        if tool.batch is not None:
            return self._batch_size(tool, tool.batch, inputs, count)
        for name in tool.inputs:
            if name not in inputs:
                raise InvalidRequest(f"inputs.{name}", "is needed")
        for name in inputs:
            if name not in (*tool.inputs, *tool.optional_inputs):
                raise InvalidRequest(f"inputs.{name}", f"{tool.name} does not take it")
        wanted = tool.count["default"] if count is None else count
        if not tool.count["minimum"] <= wanted <= tool.count["maximum"]:
            raise InvalidRequest("count", f"{tool.count['minimum']} to {tool.count['maximum']}")
        return wanted

    @staticmethod
    def _batch_size(tool: Tool, prefix: str, inputs: Mapping[str, UUID], count: int | None) -> int:
        expected = {f"{prefix}_{number}" for number in range(1, len(inputs) + 1)}
        if not 1 <= len(inputs) <= tool.most_outputs or (set(inputs) != expected and set(inputs) != {prefix}):
            last = f"{prefix}_{tool.most_outputs}"
            raise InvalidRequest("inputs", f"{tool.name} takes {prefix}_1 to {last}, without a gap")
        if count not in (None, len(inputs)):
            raise InvalidRequest("count", "a batch makes one output for each picture")
        return len(inputs)

    def _planned(
        self, tool: Tool, node: ToolNode, number: int, inputs: Mapping[str, UUID], params: Mapping[str, Any]
    ) -> PlannedNode:
        sources = tuple(
            source
            for name, reference in node.inputs.items()
            if (source := self._source(tool, name, reference.replace("{i}", str(number)), inputs)) is not None
        )
        known = {*node.step.params, "seed"} | ({"format", "quality"} if node.is_result else set())
        own = {name: value for name, value in params.items() if name in known}
        if not _has_one_of(node.step, sources, own):
            raise InvalidRequest("inputs", f"{tool.name} needs one of {', '.join(node.step.one_of)}")
        self._check_together("params", node.step, own)
        return PlannedNode(
            name=node.name.replace("{i}", str(number)),
            type=node.step.type.name,
            step=node.step.name,
            model=node.step.model,
            params={"step": node.step.name, "variant": max(0, number - 1), **own, **node.params},
            sources=sources,
            depends_on=tuple(dict.fromkeys(source.node for source in sources if source.node)),
            cost_us=node.step.type.cost_us,
            price_points=tool.price_points if node.is_result else 0,
            is_result=node.is_result,
        )

    def _source(self, tool: Tool, name: str, reference: str, inputs: Mapping[str, UUID]) -> Source | None:
        if not reference.startswith("@"):
            step = next(node.step for node in tool.nodes if _matches(node.name, reference))
            return Source(name, node=reference, output=step.output)
        upload = inputs.get(reference[1:])
        if upload is None and tool.batch is not None:
            upload = inputs.get(tool.batch)
        return None if upload is None else Source(name, input_id=upload)

    def _http_node(self, node: FlowNode, others: Mapping[str, FlowNode]) -> PlannedNode:
        body_bytes = self.values.get(BODY_BYTES)
        return calls.planned(node, others, price_points=self.values.get(HTTP_PRICE), body_bytes=body_bytes)

    def _flow_node(self, node: FlowNode, others: Mapping[str, FlowNode], seed: int) -> PlannedNode:
        place = f"nodes.{node.name}"
        step = self._step_of(place, node)
        _check(f"{place}.params", {**self._common, **step.params}, node.params)
        sources = [Source(name, input_id=input_id) for name, input_id in node.uploads.items()]
        for name, reference in node.sources.items():
            origin, _, output = reference.partition(".")
            if origin not in others:
                raise InvalidRequest(f"{place}.inputs.{name}", f"neither an upload nor a node: {reference[:64]}")
            if others[origin].type == HTTP:
                raise InvalidRequest(f"{place}.inputs.{name}", f"{origin} is an HTTP node and makes no picture")
            sources.append(Source(name, node=origin, output=output))
        given = {source.name for source in sources}
        for name in given - {*step.main, *step.optional}:
            raise InvalidRequest(f"{place}.inputs.{name}", f"{step.name} does not take it")
        if step.main and not given & set(step.main):
            raise InvalidRequest(f"{place}.inputs", f"{step.name} needs {' or '.join(step.main)}")
        if not _has_one_of(step, sources, node.params):
            raise InvalidRequest(f"{place}.inputs", f"{step.name} needs one of {', '.join(step.one_of)}")
        self._check_together(f"{place}.params", step, node.params)
        origins = [source.node for source in sources if source.node]
        return PlannedNode(
            name=node.name,
            type=step.type.name,
            step=step.name,
            model=step.model,
            params={"seed": seed, **node.params, "step": step.name},
            sources=tuple(sources),
            depends_on=tuple(dict.fromkeys((*node.depends_on, *origins))),
            cost_us=step.type.cost_us,
            price_points=self.values.get(step.type.price),
            is_result=True,
        )

    def _check_together(self, place: str, step: Step, params: Mapping[str, Any]) -> None:
        known = {**self._common, **step.params}
        for refusal in step.refuses:
            if parameters.is_refused(refusal.params, params, known):
                raise InvalidRequest(f"{place}.{next(iter(refusal.params))}", refusal.reason)

    def _step_of(self, place: str, node: FlowNode) -> Step:
        if (node.step is None) == (node.type is None):
            raise InvalidRequest(place, "give either a type or a tool")
        if node.step is not None:
            if node.step not in self.steps:
                raise InvalidRequest(f"{place}.tool", f"unknown; known are {', '.join(sorted(self.steps))}")
            return self.steps[node.step]
        if node.type not in self.types:
            raise InvalidRequest(f"{place}.type", f"unknown; known are {', '.join((*self.types, HTTP))}")
        return next(step for step in self.steps.values() if step.type.name == node.type)

    def _check_outputs(self, nodes: Sequence[PlannedNode]) -> None:
        outputs = {node.name: self.steps[node.step].output for node in nodes if not node.is_http}
        for node in nodes:
            if node.is_http:
                continue
            for source in node.sources:
                if source.node and source.output not in ("", outputs[source.node]):
                    reason = f"{source.node} makes {outputs[source.node]}, not {source.output[:64]}"
                    raise InvalidRequest(f"nodes.{node.name}.inputs.{source.name}", reason)

    def _step(self, name: str, row: Mapping[str, Any]) -> Step:
        return Step(
            name=name,
            type=self.types[row["type"]],
            main=tuple(row["main"]),
            optional=tuple(row.get("optional", ())),
            output=row["output"],
            one_of=tuple(row.get("one_of", ())),
            refuses=tuple(Refusal(**refusal) for refusal in row.get("refuses", ())),
            params=row["params"],
            model=row.get("model", ""),
            needs_network=row.get("needs_network", False),
            draft=row.get("draft", {}),
            help=row.get("help", {}),
        )

    def _tool(self, name: str, row: Mapping[str, Any]) -> Tool:
        nodes = tuple(
            ToolNode(
                node["name"],
                self.steps[node["step"]],
                node["inputs"],
                node.get("params", {}),
                node.get("is_result", False),
            )
            for node in row["nodes"]
        )
        # If several steps define a parameter, the schema of the result node is shown.
        known = {key: schema for node in nodes for key, schema in node.step.params.items()}
        count = row.get("count", {"minimum": 1, "maximum": 1, "default": 1})
        limit = _limit(name, row)
        return Tool(
            name=name,
            group=row["group"],
            title=row["title"],
            price=_price(f"price.{name}", row["price_points"], "points for each output"),
            limit=limit,
            price_points=row["price_points"],
            count=count,
            most_outputs=count["maximum"] if limit is None else limit.default,
            inputs=tuple(row.get("inputs", ())),
            optional_inputs=tuple(row.get("optional_inputs", ())),
            batch=row.get("batch"),
            params={**{key: known[key] for key in row["params"]}, **self._common},
            nodes=nodes,
        )


def _type(name: str, row: Mapping[str, Any]) -> NodeType:
    price = _price(f"price.flow.{name}", row["price_points"], "points for a node of a caller's flow")
    return NodeType(name, row["cost_s"] * MICROSECONDS, price)


def _price(key: str, default: int, description: str) -> Setting[int]:
    return Setting(key, default, description, minimum=1, maximum=HIGHEST_PRICE)


def _limit(name: str, row: Mapping[str, Any]) -> Setting[int] | None:
    """A batch and a tool with a count have a limit; every other tool makes one output."""
    if "batch" in row:
        return Setting(f"limit.{name}", MOST_OUTPUTS, "pictures of a batch", minimum=1, maximum=MOST_OUTPUTS)
    if "count" not in row:
        return None
    count = row["count"]
    return Setting(f"limit.{name}", count["maximum"], "outputs of a task", count["minimum"], MOST_OUTPUTS)


def _check(place: str, schemas: Mapping[str, parameters.Schema], given: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for the first parameter that is unknown or wrong."""
    for name, value in given.items():
        if name not in schemas:
            raise InvalidRequest(f"{place}.{name}", f"unknown; known are {', '.join(sorted(schemas))}")
        if reason := parameters.fault(schemas[name], value):
            raise InvalidRequest(f"{place}.{name}", reason)


def _has_one_of(step: Step, sources: Sequence[Source], params: Mapping[str, Any]) -> bool:
    """An empty list counts as absent."""
    given = {source.name for source in sources} | {name for name, value in params.items() if value != []}
    return not step.one_of or bool(given & set(step.one_of))


def _matches(pattern: str, name: str) -> bool:
    prefix, _, suffix = pattern.partition("{i}")
    return pattern == name if "{i}" not in pattern else name.startswith(prefix) and name.endswith(suffix)


@cache
def load() -> Catalogue:
    return Catalogue(tomllib.loads((files("artiway.tasks") / "catalogue.toml").read_text("utf-8")))
