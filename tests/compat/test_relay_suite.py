"""The test files of TVM 0.14 for Relay and archives in C: every test passes, but for those of a table that says why.

The files are TVM's own and lie beside the checkout; each runs, unchanged, in a process of its own after Relay's names
were installed. What the table lists must fail, so that it lists no more than that.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.places import DATA, SHARED

ROOT = SHARED / "tvm-0.14-tests" / "tests" / "python"
PARTS = ("ir/**/test_*.py", "relay/**/test_*.py", "unittest/test_micro_model_library_format.py")
FILES = [path.relative_to(ROOT).as_posix() for part in PARTS for path in sorted(ROOT.glob(part))]
LONGEST = 900  # seconds for a file
PLUGIN = "import vmkit.compat\nvmkit.compat.install()\npytest_plugins = ['tvm.testing.plugin']\n"


def table() -> dict[str, dict[str, str]]:
    """Return the reasons of the tests that fail, by file and name."""
    with (DATA / "relay_0_14_failures.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    listed: dict[str, dict[str, str]] = {}
    for row in rows:
        listed.setdefault(row["file"], {})[row["test"]] = row["reason"]
    return listed


def outcomes(file: str, folder: Path) -> dict[str, bool]:
    """Return whether each test of a file passes, by name; those that TVM itself skips are left out."""
    (folder / "relay_names.py").write_text(PLUGIN)
    report = folder / "report.xml"
    options = ["-q", "-p", "relay_names", "-p", "no:cacheprovider", "-c", os.devnull, "-W", "ignore", "--tb=no"]
    environment = {**os.environ, "TVM_TEST_TARGETS": "llvm", "TVM_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={ROOT}", f"--junitxml={report}", str(ROOT / file)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    # 5 is a file without tests; what is above ended pytest itself, by a signal for instance.
    assert done.returncode in (0, 1, 5), f"{file} cannot be run:\n{(done.stdout + done.stderr)[-2000:]}"
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            found[case.get("name", "")] = case.find("failure") is None and case.find("error") is None
    return found


def test_the_table_gives_each_test_once_and_a_reason() -> None:
    for file, tests in table().items():
        assert all(len(reason) > 20 for reason in tests.values()), file
        assert not ROOT.is_dir() or file in FILES


@pytest.mark.nightly
@pytest.mark.skipif(not ROOT.is_dir(), reason="the test files of TVM 0.14 do not lie beside the checkout")
@pytest.mark.parametrize("file", FILES or ["none"])
def test_a_file_of_tests(file: str, tmp_path: Path) -> None:
    listed = table().get(file, {})
    failed = {name for name, passed in outcomes(file, tmp_path).items() if not passed}
    assert sorted(failed - set(listed)) == []
    assert sorted(set(listed) - failed) == [], "these pass, and the table says that they do not"
