"""Hours of use in minutes: memory, mappings, threads and open files stay as they are after a while."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pytest

import vmkit
from vmkit import relay
from vmkit.relay.ir.lifetime import nodes_end

pytestmark = pytest.mark.nightly


class Held(NamedTuple):
    """What the process holds."""

    bytes: int
    mappings: int
    threads: int
    files: int


def held() -> Held:
    """Return what the process holds now."""
    gc.collect()
    process = psutil.Process()
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    return Held(process.memory_info().rss, mappings, process.num_threads(), process.num_fds())


def assert_flat(step: Callable[[], object], times: int) -> None:
    """Take steps, and compare what is held after a tenth of them, when all is warm, with the end."""
    for _ in range(times // 10):
        step()
    before = held()
    for _ in range(times - times // 10):
        step()
    after = held()
    assert after.bytes - before.bytes < 4 << 20, f"{before} {after}"
    assert after.mappings - before.mappings <= 8, f"{before} {after}"
    assert (after.threads, after.files) == (before.threads, before.files)


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    n = relay.Any()
    x, c = relay.var("x", shape=(n, 8)), relay.var("c", shape=(), dtype="bool")
    weight = relay.const(np.random.default_rng(0).random((16, 8), "float32"))
    product = relay.nn.softmax(relay.nn.dense(x, weight))
    body = relay.If(
        c, relay.Tuple([product, relay.sum(product)]), relay.Tuple([relay.tanh(product), relay.max(product)])
    )
    return vmkit.compile(relay.Function([x, c], body), target="llvm")


def test_a_million_calls_of_mixed_sizes(executable: vmkit.Executable) -> None:
    machine = vmkit.VirtualMachine(executable)
    inputs = [
        (np.random.default_rng(rows).random((rows, 8), "float32"), np.array(rows % 2 == 0)) for rows in (1, 3, 64, 0, 7)
    ]

    def step() -> None:
        for arrays in inputs:
            machine.run(*arrays)

    assert_flat(step, 200_000)


def test_a_thousand_loads(executable: vmkit.Executable, tmp_path: Path) -> None:
    path = tmp_path / "model.vmx"
    executable.export(path)
    x = np.ones((3, 8), "float32")

    def step() -> None:
        machine = vmkit.VirtualMachine(vmkit.load(path))
        assert machine.run(x, np.array(True))[0].shape == (3, 16)

    assert_flat(step, 1_000)


def test_a_hundred_compiles() -> None:
    weights = [np.random.default_rng(seed).standard_normal((512, 512)).astype("float32") for seed in range(4)]
    counted = iter(range(10_000))

    def step() -> None:
        # The nodes that a caller makes outside of such a block do not end; see vmkit.relay.ir.lifetime.
        with nodes_end():
            value: relay.Expr = relay.multiply(x, relay.const(float(next(counted))))
            for weight in weights:
                value = relay.nn.relu(relay.nn.dense(value, relay.const(weight)))
            vmkit.compile(relay.Function([x], value), target="llvm")
            del value  # or it would not end here

    x = relay.var("x", shape=(8, 512))
    for _ in range(5):
        step()
    gc.collect()
    before = psutil.Process().memory_info().rss
    for _ in range(100):
        step()
    gc.collect()
    grown = psutil.Process().memory_info().rss - before
    # A model's weights are 4 MB, of which a hundred compiles leave none behind.
    assert grown < 50 << 20, f"{grown >> 20} MB after 100 compiles"
