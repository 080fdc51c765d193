"""Storage of sizes that the run knows: few sizes, each no smaller than what is asked for, nor much larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.onnx.programs import model, node
from vmkit.runtime import memory_limit


def _asked_for(sizes: list[int], monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[int]:
    """Return the bytes of the result's storage at each of some sizes of a vector of float32."""
    asked: list[int] = []
    allocate = memory_limit.allocate_storage

    def noted(machine: Any, shape: Any, *rest: Any) -> object:
        asked.append(int(shape[0]))
        return allocate(machine, shape, *rest)

    monkeypatch.setattr(memory_limit, "allocate_storage", noted)
    proto = model([node("Neg", "x", "y")], {"x": (["n"], "float32")}, "y")
    with vmkit.PassContext(**options):
        machine = vmkit.VirtualMachine(vmkit.compile(proto), max_memory=1 << 30)
    for size in sizes:
        x = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(machine.run(x).numpy(), -x)
    return asked


def test_storage_comes_in_four_sizes_between_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [0, 1, 1025, 4096, 4097, 5000, 5120, 5121, 8191, 8192, 8193, 100_000, 1_000_001]
    asked = _asked_for(sizes, monkeypatch)
    kib = [0, 4, 8, 16, 20, 20, 20, 24, 32, 32, 40, 448, 4096]
    assert asked == [1024 * k for k in kib]


def test_the_storage_of_many_sizes_serves_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list(range(1 << 16, 1 << 17, 999))
    assert len(set(_asked_for(sizes, monkeypatch))) == 5
    monkeypatch.undo()
    assert len(set(_asked_for(sizes, monkeypatch, disabled_pass=["RoundStorage"]))) == len(sizes)
