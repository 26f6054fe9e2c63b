"""The catalogue: its JSON, its table in the README, and the parameters that it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worker.errors import StepBadParams, StepUnknown
from worker.steps import NODE_TYPES, STEPS, read_params, step_of

FOLDER = Path(__file__).resolve().parents[2] / "worker"
TOOLS = (
    *("model_photo", "outfit_poses", "real_model", "scene", "background", "style", "crop", "cutout", "erase"),
    *("extend", "derive", "repaint", "img2img", "hd_fix", "batch_cutout", "upscale", "batch_convert"),
)


def test_the_readme_lists_every_step_and_every_tool():
    text = (FOLDER / "README.md").read_text()
    rows = set(re.findall(r"^\| (\w+) \| `(\w+)` \|", text, re.MULTILINE))
    assert rows
    assert rows <= {(str(kind), name) for kind, name in STEPS}
    assert [tool for tool in TOOLS if f"\n| `{tool}` |" not in text] == []


def test_tools_of_the_readme_use_known_steps():
    text = (FOLDER / "README.md").read_text()
    used = set(re.findall(r"\((\w+)/(\w+)\)", text))
    assert len(used) >= 14
    assert used <= {(str(kind), name) for kind, name in STEPS}


@pytest.mark.parametrize("node_type", NODE_TYPES)
def test_a_flow_may_name_the_type_alone(node_type):
    assert step_of(node_type, {}).node_type == node_type


@pytest.mark.parametrize("params", [{"step": "nothing"}, {"step": 7}, {"step": None}, {"step": ["cutout"]}])
def test_an_unknown_step_is_refused(params):
    with pytest.raises(StepUnknown):
        step_of("cutout", params)


@pytest.mark.parametrize(
    ("node_type", "step", "params"),
    [
        ("cutout", "cutout", {"featherPx": -1}),
        ("cutout", "cutout", {"format": "jpeg"}),
        ("cutout", "cutout", {"format": "gif"}),
        ("cutout", "cutout", {"background": "red"}),
        ("cutout", "crop", {"aspect": "0:1"}),
        ("model", "figure", {"format": "jpeg"}),
        ("model", "figure", {"width": 100_000}),
        ("model", "scene", {"prompt": "x" * 501}),
        ("model", "style", {"strength": float("nan")}),
        ("compose", "convert", {"width": 5}),
        ("extend", "extend", {"left": 1.5}),
        ("extend", "erase", {"regions": [[0, 0, 2, 1]]}),
        ("extend", "erase", {"regions": [[0, 0, 1]]}),
        ("hd_fix", "upscale", {"scale": 8}),
        ("hd_fix", "upscale", {"seed": -1}),
        ("hd_fix", "upscale", {"quality": 101}),
    ],
)
def test_a_parameter_out_of_range_is_refused(node_type, step, params):
    with pytest.raises(StepBadParams):
        read_params(step_of(node_type, {"step": step}), params)


def test_a_tools_other_parameters_are_passed_over():
    assert read_params(step_of("cutout", {}), {"step": "cutout", "count": 3, "prompt": "x"}).format == "png"
