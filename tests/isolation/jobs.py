"""What workers are told to do in the tests: each ends, hangs, grows or fails in its own way."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time

from vmkit.errors import UnsupportedOperatorError


def add(one: int, other: int) -> tuple[int, int]:
    return one + other, os.getpid()


def say_and_die(*_: object) -> None:
    print("the last thing that it said", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def crash(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave() -> None:
    os._exit(3)


def hang(*_: object) -> None:
    time.sleep(600)


def hang_with_a_child(path: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def grow(size: int) -> None:
    held = bytearray(b"1") * size
    time.sleep(600)
    del held


def refuse() -> None:
    raise UnsupportedOperatorError("Odd and Even are not there", ["Odd", "Even"])


class _OwnError(ValueError):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def refuse_oddly() -> None:
    raise _OwnError(1, 2)


def log() -> None:
    logging.getLogger("vmkit.somewhere").info("it is %d", 7)
    logging.getLogger("vmkit.somewhere").debug("too much")


def return_what_stays_here() -> object:
    return lambda: None
