"""Compile the fences, and run pytest between them: ``python -m tests.fences tests/kernels -n 2``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def library(folder: str) -> Path:
    """Return the library that is preloaded, compiled into a folder."""
    made = Path(folder) / "fences.so"
    source = Path(__file__).with_name("fences.c")
    subprocess.run(["cc", "-O2", "-Wall", "-shared", "-fPIC", str(source), "-o", str(made), "-ldl"], check=True)
    return made


def main(arguments: list[str]) -> int:
    """Run pytest with arguments; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "tests.fences.plugin", *arguments]
        return subprocess.call(command, env={**os.environ, "LD_PRELOAD": str(library(folder))})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
