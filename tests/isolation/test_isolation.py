"""What ends, hangs, grows or fails in another process is an error here, and nothing of it is left."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from tests.isolation import jobs
from tests.places import TOP
from vmkit.errors import (
    CompileError,
    CompileMemoryError,
    CompileTimeoutError,
    OptionError,
    UnsupportedOperatorError,
    VMKitError,
)
from vmkit.isolation import Limits, run_isolated
from vmkit.isolation.messages import RemoteTraceback

JOBS = jobs.__name__


def run(name: str, *arguments: object, limits: Limits | None = None) -> object:
    return run_isolated(f"{JOBS}:{name}", *arguments, what="it was tried", limits=limits)


def worker() -> int:
    return cast(tuple[int, int], run("add", 1, 2))[1]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(*pids: int) -> bool:
    for _ in range(500):
        if not any(map(is_running, pids)):
            return True
        time.sleep(0.02)
    return False


def test_the_result_comes_from_another_process_that_is_used_again() -> None:
    first, second = run("add", 1, 2), run("add", 3, 4)
    assert cast(tuple[int, int], first)[0] == 3
    assert cast(tuple[int, int], second)[0] == 7
    assert cast(tuple[int, int], first)[1] == cast(tuple[int, int], second)[1] != os.getpid()


def test_a_worker_of_another_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = worker()
    monkeypatch.setenv("SOMETHING", "else")
    assert worker() != before
    assert gone(before)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("say_and_die", "ended by SIGKILL while it was tried; it said last:\n  the last thing that it said"),
        ("crash", "ended by SIGSEGV while it was tried; it said last:\n  Fatal Python error: Segmentation fault"),
        ("leave", "ended with the exit code 3 while it was tried; it said nothing"),
    ],
)
def test_a_process_that_ends_is_an_error_with_its_last_words(name: str, said: str) -> None:
    with pytest.raises(CompileError) as caught:
        run(name)
    assert said in str(caught.value)
    assert cast(tuple[int, int], run("add", 1, 2))[0] == 3


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux tells them")
def test_what_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    worker()
    with pytest.raises(CompileTimeoutError, match=r"it was tried for longer than timeout=1\.5 seconds, and was ended"):
        run("hang_with_a_child", str(path), limits=Limits(timeout=1.5))
    assert gone(*map(int, path.read_text().split()))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory need Linux")
def test_what_takes_too_much_memory_is_ended() -> None:
    text = r"it was tried in [\d,]+ bytes of memory, more than max_memory=200,000,000, and was ended"
    with pytest.raises(CompileMemoryError, match=text) as caught:
        run("grow", 400_000_000, limits=Limits(max_memory=200_000_000))
    assert isinstance(caught.value, MemoryError)
    assert cast(tuple[int, int], run("add", 1, 2))[0] == 3


def test_an_error_is_the_same_here_and_the_worker_goes_on() -> None:
    before = worker()
    with pytest.raises(UnsupportedOperatorError, match=r"^Odd and Even are not there$") as caught:
        run("refuse")
    assert caught.value.operators == ("Odd", "Even")
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in refuse" in str(caught.value.__cause__)
    with pytest.raises(VMKitError, match=r"^_OwnError: 1 and 2$"):
        run("refuse_oddly")
    with pytest.raises(Exception, match="pickle"):
        run("return_what_stays_here")
    with pytest.raises(AttributeError, match="no_such"):
        run("no_such")
    assert worker() == before


def test_what_is_logged_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="vmkit"):
        run("log")
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [("vmkit.somewhere", "INFO", "it is 7")]


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"timeout": "1"}, {"max_memory": -1}, {"max_memory": True}])
def test_limits_are_positive_numbers(limits: dict[str, float]) -> None:
    name = next(iter(limits))
    with pytest.raises(OptionError, match=rf"^{name} is {limits[name]!r}, expected a positive number of"):
        Limits(**limits)  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux tells them")
@pytest.mark.parametrize("how", ["print('', flush=True)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_worker_ends_with_its_parent_even_in_the_middle_of_a_job(how: str, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    code = f"""import os, signal, sys, threading, time
sys.path.insert(0, {str(TOP)!r})
from vmkit.isolation import run_isolated
def hang(): run_isolated("{JOBS}:hang_with_a_child", {str(path)!r}, what="it was tried")
threading.Thread(target=hang, daemon=True).start()
run_isolated("{JOBS}:add", 1, 2, what="it was tried")
while not (os.path.exists({str(path)!r}) and open({str(path)!r}).read()): time.sleep(0.02)
{how}
"""
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert gone(*map(int, path.read_text().split()))
