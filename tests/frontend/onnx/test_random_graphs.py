"""Random graphs: each value as onnxruntime computes its node alone, with sizes fixed and free, at three sizes."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from tests.frontend.onnx.random_graphs import SIZES, Graph, Value, random_graph

RTOL, ATOL = 1e-3, 1e-4


def check(graph: Graph, free: bool) -> None:
    """Compile a graph, and compare its results at the size it was made for, or at all."""
    outputs = graph.outputs()
    machine = vmkit.VirtualMachine(vmkit.compile(graph.model(free, outputs), "native"))
    for at in range(len(SIZES) if free else 1):
        results = machine.run(**{value.name: value.arrays[at] for value in graph.inputs})
        for value, result in zip(outputs, results if isinstance(results, list | tuple) else [results], strict=True):
            assert_agree(result.numpy(), value, at)


def assert_agree(result: np.ndarray, value: Value, at: int) -> None:
    """Assert that a result is the value's array at a size, but for roundings of the largest number in it."""
    expected = value.arrays[at]
    assert result.dtype == expected.dtype, value.name
    largest = np.abs(expected).max(initial=1) if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(result, expected, RTOL if largest else 0, ATOL * largest, err_msg=f"{value.name}, {at}")


@pytest.mark.sweep
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("seed", range(8))
def test_a_random_graph_has_the_values_of_its_nodes(seed: int, free: bool) -> None:
    check(random_graph(seed), free)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_many_random_graphs_have_the_values_of_their_nodes(start: int) -> None:
    for seed in range(start, start + 100):
        graph = random_graph(seed)
        for free in (False, True):
            try:
                check(graph, free)
            except Exception as error:
                raise AssertionError(f"the graph of seed {seed}, {'free' if free else 'fixed'}") from error
