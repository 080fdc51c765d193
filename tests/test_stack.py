"""A thread with a large stack that stays."""

from __future__ import annotations

import gc
import logging
import threading

import pytest

from vmkit import stack
from vmkit.stack import DeepThread


def test_calls_run_on_one_other_thread() -> None:
    deep = DeepThread(64 << 20)
    first, second = deep.call(threading.get_ident), deep.call(threading.get_ident)
    assert first == second != threading.get_ident()


def test_an_exception_comes_back() -> None:
    with pytest.raises(ZeroDivisionError):
        DeepThread(64 << 20).call(divmod, 1, 0)


def test_a_call_from_the_thread_itself_runs_in_place() -> None:
    deep = DeepThread(64 << 20)
    assert deep.call(deep.call, sum, [1, 2]) == 3


def test_the_thread_ends_with_its_owner() -> None:
    deep = DeepThread(64 << 20)
    thread = deep._thread
    del deep
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_a_smaller_stack_is_used_and_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    start = stack._start_thread

    def refuse(target: object, jobs: object, size: int) -> threading.Thread:
        if size > 64 << 20:
            raise RuntimeError("can't start new thread")
        return start(target, jobs, size)  # type: ignore[arg-type]

    monkeypatch.setattr(stack, "_start_thread", refuse)
    with caplog.at_level(logging.WARNING):
        deep = DeepThread(256 << 20)
    assert deep.stack_bytes == 64 << 20
    assert "no stack of 256 MiB was granted; running with 64 MiB" in caplog.text
    assert deep.call(sum, [1, 2]) == 3


def test_no_stack_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(stack, "_start_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        DeepThread(64 << 20)
