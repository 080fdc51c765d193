"""Sequences and optional values, known while the model is imported or only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx.programs import array, graph, model, node
from tests.frontend.onnx.sequences import FLOAT, LIST, XS, machine, same, sequence_input, with_inputs
from vmkit import backend
from vmkit.errors import InputError, ModelError, VMError


def test_every_operator_on_a_sequence_from_outside() -> None:
    nodes = [
        node("SequenceLength", "xs", "length"),
        node("SequenceAt", "xs p", "at"),
        node("SequenceInsert", "xs x", "appended"),
        node("SequenceInsert", "xs x p", "inserted"),
        node("SequenceErase", "xs p", "erased"),
        node("SequenceErase", "xs", "shorter"),
        node("ConcatFromSequence", "inserted", "joined", axis=0),
        node("Identity", "xs", "same"),
        node("SequenceAt", "appended last", "back"),
        node("Relu", "back", "relu"),
    ]
    outputs = "length at appended inserted erased shorter joined same relu"
    proto = model(nodes, {"p": ([], "int64"), "x": (["m", 2], "float32")}, outputs, {"last": np.int64(-1)})
    vm = machine(with_inputs(proto, XS))
    x = array(2, 2, seed=9)
    for p in (0, 1, 2, -1, -3):
        inserted = list(LIST)
        inserted.insert(p, x)
        erased = [e for i, e in enumerate(LIST) if i != p % 3]
        expected = [np.array(3), LIST[p], [*LIST, x], inserted, erased, LIST[:-1], np.concatenate(inserted), LIST]
        for actual, wanted in zip(vm.run(p=np.array(p), x=x, xs=LIST), [*expected, np.maximum(x, 0)], strict=True):
            same(actual, wanted)
    with pytest.raises(VMError, match="SequenceAt: the position lies outside the sequence"):
        vm.run(p=np.array(3), x=x, xs=LIST)
    with pytest.raises(InputError, match=r"xs\[1\]: rank 1"):
        vm.run(p=np.array(0), x=x, xs=[LIST[0], x[0]])


def test_known_elements_leave_nothing_to_run_time() -> None:
    nodes = [
        node("SequenceEmpty", "", "s0", dtype=FLOAT),
        node("SequenceInsert", "s0 x", "s1"),
        node("SequenceInsert", "s1 v zero", "s2"),
        node("SequenceConstruct", "x v x", "t"),
        node("SequenceErase", "t one", "t1"),
        node("SequenceAt", "s2 minus", "a"),
        node("ConcatFromSequence", "t1", "stacked", axis=-1, new_axis=1),
        node("SequenceLength", "t1", "length"),
        node("SequenceAt", "s2 zero", "b"),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "minus": np.int64(-1)}
    inputs = {"x": (["m", 2], "float32"), "v": ([3], "float32")}
    vm = machine(model(nodes, inputs, "a stacked length b", constants))
    x, v = array(4, 2), array(3)
    for actual, expected in zip(vm.run(x=x, v=v), [x, np.stack([x, x], -1), np.array(2), v], strict=True):
        same(actual, expected)


def test_a_run_time_position_among_tensors_of_differing_ranks_and_sizes() -> None:
    nodes = [
        node("SequenceConstruct", "x v", "s"),
        node("SequenceAt", "s p", "a"),
        node("ReduceSum", "a", "sum", keepdims=0),
        node("SequenceConstruct", "x y", "t"),
        node("SequenceAt", "t p", "b"),
    ]
    inputs = {"x": (["m", 2], "float32"), "y": (["k", 2], "float32"), "v": ([3], "float32"), "p": ([], "int64")}
    vm = machine(model(nodes, inputs, "sum b"))
    feed = {"x": array(4, 2), "y": array(1, 2), "v": array(3)}
    for p in (0, 1, -1, -2):
        total, b = vm.run(**feed, p=np.array(p))
        np.testing.assert_allclose(total.numpy(), [feed["x"], feed["v"]][p].sum(), rtol=1e-5)
        same(b, [feed["x"], feed["y"]][p])
    with pytest.raises(VMError, match="lies outside the sequence"):
        vm.run(**feed, p=np.array(2))


def test_a_loop_that_fills_and_reads_sequences() -> None:
    """One sequence is only appended to, the other one is read, and changed in the middle, before it goes on."""
    body = graph(
        [
            node("Mul", "x two", "y"),
            node("SequenceInsert", "kept x", "kept_"),
            node("SequenceLength", "seen", "length"),
            node("SequenceInsert", "seen x zero", "seen_"),
            node("SequenceAt", "seen_ length", "first"),
            node("Concat", "y first", "z", axis=0),
        ],
        {"i": ([], "int64"), "go": ([], "bool"), "x": ([None], "float32")},
        "go z kept_ seen_ length",
    )
    for name in ("kept", "seen"):
        body.input.append(sequence_input(name, None))
    nodes = [
        node("SequenceEmpty", "", "s0", dtype=FLOAT),
        node("Loop", "n _ x0 s0 s0", "x kept seen lengths", body=body),
        node("SequenceLength", "kept", "count"),
    ]
    constants = {"two": np.float32(2), "zero": np.int64(0)}
    vm = machine(model(nodes, {"n": ([], "int64"), "x0": (["k"], "float32")}, "x kept seen lengths count", constants))
    for n in (0, 1, 6):
        x, kept, seen = array(2), [], []
        for _ in range(n):
            kept.append(x)
            seen.insert(0, x)
            x = np.concatenate([x * 2, seen[-1]])
        for actual, wanted in zip(
            vm.run(np.array(n), array(2)), [x, kept, seen, np.arange(n), np.array(n)], strict=True
        ):
            same(actual, wanted)


def test_a_long_sequence_is_filled_in_place() -> None:
    """The sequence that the loop begins with is left as it is."""
    body = graph([node("SequenceInsert", "s i", "t")], {"i": ([], "int64"), "go": ([], "bool")}, "go t")
    body.input.append(sequence_input("s", [], TensorProto.INT64))
    nodes = [
        node("Loop", "n _ xs", "ys", body=body),
        node("Loop", "n _ xs", "zs", body=body),
        node("SequenceAt", "zs end", "z"),
    ]
    proto = model(nodes, {"n": ([], "int64")}, "ys z xs_", {"end": np.int64(-1)})
    proto.graph.node.append(node("Identity", "xs", "xs_"))
    vm = machine(with_inputs(proto, sequence_input("xs", [], TensorProto.INT64)))
    ys, z, xs = vm.run(n=np.array(20_000), xs=[np.array(7)])
    assert (len(ys), int(ys[-1].numpy()), int(z.numpy()), len(xs)) == (20_001, 19_999, 19_999, 1)


def test_a_graph_for_every_element() -> None:
    body = graph(
        [node("Add", "a c", "s"), node("Shape", "a", "shape")],
        {"a": ([None, 2], "float32"), "c": ([2], "float32")},
        "s shape",
    )
    nodes = [
        node("SequenceConstruct", "c c", "cs"),
        node("SequenceMap", "xs c", "sums shapes", body=body),
        node("SequenceConstruct", "x x", "known"),
        node("SequenceMap", "known cs", "sums2 shapes2", body=body),
        node("SequenceMap", "xs cs", "sums3 shapes3", body=body),
    ]
    proto = model(nodes, {"c": ([2], "float32"), "x": (["m", 2], "float32")}, "sums shapes sums2 sums3", opset=18)
    vm = machine(with_inputs(proto, XS))
    c, x = array(2, seed=5), array(3, 2)
    two = LIST[:2]
    expected = [[e + c for e in two], [np.array(e.shape) for e in two], [x + c] * 2, [e + c for e in two]]
    for actual, wanted in zip(vm.run(c=c, x=x, xs=two), expected, strict=True):
        same(actual, wanted)
    with pytest.raises(VMError, match="the sequences are of different lengths"):
        vm.run(c=c, x=x, xs=LIST)


def test_branches_give_sequences_and_optional_values() -> None:
    then = graph([node("SequenceConstruct", "x v", "s"), node("Optional", "v", "o")], {}, "s o")
    other = graph([node("SequenceConstruct", "x", "s"), node("Optional", "", "o", type=tensor_type([3]))], {}, "s o")
    nodes = [
        node("If", "c", "p q", then_branch=then, else_branch=other),
        node("SequenceLength", "p", "length"),
        node("OptionalHasElement", "q", "has"),
        node("If", "has", "got", then_branch=graph([node("OptionalGetElement", "q", "g")], {}, "g"),
             else_branch=graph([node("Neg", "v", "h")], {}, "h")),
    ]  # fmt: skip
    inputs = {"c": ([], "bool"), "x": (["m", 2], "float32"), "v": ([3], "float32")}
    vm = machine(model(nodes, inputs, "p q length has got", opset=18))
    x, v = array(4, 2), array(3)
    for actual, wanted in zip(vm.run(np.array(True), x, v), [[x, v], v, np.array(2), np.array(True), v], strict=True):
        same(actual, wanted)
    for actual, wanted in zip(
        vm.run(np.array(False), x, v), [[x], None, np.array(1), np.array(False), -v], strict=True
    ):
        same(actual, wanted)


def tensor_type(shape: Any) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(FLOAT, shape)


def test_optional_inputs() -> None:
    nodes = [
        node("OptionalHasElement", "o", "has"),
        node("OptionalHasElement", "t", "sure"),
        node("OptionalGetElement", "o", "got"),
    ]
    info = sequence_input("o", [None], optional=True)
    proto = with_inputs(model(nodes, {"t": ([1], "float32")}, "has sure got", opset=18), info)
    rep = backend.prepare(proto)
    has, sure, got = rep.run([array(1), [array(3), array(2)]])
    assert (bool(has), bool(sure)) == (True, True)
    np.testing.assert_array_equal(got[1], array(2))
    with pytest.raises(VMError, match="the optional value holds nothing"):
        rep.run([array(1), None])
    rest = with_inputs(model([node("Identity", "o", "same"), nodes[0]], {}, "same has", opset=18), info)
    same_value, has = backend.prepare(rest).run([None])
    assert (same_value, bool(has)) == (None, False)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("SequenceConstruct", "x i", "s")], "a sequence of float32 tensors cannot hold"),
        ([node("SequenceConstruct", "x x", "t"), node("SequenceAt", "t far", "s")], "position 5 lies outside"),
        ([node("SequenceEmpty", "", "t"), node("ConcatFromSequence", "t", "s", axis=0)], "the sequence is empty"),
        ([node("SequenceLength", "x", "s")], "must be a sequence"),
        ([node("SplitToSequence", "x zero", "s")], "it must be positive"),
        ([node("Optional", "", "t", type=tensor_type([1])), node("OptionalGetElement", "t", "s")], "holds nothing"),
    ],
)
def test_mistakes_that_can_be_seen_are_refused(nodes: list[onnx.NodeProto], message: str) -> None:
    inputs = {"x": ([2, 2], "float32"), "i": ([], "int64")}
    proto = model(nodes, inputs, "s", {"far": np.int64(5), "zero": np.int64(0)})
    with pytest.raises(ModelError, match=message):
        machine(with_inputs(proto, sequence_input("ranks", None)))
