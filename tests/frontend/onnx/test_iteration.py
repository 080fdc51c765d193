"""Loop: iterations whose number, sizes and results are known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from tests.frontend.onnx.feeds import COUNT, ITERATION, START, count
from tests.frontend.onnx.programs import (
    Compiled,
    array,
    assert_agrees,
    check,
    graph,
    model,
    node,
    operators,
    session,
)
from vmkit.errors import ModelError, VMError

X = {"x": (["k", 3], "float32")}


def agree(proto: onnx.ModelProto, *feeds: dict[str, Any]) -> Compiled:
    """Assert that a model agrees with onnxruntime, which does not know the sizes of rows of which there are none."""
    compiled, peer = Compiled(proto), session(proto)
    names = [o.name for o in proto.graph.output]
    for feed in feeds:
        actual, expected = compiled(**feed), peer.run(None, {k: np.asarray(v) for k, v in feed.items()})
        sized = [
            e.reshape(a.shape) if a.size == e.size == 0 and a.ndim == e.ndim else e
            for a, e in zip(actual, expected, strict=True)
        ]
        assert [len(a) for a in actual if a.ndim] == [len(e) for e in expected if e.ndim]
        assert_agrees(actual, sized, names)
    return compiled


def test_carried_values_and_stacked_ones_for_every_number_of_iterations() -> None:
    body = graph(
        [
            node("Cast", "i", "f", to=onnx.TensorProto.FLOAT),
            node("Add", "s f", "t"),
            node("Mul", "t w", "row"),
            node("ReduceSum", "row", "total", keepdims=0),
        ],
        {**ITERATION, "s": (["k", 3], "float32")},
        "go t row total",
    )
    proto = model([node("Loop", "n _ x", "y rows totals", body=body)], {**COUNT, **X}, "y rows totals", {"w": array(3)})
    feeds = [{**count(n), "x": array(k, 3)} for n in (0, 1, 5) for k in (0, 1, 4)]
    compiled = agree(proto, *feeds)
    assert "buffer.grow" not in operators(compiled.module), "the number of rows is known before the loop"


@pytest.mark.parametrize("opset", [1, 11, 13, 16, 21])
def test_a_condition_ends_the_loop(opset: int) -> None:
    """The value grows until it is large; the stacked values are as many as there were iterations."""
    body = graph(
        [node("Add", "s s", "t"), node("ReduceMax", "t", "m", keepdims=0), node("Less", "m limit", "further")],
        {**ITERATION, "s": (["k", 3], "float32")},
        "further t t",
    )
    nodes = [node("Loop", "n c x", "y rows", body=body)]
    proto = model(nodes, {**COUNT, **START, **X}, "y rows", {"limit": np.float32(100)}, opset=max(opset, 9))
    for way in proto.opset_import:
        way.version = max(opset, 9)
    feeds = [
        {**count(n), "c": np.array(c), "x": np.full((2, 3), v, "float32")}
        for n, c, v in [(100, True, 1), (3, True, 1), (100, False, 1), (0, True, 1), (100, True, 1000)]
    ]
    agree(proto, *feeds)


def test_a_condition_alone_and_a_vector_of_one_element_for_it() -> None:
    body = graph(
        [node("Add", "s one", "t"), node("Less", "t limit", "further")],
        {"i": ([1], "int64"), "go": ([1], "bool"), "s": ([1], "float32")},
        "further t i",
    )
    nodes = [node("Loop", "_ c x", "y rows", body=body)]
    inputs = {"c": ([1], "bool"), "x": ([1], "float32"), "limit": ([1], "float32")}
    compiled = Compiled(model(nodes, inputs, "y rows", {"one": np.ones(1, "float32")}))
    last, rows = compiled(c=np.array([True]), x=np.zeros(1, "float32"), limit=np.array([4], "float32"))
    np.testing.assert_array_equal(last, [4])
    np.testing.assert_array_equal(rows, [[0], [1], [2], [3]])


def test_a_carried_tensor_that_grows() -> None:
    body = graph(
        [
            node("Concat", "s x", "t", axis=0),
            node("Shape", "t", "shape"),
            node("ReduceMean", "t", "mean", axes=[0], keepdims=0),
        ],
        {**ITERATION, "s": ([None, 3], "float32")},
        "go t mean shape",
    )
    nodes = [node("Loop", "n _ x", "y means shapes", body=body), node("Relu", "y", "z")]
    proto = model(nodes, {**COUNT, **X}, "z means shapes")
    check(proto, *({**count(n), "x": array(k, 3)} for n in (0, 1, 4) for k in (1, 2)))


def test_nested_loops_and_branches_see_all_values_around_them() -> None:
    inner = graph(
        [node("Mul", "u half", "v0"), node("Add", "v0 x", "v1"), node("Add", "v1 f", "v")],
        {"j": ([], "int64"), "go2": ([], "bool"), "u": (["k", 3], "float32")},
        "go2 v v1",
    )
    then = graph([node("Neg", "w", "p")], {}, "p")
    other = graph([node("Add", "w x", "p")], {}, "p")
    body = graph(
        [
            node("Cast", "i", "f", to=onnx.TensorProto.FLOAT),
            node("Loop", "i _ s", "w parts", body=inner),
            node("Mod", "i two", "odd"),
            node("Cast", "odd", "is_odd", to=onnx.TensorProto.BOOL),
            node("If", "is_odd", "q", then_branch=then, else_branch=other),
            node("ReduceSum", "parts", "sum", keepdims=0),
        ],
        {**ITERATION, "s": (["k", 3], "float32")},
        "go q sum",
    )
    constants = {"half": np.float32(0.5), "two": np.int64(2)}
    proto = model([node("Loop", "n _ x", "y sums", body=body)], {**COUNT, **X}, "y sums", constants)
    check(proto, *({**count(n), "x": array(2, 3)} for n in (0, 1, 5)))


def test_values_known_over_sizes_reach_the_body() -> None:
    """The body reshapes by a size of an input that no carried value has."""
    body = graph(
        [node("Reshape", "s target", "t0"), node("Add", "t0 x", "t1"), node("Reshape", "t1 flat", "t")],
        {**ITERATION, "s": ([None], "float32")},
        "go t",
    )
    nodes = [
        node("Shape", "x", "target"),
        node("Reshape", "x flat", "start"),
        node("Loop", "n _ start", "y", body=body),
    ]
    proto = model(nodes, {**COUNT, **X}, "y", {"flat": np.array([-1])})
    check(proto, *({**count(n), "x": array(k, 3)} for n in (0, 3) for k in (1, 4)))


def test_carried_values_that_swap_places() -> None:
    body = graph([node("Add", "a b", "t")], {**ITERATION, "a": ([2], "float32"), "b": ([2], "float32")}, "go b t a")
    inputs = {**COUNT, "p": ([2], "float32"), "q": ([2], "float32")}
    proto = model([node("Loop", "n _ p q", "x y rows", body=body)], inputs, "x y rows")
    check(proto, *({**count(n), "p": array(2), "q": array(2, seed=1)} for n in (0, 1, 2, 7)))


def test_a_rank_that_changes_in_a_few_iterations_of_known_number() -> None:
    body = graph([node("Unsqueeze", "s axis", "t")], {**ITERATION, "s": ([2], "float32")}, "go t i")
    nodes = [node("Loop", "n _ p", "y at", body=body)]
    proto = model(nodes, {"p": ([2], "float32")}, "y at", {"axis": np.array([0]), "n": np.array(3)})
    y, at = Compiled(proto)(p=array(2))
    np.testing.assert_array_equal(y, array(2).reshape(1, 1, 1, 2))
    np.testing.assert_array_equal(at, [0, 1, 2])


def test_a_loop_that_cannot_end_is_refused() -> None:
    body = graph([node("Neg", "s", "t")], {**ITERATION, "s": ([2], "float32")}, "go t")
    with pytest.raises(ModelError, match="never ends"):
        Compiled(model([node("Loop", "_ _ p", "y", body=body)], {"p": ([2], "float32")}, "y"))


def test_rows_of_differing_shapes_cannot_be_stacked() -> None:
    body = graph([node("Concat", "s p", "t", axis=0)], {**ITERATION, "s": ([None], "float32")}, "go t t")
    proto = model([node("Loop", "n _ p", "y rows", body=body)], {**COUNT, "p": ([2], "float32")}, "y rows")
    compiled = Compiled(proto)
    assert compiled(**count(1), p=array(2))[1].shape == (1, 4)
    with pytest.raises(VMError, match="t_of_Loop: the shape differs"):
        compiled(**count(2), p=array(2))


def test_many_iterations_use_neither_stack_nor_memory() -> None:
    body = graph([node("Add", "s one", "t")], {**ITERATION, "s": ([], "int64")}, "go t s")
    proto = model([node("Loop", "n _ p", "y rows", body=body)], {**COUNT, "p": ([], "int64")}, "y rows", {"one": 1})
    y, rows = Compiled(proto)(**count(200_000), p=np.array(5))
    assert y == 200_005
    np.testing.assert_array_equal(rows, np.arange(5, 200_005))


def test_the_results_of_a_run_stay_when_the_loop_runs_again() -> None:
    """Two buffers of one known shape are two, and new ones in every run."""
    body = graph([node("Add", "s s", "t")], {**ITERATION, "s": ([2], "float32")}, "go t s t")
    proto = model([node("Loop", "n _ p", "y a b", body=body)], {"p": ([2], "float32")}, "y a b", {"n": np.array(3)})
    compiled, p = Compiled(proto), array(2)
    first, second = compiled(p=p), compiled(p=-p)
    for (_, a, b), x in ((first, p), (second, -p)):
        np.testing.assert_array_equal(a, [x, x * 2, x * 4])
        np.testing.assert_array_equal(b, [x * 2, x * 4, x * 8])


def test_a_body_with_the_wrong_number_of_values_is_refused() -> None:
    body = graph([node("Neg", "s", "t")], {**ITERATION, "s": ([2], "float32")}, "go t")
    proto = model([node("Loop", "n _ p p", "y z", body=body)], {**COUNT, "p": ([2], "float32")}, "y z")
    with pytest.raises(vmkit.errors.ModelError, match="for 2 carried values it needs 4 inputs"):
        Compiled(proto)


def test_an_iteration_neither_checks_types_nor_allocates_what_only_kernels_see() -> None:
    body = graph([node("Add", "s one", "t")], {**ITERATION, "s": ([3], "float32")}, "go t")
    proto = model(
        [node("Loop", "n _ p", "y", body=body)], {**COUNT, "p": ([3], "float32")}, "y", {"one": np.float32(1)}
    )
    # Else one function runs all turns.
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        listing = Compiled(proto).executable.bytecode.splitlines()
    start = next(i for i, line in enumerate(listing) if line.startswith("VM Function") and "loop_1" in line)
    code = [line.split(": ", 1)[1] for line in listing[start:] if line.strip()[:1].isdigit()]
    back = next(i for i, line in enumerate(code) if line.startswith("goto") and int(line.split()[1]) < i)
    again = code[int(code[back].split()[1]) : back]
    assert any("check_tensor_info" in line for line in code)
    assert not any("check_tensor_info" in line for line in again)
    # One for the position, one for the sum; the truth value that ends the loop has its place.
    assert sum("alloc_storage" in line for line in again) == 2
