"""These tests run in the worker's environment (tools/worker.lock), which has OpenCV; the platform's has none."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("cv2") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True, scope="session")
def one_core() -> None:
    import cv2

    cv2.setNumThreads(1)
