"""Everything that must hold before a change is merged: style, types, the installed package, tests, doctests, examples.

Run it with the Python of an environment made by ``pip install '.[test]'``. The first step that fails ends the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
STEPS = {
    "style": [PYTHON, "-m", "ruff", "check", "."],
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "types": [PYTHON, "-m", "mypy"],
    "installed package": [PYTHON, "-m", "vmkit", "demo"],
    "tests": [PYTHON, "-m", "pytest", "-n", "2"],
}


def main() -> int:
    """Run every step; return the exit code of the first that fails, else 0."""
    with tempfile.TemporaryDirectory() as elsewhere:
        # Two test processes share the cores, so each kernel runs on one thread. Compiled Python is kept, though outside
        # the source tree: the tests start many processes.
        environment = {**os.environ, "TVM_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": f"{elsewhere}/pycache"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name, command in STEPS.items():
            # Outside the source tree, Python finds the package that was installed and not the one in this folder.
            folder = elsewhere if name == "installed package" else TOP
            print(f"== {name}", flush=True)
            code = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
            if code != 0:
                print(f"== {name} failed: {' '.join(command)}", file=sys.stderr)
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
