"""Everything that must hold before a change is merged: style, types, the installed package, tests, doctests, examples.

Run it with the Python of an environment made by ``pip install '.[test]'``. The first step that fails ends the run.
Types are checked beside the rest: that takes a minute of one core, and leaves the other idle.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
TYPES = [PYTHON, "-m", "mypy"]
STEPS = {
    "style": [PYTHON, "-m", "ruff", "check", "."],
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "installed package": [PYTHON, "-m", "vmkit", "demo"],
    "tests": [PYTHON, "-m", "pytest", "-n", "2"],
}


def main() -> int:
    """Run every step; return the exit code of the first that fails, else 0."""
    with tempfile.TemporaryDirectory() as elsewhere:
        # Two test processes share the cores, so each kernel runs on one thread. Compiled Python is kept, though outside
        # the source tree: the tests start many processes.
        environment = {**os.environ, "TVM_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": f"{elsewhere}/pycache"}
        environment["XDG_CACHE_HOME"] = f"{elsewhere}/cache"
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        types = subprocess.Popen(TYPES, cwd=TOP, env=environment, stdout=subprocess.PIPE, text=True)
        for name, command in STEPS.items():
            # Outside the source tree, Python finds the package that was installed and not the one in this folder.
            folder = elsewhere if name == "installed package" else TOP
            print(f"== {name}", flush=True)
            step = subprocess.Popen(command, cwd=folder, env=environment)
            if name == "tests":
                print(types.communicate()[0], end="", flush=True)
                if types.returncode:
                    step.kill()
                    return _failed("types", TYPES, types.returncode)
            if step.wait():
                types.kill()
                return _failed(name, command, step.returncode)
    return 0


def _failed(name: str, command: list[str], code: int) -> int:
    print(f"== {name} failed: {' '.join(command)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
