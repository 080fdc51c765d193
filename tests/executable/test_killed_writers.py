"""Writers that are killed at any moment: what they wrote is there whole or not at all, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import TOP

# One process that forks the writers, since each would otherwise begin with two seconds of imports.
SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path
import numpy as np
import vmkit
from vmkit import relay
from vmkit.cache import Cache, Key
from vmkit.executable.archive import read_archive

kind, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
x = relay.var("x", shape=(relay.Any(), 1000))
weight = relay.const(np.random.default_rng(0).random((1000, 1000), "float32"))
executable = vmkit.compile(relay.Function([x], relay.nn.dense(x, weight)), target="llvm")
cache, key = Cache(folder), Key({"model": "one"})
executable.export(folder.parent / "first.vmx")
executable = vmkit.load(folder.parent / "first.vmx")

def write():
    if kind == "export":
        executable.export(folder / "model.vmx")
    else:
        with cache.alone(key):
            cache.put(key, executable)

begin = time.perf_counter()
write()
took = time.perf_counter() - begin
random.seed(0)
whole = 0
for kill in range(kills):
    writer = os.fork()
    if writer == 0:
        while True:
            write()
    time.sleep(random.uniform(0, 3 * took))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    for path in folder.glob("*.vmx"):
        read_archive(path)  # which checks every digest
        whole += 1
    if kill % 50 == 49:
        for path in folder.glob("*.vmx"):
            path.unlink()
write()
print(json.dumps([whole, [path.suffix for path in folder.iterdir()]]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes do not fork there")
@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("export", 5),
        pytest.param("export", 200, marks=pytest.mark.nightly),
        pytest.param("cache", 200, marks=pytest.mark.nightly),
    ],
)
def test_what_a_killed_writer_wrote_is_whole_or_absent(kind: str, kills: int, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    command = [sys.executable, "-c", SCRIPT, kind, str(folder), str(kills)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole, left = json.loads(done.stdout)
    assert whole > 0
    assert [suffix for suffix in left if suffix != ".lock"] == [".vmx"], "only the file itself is left"
