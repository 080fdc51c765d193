"""Tensors split to sequences, and sequences concatenated to tensors."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from tests.frontend.onnx.programs import array, model, node
from tests.frontend.onnx.sequences import LIST, XS, machine, same, sequence_input, with_inputs
from vmkit.errors import VMError
from vmkit.relay.frontend import from_onnx


@pytest.mark.parametrize("is_static", [True, False])
def test_tensors_taken_apart(is_static: bool) -> None:
    nodes = [
        node("SplitToSequence", "x", "ones", axis=1),
        node("SplitToSequence", "x", "rows", axis=-1, keepdims=0),
        node("SplitToSequence", "x size", "pairs", axis=1, keepdims=0),
        node("SplitToSequence", "x sizes", "parts", axis=1),
    ]
    known = {"size": np.array(2), "sizes": np.array([1, 0, 4])}
    inputs = {"x": ([2, 5] if is_static else ["m", "n"], "float32")}
    if not is_static:
        inputs |= {"size": ([], "int64"), "sizes": (["parts"], "int64")}
    vm = machine(model(nodes, inputs, "ones rows pairs parts", known if is_static else None))
    x = array(2, 5)
    expected = [
        np.split(x, 5, 1), [x[:, i] for i in range(5)], [x[:, :2], x[:, 2:4], x[:, 4:]], [x[:, :1], x[:, :0], x[:, 1:]]
    ]  # fmt: skip
    feed = {} if is_static else known
    for actual, wanted in zip(vm.run(x=x, **feed), expected, strict=True):
        same(actual, wanted)
    if not is_static:
        with pytest.raises(VMError, match="the parts do not make up axis 1"):
            vm.run(x=x, size=np.array(2), sizes=np.array([1, 2]))
        with pytest.raises(VMError, match="must be positive"):
            vm.run(x=x, size=np.array(0), sizes=np.array([1, 4]))


def test_sequences_joined_at_run_time() -> None:
    nodes = [
        node("ConcatFromSequence", "xs", "rows", axis=0),
        node("ConcatFromSequence", "ys", "columns", axis=-1),
        node("ConcatFromSequence", "ys", "stacked", axis=-1, new_axis=1),
        node("ConcatFromSequence", "ys", "front", axis=0, new_axis=1),
    ]
    proto = model(nodes, {}, "rows columns stacked front")
    vm = machine(with_inputs(proto, XS, sequence_input("ys", [None, None])))
    ys = [array(2, 3, seed=s) for s in range(3)]
    expected = [np.concatenate(LIST), np.concatenate(ys, 1), np.stack(ys, -1), np.stack(ys)]
    for actual, wanted in zip(vm.run(xs=LIST, ys=ys), expected, strict=True):
        same(actual, wanted)
    with pytest.raises(VMError, match="the shapes of the elements do not agree"):
        vm.run(xs=LIST, ys=[array(2, 3), array(1, 3)])
    with pytest.raises(VMError, match="the sequence is empty"):
        vm.run(xs=[], ys=ys)


def test_elements_of_a_known_size_are_not_counted() -> None:
    nodes = [node("ConcatFromSequence", "ys", "rows", axis=0), node("ConcatFromSequence", "ys", "columns", axis=1)]
    proto = with_inputs(model(nodes, {}, "rows columns"), sequence_input("ys", [2, None]))
    module, params = from_onnx(proto)
    executable = vmkit.compile(module, target="llvm", params=params)
    # One function for each loop: of rows there are two in each element, columns are counted before they are copied.
    functions = [line for line in executable.bytecode.splitlines() if line.startswith("VM Function")]
    assert sum("concatfromsequence" in line for line in functions) == 3
    vm = vmkit.VirtualMachine(executable, vmkit.device("cpu"))
    ys = [array(2, 3, seed=s) for s in range(4)]
    for actual, axis in zip(vm.run(ys=ys), (0, 1), strict=True):
        same(actual, np.concatenate(ys, axis))
