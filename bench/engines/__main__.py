"""Engines on two cores: `python -m bench.engines [steps] [memory] [stop]`, without a name all three.

steps: seconds and peak memory of each step for one photograph of 1.5 megapixels, through a slot's child process as in a
worker, beside the bare library call where there is one. memory: a worker's slot over 50 photographs of 12 megapixels.
stop: seconds until a cancel and a time limit have stopped a network. Runs in the worker's environment.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / ".tools/worker/bin/python"
RESULTS = ROOT / "bench/results/engines.json"
SIDE = 1225  # 1.5 megapixels
LARGE = (4_000, 3_000)
PICTURES, WARM = 50, 10
GOALS = {"peak_mb": 1_536, "growth_percent": 5.0, "stop_s": 2.0}
PHOTOGRAPHS = ("hoodie", "tee", "polo", "cushion", "sneakers", "white_hoodie", "red_tee", "bus_tee")
# The steps in the order of docs/worker.md, with what they need beside the picture.
STEPS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("cutout", "cutout", {}),
    ("cutout", "crop", {}),
    ("hd_fix", "hd_fix", {}),
    ("hd_fix", "upscale", {"scale": 2}),
    ("model", "figure", {}),
    ("model", "scene", {"preset": "studio"}),
    ("model", "style", {}),
    ("model", "img2img", {"prompt": "warm light"}),
    ("model", "derive", {}),
    ("compose", "compose", {}),
    ("compose", "background", {"preset": "table"}),
    ("compose", "convert", {"width": 800, "height": 800}),
    ("extend", "extend", {}),
    ("extend", "erase", {"regions": [[0.4, 0.4, 0.2, 0.2]]}),
    ("extend", "repaint", {"regions": [[0.4, 0.4, 0.2, 0.2]], "color": "#cc2020"}),
)


def in_worker() -> None:
    """Run again with the worker's Python, which has the engines."""
    if Path(sys.prefix).resolve() != WORKER.parents[1].resolve():
        os.execv(str(WORKER), [str(WORKER), "-m", "bench.engines", *sys.argv[1:]])


class Bench:
    def __init__(self) -> None:
        import cv2
        import psutil

        from tests.worker.fakes import FakeStore, settings
        from worker.engines.weights import Weights

        cv2.setNumThreads(1)
        types = ("cutout", "model", "compose", "extend", "hd_fix")
        self.settings = settings(
            model_folder=str(ROOT / ".tools/weights"),
            engines={},
            work_queue_urls={name: name for name in types},
            engine_threads=os.cpu_count() or 1,
        )
        self.weights = Weights(FakeStore(), self.settings)
        self.own = psutil.Process()

    @contextmanager
    def sandbox(self) -> Iterator[Any]:
        """A slot of a worker; its child process ignores every signal but a kill."""
        from worker.sandbox import Sandbox

        config = {
            "memoryMb": self.settings.child_memory_mb,
            "modelMemoryMb": self.settings.model_memory_mb,
            "threads": self.settings.threads,
            "limits": {
                "max_bytes": self.settings.input_max_bytes,
                "max_pixels": self.settings.input_max_pixels,
                "max_side": self.settings.input_max_side,
            },
        }
        slot = Sandbox(config, stop_grace_s=self.settings.stop_grace_s)
        try:
            yield slot
        finally:
            slot.kill()

    def attempt(self) -> Any:
        from tests.worker.fakes import node
        from worker.attempt import Attempt

        return Attempt(node(), claimed_at=0)

    def job(self, node_type: str, step_name: str, params: Mapping[str, Any], inputs: Mapping[str, bytes]) -> Any:
        """As the worker makes it: the first engine of the step that has what it needs."""
        from worker.errors import ModelUnknown
        from worker.runner import main_pixels
        from worker.sandbox import Job
        from worker.steps import step_of

        wanted = {"step": step_name, **params}
        step = step_of(node_type, wanted)
        for engine in self.settings.engines_of(step):
            try:
                model = self.weights.choose(engine, step.name, None, main_pixels(step, inputs))
            except ModelUnknown:
                continue
            spec = self.weights.spec(model).model_dump(by_alias=True) if model else None
            path = str(self.weights.fetch(model)) if model else None
            return Job(node_type, engine, wanted, inputs, model, path, spec)
        raise SystemExit(f"no engine serves {step_name}")

    @contextmanager
    def watched(self, slot: Any) -> Iterator[list[float]]:
        """The memory of this process and its child, in MB, every 50 ms."""
        import psutil

        seen: list[float] = []
        end = threading.Event()

        def watch() -> None:
            while not end.wait(0.05):
                try:
                    child = psutil.Process(slot.pid).memory_info().rss if slot.pid else 0
                except psutil.Error:
                    continue
                seen.append((self.own.memory_info().rss + child) / 2**20)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            end.set()
            thread.join()


def photograph(name: str, size: tuple[int, int]) -> bytes:
    """A shop's photograph as a JPEG of this size."""
    import cv2

    from tests.worker.real import shop_photo
    from worker.pictures import Picture, encode

    rgb = cv2.resize(shop_photo(name).rgb, size, interpolation=cv2.INTER_CUBIC)
    return encode(Picture(rgb), "jpeg", 92)


def quiet(_percent: float) -> None:
    pass


def steps(bench: Bench) -> dict[str, Any]:
    from bench.engines import __main__ as own  # by its name, under which a new process can import it
    from tests.worker.real import is_product, product
    from worker.pictures import Picture, encode

    plain = photograph("hoodie", (SIDE, SIDE))
    cut = encode(Picture(product("hoodie")[0], is_product(product("hoodie")[1])), "png", 90)
    rows = {}
    for node_type, step, params in STEPS:
        takes_cutout = step in ("figure", "compose", "background")
        inputs = {} if step == "scene" else {"cutout": cut} if takes_cutout else {"product": plain}
        job = bench.job(node_type, step, params, inputs)
        with bench.sandbox() as slot, bench.watched(slot) as seen:
            slot.run(job, bench.attempt(), quiet, time_limit_s=300)  # loads the model
            began = time.perf_counter()
            made = slot.run(job, bench.attempt(), quiet, time_limit_s=300)
            took = time.perf_counter() - began
        rows[step] = {"engine": made.engine.name, "seconds": round(took, 2), "peak_mb": round(max(seen))}
        if step in BARE:  # in a process of its own, so that its memory is not counted with the next step
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                rows[step] |= pool.submit(own.bare, step, plain).result()
        print(f"  {step:12} {rows[step]}", flush=True)
        save("steps", rows)
    return rows


def bare(step: str, data: bytes) -> dict[str, float]:
    seconds = BARE[step](Bench(), data)
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"bare_seconds": round(seconds, 2), "bare_peak_mb": round(peak_kb / 2**10)}


def bare_isnet(bench: Bench, data: bytes) -> float:
    """The network alone: onnxruntime with a tensor that is ready."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = bench.settings.threads, 3
    session = onnxruntime.InferenceSession(str(bench.weights.fetch("isnet")), options)
    tensor = np.zeros((1, 3, 1024, 1024), np.float32)
    return best(lambda: session.run(None, {session.get_inputs()[0].name: tensor}))


def bare_esrgan(bench: Bench, data: bytes) -> float:
    """The network alone on tiles of the same size, as many as the picture has."""
    import ncnn
    import numpy as np

    spec = bench.weights.spec("realesrgan")
    path = bench.weights.fetch("realesrgan")
    net = ncnn.Net()
    net.opt.num_threads = bench.settings.threads
    net.load_param(str(path.with_name(spec.graph_sha256)))
    net.load_model(str(path))
    part = np.zeros((180, 180, 3), np.uint8)

    def tile() -> None:
        pixels = ncnn.Mat.from_pixels(part, ncnn.Mat.PixelType.PIXEL_RGB, 180, 180)
        pixels.substract_mean_normalize([], [1 / 255] * 3)
        extractor = net.create_extractor()
        extractor.input("data", pixels)
        extractor.extract("output")

    return best(tile) * (-(-SIDE // 160)) ** 2


def bare_resize(bench: Bench, data: bytes) -> float:
    import cv2
    import numpy as np

    def convert() -> None:
        rgb = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        cv2.imencode(".png", cv2.resize(rgb, (800, 800), interpolation=cv2.INTER_AREA))

    return best(convert)


def best(call: Callable[[], object], rounds: int = 3) -> float:
    call()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken)


BARE: Mapping[str, Callable[[Bench, bytes], float]] = {
    "cutout": bare_isnet,
    "crop": bare_isnet,
    "hd_fix": bare_esrgan,
    "upscale": bare_esrgan,
    "convert": bare_resize,
}


def memory(bench: Bench) -> dict[str, Any]:
    """One slot cuts out 50 photographs of 12 megapixels, one after the other."""
    pictures = [photograph(name, LARGE) for name in PHOTOGRAPHS]
    peaks: list[float] = []
    began = time.perf_counter()
    with bench.sandbox() as slot:
        for number in range(PICTURES):
            inputs = {"product": pictures[number % len(pictures)]}
            with bench.watched(slot) as seen:
                slot.run(bench.job("cutout", "cutout", {}, inputs), bench.attempt(), quiet, time_limit_s=3_600)
            peaks.append(max(seen))
            print(f"  {number + 1:2} {peaks[-1]:.0f} MB, {time.perf_counter() - began:.0f} s", flush=True)
            if number >= WARM:
                save("memory", summary(peaks, time.perf_counter() - began))
    return summary(peaks, time.perf_counter() - began)


def summary(peaks: list[float], took_s: float) -> dict[str, Any]:
    return {
        "pictures": len(peaks),
        "seconds_per_picture": round(took_s / len(peaks), 2),
        "peak_mb": round(max(peaks)),
        "peak_of_first_ten_mb": round(max(peaks[:WARM])),
        "growth_after_tenth_percent": round((max(peaks[WARM:]) / max(peaks[:WARM]) - 1) * 100, 2),
    }


def stop(bench: Bench) -> dict[str, Any]:
    from worker.attempt import Stop, Stopped
    from worker.errors import TimeLimit

    rows = {}
    small, large = photograph("tee", (SIDE, SIDE)), photograph("tee", LARGE)
    cases = (("cutout", "cutout", large, {}), ("hd_fix", "upscale", small, {"scale": 2}))
    for node_type, step, data, params in cases:
        first = bench.job(node_type, step, params, {"product": photograph("tee", (256, 256))})
        job = bench.job(node_type, step, params, {"product": data})
        with bench.sandbox() as slot:
            for way in ("cancel", "time limit"):
                taken = []
                for after_s in (0.3, 0.7, 1.1, 1.5, 1.9):
                    slot.run(first, bench.attempt(), quiet, time_limit_s=300)  # loads the model, also after a kill
                    attempt = bench.attempt()
                    timer = threading.Timer(after_s, attempt.stop, (Stop.CANCELLED,))
                    if way == "cancel":
                        timer.start()
                    began = time.perf_counter()
                    try:
                        slot.run(job, attempt, quiet, time_limit_s=300 if way == "cancel" else after_s)
                    except (Stopped, TimeLimit):
                        taken.append(time.perf_counter() - began - after_s)
                    timer.cancel()
                rows[f"{step}, {way}"] = {"stops": len(taken), "slowest_s": round(max(taken), 2) if taken else None}
                print(f"  {step}, {way}: {rows[f'{step}, {way}']}", flush=True)
    return rows


PARTS: Mapping[str, Callable[[Bench], dict[str, Any]]] = {"steps": steps, "memory": memory, "stop": stop}


def save(part: str, rows: dict[str, Any]) -> None:
    """After each row, so that an interrupted run keeps what it measured."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found |= {part: rows, f"{part}_load": round(os.getloadavg()[0], 2), "goals": GOALS}
    found |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "python": platform.python_version()}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.engines", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    names = parser.parse_args().parts or list(PARTS)
    in_worker()
    sys.path.insert(0, str(ROOT / "layers/core"))
    bench = Bench()
    for name in names:
        print(f"{name} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", flush=True)
        save(name, PARTS[name](bench))
    print(f"written: {RESULTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
