from __future__ import annotations

import itertools
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.errors import Refused
from artiway.scheduling.model import Track
from artiway.settings.model import Fixed
from artiway.tasks import catalogue, dag, parameters
from artiway.tasks.model import Cycle, FlowNode, InvalidRequest

CATALOGUE = catalogue.load()
PICTURE = UUID(int=7)
TOOLS = {
    "ai_model": {"model_photo", "outfit_poses", "real_model"},
    "product_picture": {"scene", "background", "style"},
    "smart_edit": {"crop", "cutout", "erase", "extend", "derive", "repaint", "img2img", "hd_fix"},
    "batch": {"batch_cutout", "upscale", "batch_convert"},
}


def plan(tool, *, inputs=None, params=None, count=None):
    spec = CATALOGUE.tools.get(tool)
    if inputs is None:
        inputs = {f"{spec.batch}_1": PICTURE} if spec.batch else dict.fromkeys(spec.inputs, PICTURE)
    if params is None:
        params = {"regions": [[0, 0, 0.5, 0.5]]} if tool in {"erase", "repaint"} else {}
    return CATALOGUE.plan(tool, inputs=inputs, params=params, count=count, seed=7)


def edges(plan):
    return {(before, node.name) for node in plan.nodes for before in node.depends_on}


def test_catalogue_has_seventeen_tools_in_groups():
    found: dict[str, set[str]] = {}
    for tool in CATALOGUE.tools.values():
        found.setdefault(tool.group, set()).add(tool.name)
    assert found == TOOLS


@pytest.mark.parametrize("tool", sorted(CATALOGUE.tools))
def test_tool_has_titles_price_and_plan(tool):
    spec = CATALOGUE.tools[tool]
    assert spec.title["en"].isascii()
    assert not spec.title["zh"].isascii()
    made = plan(tool)
    results = [node for node in made.nodes if node.is_result]
    assert made.price_points == spec.price_points * len(results) > 0
    assert {node.price_points for node in made.nodes if not node.is_result} <= {0}
    assert all(source.input_id == PICTURE for node in made.nodes for source in node.sources if not source.node)


def test_three_model_photos_have_specified_dag():
    made = plan("model_photo", count=3)
    assert made.price_points == 30
    assert edges(made) == {
        *(("cutout", f"model_{i}") for i in (1, 2, 3)),
        *((f"model_{i}", f"compose_{i}") for i in (1, 2, 3)),
    }
    assert {node.name: node.cost_us for node in made.nodes}["model_2"] == 8_000_000
    assert [node.params["variant"] for node in made.nodes if node.step == "figure"] == [0, 1, 2]


def test_batch_makes_one_output_per_picture():
    inputs = {f"product_{i}": uuid4() for i in (1, 2, 3)}
    made = plan("batch_cutout", inputs=inputs)
    assert [node.sources[0].input_id for node in made.nodes] == list(inputs.values())
    assert made.price_points == 6


def test_only_result_nodes_get_the_format():
    made = plan("model_photo", params={"format": "jpeg", "quality": 80})
    assert {node.name: node.params.get("format") for node in made.nodes} == {
        "cutout": None,
        "model_1": None,
        "compose_1": "jpeg",
    }


def test_seed_of_caller_is_used():
    assert {node.params["seed"] for node in plan("style", params={"seed": 3}).nodes} == {3}
    assert {node.params["seed"] for node in plan("style").nodes} == {7}


@pytest.mark.parametrize(
    ("tool", "asked", "field"),
    [
        ("model_photo", {"count": 11}, "count"),
        ("model_photo", {"count": 0}, "count"),
        ("crop", {"count": 2}, "count"),
        ("model_photo", {"inputs": {}}, "inputs.product"),
        ("model_photo", {"inputs": {"product": PICTURE, "mask": PICTURE}}, "inputs.mask"),
        ("model_photo", {"params": {"nonsense": 1}}, "params.nonsense"),
        ("model_photo", {"params": {"pose": "headstand"}}, "params.pose"),
        ("style", {"params": {"strength": 1.01}}, "params.strength"),
        ("style", {"params": {"strength": "1"}}, "params.strength"),
        ("style", {"params": {"strength": True}}, "params.strength"),
        ("scene", {"params": {"prompt": "x" * 501}}, "params.prompt"),
        ("erase", {"params": {}}, "inputs"),
        ("erase", {"params": {"regions": []}}, "inputs"),
        ("erase", {"params": {"regions": [[0, 0, 2, 1]]}}, "params.regions"),
        ("erase", {"params": {"regions": [[0.5, 0, 0.6, 1]]}}, "params.regions"),
        ("repaint", {"params": {"regions": [[0, 0.9, 0.5, 0.2]]}}, "params.regions"),
        ("repaint", {"params": {"regions": [[0.2, 0.2, 0, 0.2]]}}, "params.regions"),
        ("batch_cutout", {"inputs": {"product_2": PICTURE}}, "inputs"),
        ("batch_cutout", {"inputs": {}}, "inputs"),
        ("batch_cutout", {"inputs": {f"product_{i}": PICTURE for i in range(1, 52)}}, "inputs"),
        ("nothing", {"inputs": {}, "params": {}}, "tool"),
        ("cutout", {"params": {"format": "jpeg"}}, "params.format"),
        ("cutout", {"params": {"format": "jpeg", "background": "transparent"}}, "params.format"),
        ("batch_cutout", {"params": {"format": "jpeg"}}, "params.format"),
        ("cutout", {"params": {"background": "#ffffff\n"}}, "params.background"),
        ("style", {"params": {"strength": float("nan")}}, "params.strength"),
        ("compose", {"params": {}, "inputs": {}}, "tool"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_request_names_the_field(tool, asked, field):
    with pytest.raises(Refused) as refusal:
        plan(tool, **asked)
    assert refusal.value.code == "REQUEST_422_INVALID"
    assert refusal.value.details["fields"][0]["field"] == field


def flow(*nodes):
    return CATALOGUE.flow(nodes, seed=7)


def node(name, *after, step="derive", kind=None, uploads=None, sources=None, params=None):
    if uploads is None and sources is None:
        uploads = {"product": PICTURE}
    return FlowNode(name, None if kind else step, kind, params or {}, uploads or {}, sources or {}, after)


def dense(count):
    """Each node depends on all that come before it."""
    return [node(f"n{i}", *(f"n{j}" for j in range(i))) for i in range(count)]


def test_flow_orders_nodes_after_their_dependencies():
    made = flow(node("c", "b"), node("b", "a"), node("a"), node("d"))
    order = [planned.name for planned in made.nodes]
    assert order.index("a") < order.index("b") < order.index("c")
    assert made.price_points == 4 * 6


def test_output_as_input_is_a_dependency():
    made = flow(node("a", kind="cutout"), node("b", step="figure", sources={"cutout": "a.cutout"}))
    assert edges(made) == {("a", "b")}
    with pytest.raises(Refused, match="not valid") as refusal:
        flow(node("a", kind="cutout"), node("b", step="figure", sources={"cutout": "a.scene"}))
    assert refusal.value.details["fields"][0]["field"] == "nodes.b.inputs.cutout"


def test_circle_is_named():
    with pytest.raises(Cycle) as refusal:
        flow(node("x"), node("a", "c"), node("b", "a"), node("c", "b"), node("tail", "c"))
    assert refusal.value.code == "DAG_422_CYCLE"
    circle = refusal.value.details["cycle"]
    assert set(itertools.pairwise(circle)) == {("a", "b"), ("b", "c"), ("c", "a")}
    assert " → ".join(circle) in refusal.value.message


def test_circle_is_reported_before_missing_inputs():
    with pytest.raises(Cycle):
        flow(node("a", "b", uploads={}), node("b", "a", uploads={}))


def test_node_depending_on_itself_is_a_circle():
    with pytest.raises(Cycle) as refusal:
        flow(node("a", "a"))
    assert refusal.value.details["cycle"] == ["a", "a"]


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [node("a"), node("a")],
        [node("a", "b")],
        [node(f"n{i}") for i in range(501)],
        dense(142),
        [node("a", step="nonsense")],
        [node("a", kind="nonsense")],
        [node("a", uploads={})],
        [node("a", uploads={"scene": PICTURE})],
        [node("a", sources={"product": "nobody"})],
        [node("a", params={"nonsense": 1})],
        [node("a", step="cutout", params={"format": "jpeg"})],
        [node("a", kind="cutout"), node("b", step="figure", sources={"cutout": "a"}, params={"format": "jpeg"})],
        [node("a", step="erase", params={"regions": []})],
    ],
    ids=[
        *("empty", "twice", "unknown", "many", "dense", "step", "type", "no input", "wrong input", "no source"),
        *("parameter", "transparent JPEG", "JPEG to stand free", "nothing to erase"),
    ],
)
def test_flow_that_cannot_run_is_refused(nodes):
    with pytest.raises(Refused) as refusal:
        flow(*nodes)
    assert refusal.value.code == "REQUEST_422_INVALID"


@pytest.mark.parametrize("params", [{"format": "jpeg", "background": "white"}, {"format": "webp"}])
def test_cutout_accepts_formats_with_fitting_background(params):
    (made,) = plan("cutout", params=params).nodes
    assert params.items() <= made.params.items()
    flow(node("a", step="cutout", params=params))


def test_model_photo_may_be_jpeg():
    assert plan("model_photo", params={"format": "jpeg"}).nodes[-1].params["format"] == "jpeg"
    assert "not" not in CATALOGUE.tools["model_photo"].json_schema


def test_refused_combinations_are_in_tools_schema():
    values = {"format": {"const": "jpeg"}, "background": {"const": "transparent"}}
    for tool in ("cutout", "batch_cutout"):
        assert CATALOGUE.tools[tool].json_schema["not"] == {"anyOf": [{"properties": values, "required": ["format"]}]}


def test_ten_thousand_dependencies_are_allowed():
    nodes = [*dense(141), node("last", *(f"n{i}" for i in range(130)))]
    assert len(edges(flow(*nodes))) == 10_000
    with pytest.raises(Refused) as refusal:
        flow(*nodes[:-1], node("last", *(f"n{i}" for i in range(131))))
    assert refusal.value.details["fields"][0]["reason"] == "10001 dependencies; at most 10000 are allowed"


def test_dependencies_named_twice_count_once():
    nodes = [node("a"), node("b"), *(node(f"n{i}", *["a", "b"] * 25) for i in range(400))]
    assert len(edges(flow(*nodes))) == 800


def test_indirect_dependents_are_found():
    needed = {"b": ["a"], "c": ["b", "x"], "d": ["a", "c"], "e": ["x"]}
    assert dag.dependents("a", needed) == {"b", "c", "d"}
    assert dag.dependents("d", needed) == set()


def test_five_hundred_nodes_are_allowed():
    assert len(flow(*(node(f"n{i}", *([f"n{i - 1}"] if i else [])) for i in range(500))).nodes) == 500


def test_catalogue_uses_only_checked_keywords():
    def words(schema):
        yield from schema
        for nested in [
            *schema.get("anyOf", ()),
            *schema.get("prefixItems", ()),
            *([schema["items"]] if "items" in schema else ()),
        ]:
            yield from words(nested)

    for step in CATALOGUE.steps.values():
        for schema in step.params.values():
            assert set(words(schema)) <= parameters.KEYWORDS


def test_ids_of_uploads_stay_unchanged():
    assert isinstance(plan("cutout").nodes[0].sources[0].input_id, UUID)


def test_models_are_names_that_the_queue_accepts():
    models = catalogue.load().models
    assert models.keys() == {"segment", "diffusion", "inpaint", "upscale"}
    for model, steps in models.items():
        assert Track("model", "vip_short", model).model == model
        assert all(catalogue.load().steps[step].model == model for step in steps)


class TestLivePrices:
    """The same catalogue with settings: each plan is priced by the values in force when it is made."""

    @given(price=st.integers(1, 10_000), count=st.integers(1, 10))
    def test_plan_costs_price_times_outputs(self, price, count):
        priced = CATALOGUE.with_values(Fixed({CATALOGUE.tool("model_photo").price: price}))
        plan = priced.plan("model_photo", inputs={"product": uuid4()}, params={}, count=count, seed=0)
        assert plan.price_points == price * count
        assert priced.tools["model_photo"].price_points == price
        assert CATALOGUE.tools["model_photo"].price_points == 10

    def test_flow_costs_price_of_node_type(self):
        priced = CATALOGUE.with_values(Fixed({CATALOGUE.types["cutout"].price: 9}))
        node = FlowNode(
            name="a", type="cutout", step=None, params={}, uploads={"product": uuid4()}, sources={}, depends_on=()
        )
        assert (priced.flow([node], seed=0).price_points, CATALOGUE.flow([node], seed=0).price_points) == (9, 2)

    def test_lower_limit_lowers_default_count(self):
        limited = CATALOGUE.with_values(Fixed({CATALOGUE.tool("outfit_poses").limit: 2}))
        assert limited.tool("outfit_poses").count == {"minimum": 2, "maximum": 2, "default": 2}

    def test_batch_takes_pictures_up_to_limit(self):
        limited = CATALOGUE.with_values(Fixed({CATALOGUE.tool("batch_cutout").limit: 2}))
        pictures = {f"product_{number}": uuid4() for number in range(1, 4)}
        with pytest.raises(InvalidRequest):
            limited.plan("batch_cutout", inputs=pictures, params={}, count=None, seed=0)
        del pictures["product_3"]
        assert len(limited.plan("batch_cutout", inputs=pictures, params={}, count=None, seed=0).nodes) == 2
