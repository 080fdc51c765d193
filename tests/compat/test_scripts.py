"""Scripts written for a TVM with Relay run as they are, after one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
RUNNER = "import runpy, sys, vmkit.compat; vmkit.compat.install(); vmkit.compat.install(); runpy.run_path(sys.argv[1])"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_for_relay_runs(script: Path) -> None:
    done = subprocess.run([sys.executable, "-c", RUNNER, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_nothing_is_changed_before_install() -> None:
    check = "import vmkit.compat, tvm, sys; assert not hasattr(tvm, 'nd') and 'tvm.relay' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
