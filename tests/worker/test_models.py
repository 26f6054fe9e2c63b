"""ONNX models built in the test: download, checksum, run, cache and eviction."""

from __future__ import annotations

import hashlib
import itertools
import random
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.worker.emulator import until
from tests.worker.fakes import FakeStore, settings
from tests.worker.photos import photo
from worker.engines.cache import ModelCache
from worker.engines.diffusion import DiffusersEngine
from worker.engines.onnx import OnnxEngine
from worker.engines.weights import RETRY_S, Weights
from worker.errors import EngineBusy, EngineNotInstalled, ModelChecksum, ModelUnknown, StoreUnavailable
from worker.pictures import Picture
from worker.settings import ModelSpec
from worker.steps import read_params, step_of

SIDE = 32


def saved(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], channels: int, side: int = SIDE) -> bytes:
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("made", TensorProto.FLOAT, [1, channels, side, side])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def matting_model() -> bytes:
    """A matting model whose foreground is more red than blue: a convolution and a sigmoid."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1, 3, 1, 1], [12.0, 0.0, -12.0])
    bias = helper.make_tensor("b", TensorProto.FLOAT, [1], [-2.5])
    nodes = [
        helper.make_node("Conv", ["picture", "w", "b"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["made"]),
    ]
    return saved(nodes, [weight, bias], 1)


def inverting_model() -> bytes:
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    return saved([helper.make_node("Sub", ["one", "picture"], ["made"])], [one], 3)


def spec(data: bytes, **changes: object) -> ModelSpec:
    values: dict[str, object] = {
        "key": "models/tiny.onnx",
        "sha256": hashlib.sha256(data).hexdigest(),
        "steps": ["cutout"],
        "side": SIDE,
        "mean": (0.0, 0.0, 0.0),
        "std": (1.0, 1.0, 1.0),
        "memory_mb": 100,
    }
    return ModelSpec(**{**values, **changes})


def fetched(tmp_path: Path, data: bytes, **changes: object) -> tuple[ModelSpec, Path]:
    wanted = spec(data, **changes)
    store = FakeStore({wanted.key: data})
    weights = Weights(store, settings(models={"tiny": wanted}, model_folder=str(tmp_path)))
    return wanted, weights.fetch("tiny")


def test_a_matting_model_cuts_the_product_out(tmp_path):
    engine = OnnxEngine({"tiny": fetched(tmp_path, matting_model())}, 512)
    source = photo("mug", "plain", width=300, height=300)
    step = step_of("cutout", {"step": "cutout"})
    engine.load(step, "tiny")
    made, info = engine.run(step, "tiny", {"product": source.picture}, read_params(step, {}), lambda _: None)
    assert (info.name, info.is_neural) == ("onnx", True)
    assert "CPUExecutionProvider" in info.detail
    assert made.alpha is not None
    found, truth = made.alpha > 127, source.truth > 127
    assert (found & truth).sum() / (found | truth).sum() > 0.8  # 32 pixels a side see no more


def test_image_to_image_model_keeps_the_input_size(tmp_path):
    file = fetched(tmp_path, inverting_model(), steps=["img2img"], kind="image_to_image")
    engine = OnnxEngine({"tiny": file}, 512)
    step = step_of("model", {"step": "img2img"})
    source = Picture(np.full((40, 60, 3), (250, 100, 0), np.uint8))
    made, _ = engine.run(step, "tiny", {"product": source}, read_params(step, {}), lambda _: None)
    assert (made.width, made.height) == (60, 40)
    assert np.abs(made.rgb.astype(int) - (5, 155, 255)).max() <= 2


def test_a_session_is_loaded_once_and_kept(tmp_path):
    engine = OnnxEngine({"tiny": fetched(tmp_path, matting_model())}, 512)
    step = step_of("cutout", {"step": "cutout"})
    engine.load(step, "tiny")
    (tmp_path / spec(matting_model()).sha256).unlink()
    engine.load(step, "tiny")
    assert engine.cache.used_mb() == 100


def test_a_model_for_another_step_is_not_used(tmp_path):
    engine = OnnxEngine({"tiny": fetched(tmp_path, matting_model())}, 512)
    with pytest.raises(ModelUnknown):
        engine.load(step_of("model", {"step": "style"}), "tiny")


def test_weights_with_wrong_checksum_are_refused(tmp_path):
    wanted = spec(matting_model())
    weights = Weights(
        FakeStore({wanted.key: b"poisoned"}), settings(models={"tiny": wanted}, model_folder=str(tmp_path))
    )
    with pytest.raises(ModelChecksum):
        weights.fetch("tiny")
    assert list(tmp_path.iterdir()) == []


def test_damaged_weights_on_disk_are_fetched_again(tmp_path):
    data = matting_model()
    wanted = spec(data)
    (tmp_path / wanted.sha256).write_bytes(b"damaged")
    weights = Weights(FakeStore({wanted.key: data}), settings(models={"tiny": wanted}, model_folder=str(tmp_path)))
    assert weights.fetch("tiny").read_bytes() == data


def test_missing_weights_and_unreachable_store_differ(tmp_path):
    wanted = spec(matting_model())
    store = FakeStore()
    weights = Weights(
        store, settings(models={"tiny": wanted}, model_folder=str(tmp_path)), itertools.count(0, RETRY_S).__next__
    )
    with pytest.raises(ModelUnknown):
        weights.fetch("tiny")
    store.is_down = True
    with pytest.raises(StoreUnavailable):
        weights.fetch("tiny")


def test_download_that_breaks_off_leaves_no_file(tmp_path):
    wanted = spec(matting_model())
    store = FakeStore({wanted.key: matting_model()})
    store.is_down = True
    weights = Weights(store, settings(models={"tiny": wanted}, model_folder=str(tmp_path)))
    for _ in range(2):  # the second answer is the first one's: an outage does not hold up every node
        with pytest.raises(StoreUnavailable):
            weights.fetch("tiny")
    assert store.reads == [wanted.key]
    assert list(tmp_path.iterdir()) == []


def test_download_does_not_hold_up_a_heartbeat(tmp_path):
    wanted = spec(matting_model())
    store = FakeStore({wanted.key: matting_model()})
    store.go.clear()
    weights = Weights(store, settings(models={"tiny": wanted}, model_folder=str(tmp_path)))
    download = threading.Thread(target=weights.fetch, args=("tiny",))
    download.start()
    until(lambda: store.reads)
    assert not weights.has("onnx", "cutout")
    store.go.set()
    download.join(20)
    assert weights.has("onnx", "cutout")


def test_model_for_small_pictures_needs_another_beside_it(tmp_path):
    small, any_size = spec(matting_model(), max_pixels=100), spec(inverting_model())
    models = {"small": small, "any": any_size, "other": spec(b"other")}
    weights = Weights(FakeStore(), settings(models=models, model_folder=str(tmp_path)))
    assert weights.needed("onnx", "cutout") == ["small", "any"]
    assert weights.needed("preview", "cutout") == []


def test_node_gets_its_named_or_first_fitting_model(tmp_path):
    one, two = spec(matting_model()), spec(inverting_model())
    weights = Weights(FakeStore(), settings(models={"one": one, "two": two}, model_folder=str(tmp_path)))
    assert weights.choose("onnx", "cutout", "two") == "two"
    assert weights.choose("onnx", "cutout", "unknown") == "one"
    assert weights.choose("preview", "cutout", "two") is None
    with pytest.raises(ModelUnknown):
        weights.choose("onnx", "upscale", None)


def test_diffusers_without_its_extra_is_a_clear_error():
    with pytest.raises(EngineNotInstalled, match=r"worker/gpu\.in"):
        DiffusersEngine({}, 512)


def use(cache: ModelCache[str], name: str, memory_mb: int) -> None:
    with cache.use(name, memory_mb, lambda: name):
        pass


def test_the_least_recently_used_model_makes_room():
    unloaded: list[str] = []
    cache = ModelCache[str](100, unloaded.append)
    for name in ("a", "b"):
        use(cache, name, 40)
    use(cache, "a", 40)
    use(cache, "c", 40)
    assert unloaded == ["b"]
    assert cache.names() == ["a", "c"]


def test_no_more_is_evicted_than_is_needed():
    unloaded: list[str] = []
    cache = ModelCache[str](100, unloaded.append)
    for name in ("a", "b", "c"):
        use(cache, name, 30)
    use(cache, "d", 35)
    assert unloaded == ["a"]


def test_a_model_in_use_is_never_evicted():
    unloaded: list[str] = []
    cache = ModelCache[str](100, unloaded.append)
    with cache.use("a", 60, lambda: "a"):
        with pytest.raises(EngineBusy), cache.use("b", 60, lambda: "b"):
            pass
        assert unloaded == []
    use(cache, "b", 60)
    assert unloaded == ["a"]


def test_failed_load_leaves_no_model_in_cache():
    cache = ModelCache[str](100)

    def broken() -> str:
        raise OSError("no file")

    with pytest.raises(OSError, match="no file"), cache.use("a", 60, broken):
        pass
    assert cache.used_mb() == 0
    use(cache, "a", 60)
    assert cache.names() == ["a"]


def test_threads_get_their_model_within_the_budget():
    faults: list[str] = []
    gone: list[str] = []
    cache = ModelCache[str](120, gone.append)

    def visitor(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(300):
            name = dice.choice("abcdef")
            try:
                with cache.use(name, 30, lambda name=name: name) as model:
                    if model != name:
                        faults.append(f"{name} got {model}")
                    if cache.used_mb() > 120:
                        faults.append("over budget")
            except EngineBusy:
                continue

    threads = [threading.Thread(target=visitor, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert gone  # six models of 30 MB cannot all stay
    assert cache.used_mb() <= 120


def test_concurrent_threads_load_one_model_once():
    started, go, loads = threading.Barrier(5), threading.Event(), []

    def load() -> str:
        loads.append(1)
        go.wait(10)
        return "a"

    cache = ModelCache[str](100)

    def visitor() -> None:
        started.wait(10)
        with cache.use("a", 10, load) as model:
            assert model == "a"

    threads = [threading.Thread(target=visitor) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert loads == [1]
