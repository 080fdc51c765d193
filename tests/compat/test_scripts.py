"""Scripts written for a TVM with Relay run as they are, after one line.

Each runs in a process of its own, since what it registers stays there; TVM is imported once, by the process whose
copies they are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
RUNNER = """
import os, runpy, sys, vmkit.compat
vmkit.compat.install()
vmkit.compat.install()
failed = []
for script in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        runpy.run_path(script)
        sys.exit()
    failed += [script] if os.waitpid(child, 0)[1] else []
sys.exit("failed: " + " ".join(failed) if failed else 0)
"""


def test_scripts_for_relay_run() -> None:
    assert SCRIPTS
    done = subprocess.run([sys.executable, "-c", RUNNER, *SCRIPTS], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_a_script_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("from tvm import relay\nrelay.nothing_of_this_name")
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "wrong.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "Relay has no operator" in done.stderr and "wrong.py" in done.stderr


def test_nothing_is_changed_before_install() -> None:
    check = "import vmkit.compat, tvm, sys; assert not hasattr(tvm, 'nd') and 'tvm.relay' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
