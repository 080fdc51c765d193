"""The fences hold: what reads or writes beyond a tensor ends the process, and nothing else does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.fences.__main__ import library

# Size of a tensor, the byte that is touched, what is written to it, and how the process ends.
CASES = [
    (64, 63, None, 0),
    (64, 0, 1, 0),
    (60, 59, 1, 0),
    (64, 64, None, signal.SIGSEGV),
    (64, -5000, None, signal.SIGSEGV),
    (60, 60, 1, signal.SIGABRT),
    (60, 64, 1, signal.SIGSEGV),
]
PROGRAM = """
import ctypes, json, os, sys
from tvm import runtime

def touch(size, at, value, _):
    tensor = runtime.empty((size,), "uint8", runtime.cpu())
    byte = ctypes.c_uint8.from_address(tensor.data_ptr() + at)
    byte.value = byte.value if value is None else value

def signal_of(case):
    child = os.fork()
    if not child:
        touch(*case)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])

print(json.dumps([signal_of(case) for case in json.loads(sys.argv[1])]))
"""


def test_what_is_beyond_a_tensor_cannot_be_touched(tmp_path: Path) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(library(str(tmp_path)))}
    command = [sys.executable, "-c", PROGRAM, json.dumps(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [case[-1] for case in CASES]
