"""Threads with a large stack: for one call, and one that stays."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from vmkit import stack
from vmkit.stack import DeepThread, on_deep_stack


@pytest.fixture
def limit() -> Iterator[int]:
    before = sys.getrecursionlimit()
    yield before
    sys.setrecursionlimit(before)


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


def nested(levels: int) -> int:
    return 0 if levels == 0 else 1 + nested(levels - 1)


def test_one_call_recurses_deeper_than_the_limit_which_is_then_as_before(limit: int) -> None:
    assert on_deep_stack(nested, 5 * limit) == 5 * limit
    assert sys.getrecursionlimit() == limit
    with pytest.raises(RecursionError):
        nested(5 * limit)


def test_the_limit_is_lifted_until_the_last_of_several_threads_has_ended(limit: int) -> None:
    first_ended = threading.Event()
    seen: list[int] = []

    def outlasting() -> None:
        assert first_ended.wait(30)
        seen.append(sys.getrecursionlimit())

    thread = threading.Thread(target=on_deep_stack, args=(outlasting,))
    thread.start()
    assert on_deep_stack(nested, 2 * limit) == 2 * limit
    first_ended.set()
    thread.join()
    assert seen == [1_000_000] and sys.getrecursionlimit() == limit


def test_the_limit_stays_when_a_call_fails_or_no_thread_starts(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        on_deep_stack(divmod, 1, 0)
    assert sys.getrecursionlimit() == limit

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        on_deep_stack(nested, 1)
    assert sys.getrecursionlimit() == limit


def test_a_limit_that_the_call_sets_stays(limit: int) -> None:
    on_deep_stack(sys.setrecursionlimit, limit + 7)
    assert sys.getrecursionlimit() == limit + 7


def test_a_higher_limit_is_not_lowered(limit: int) -> None:
    sys.setrecursionlimit(2_000_000)
    assert on_deep_stack(sys.getrecursionlimit) == 2_000_000 == sys.getrecursionlimit()
