"""SnapStart: Lambda makes a snapshot of a function after its import and begins every process from it."""

from __future__ import annotations

from collections.abc import Callable


def after_restore(hook: Callable[[], None]) -> None:
    """Call the hook in each restored process before its first request. Elsewhere than in Lambda it is never called."""
    try:
        from snapshot_restore_py import register_after_restore  # part of Lambda's runtime, of no layer
    except ImportError:
        return
    register_after_restore(hook)
