"""Sizes that come from data are checked before memory is taken: a bad one is an error with the operator's name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay.lower.read_sizes import LARGEST_COUNT

HUGE = [2**62, 2**61, 2**63 - 1, -(2**62), -1]


def of_sizes(count: int, body: Callable[[relay.Var], relay.Expr]) -> relay.Function:
    sizes = relay.var("sizes", shape=(count,), dtype="int64")
    return relay.Function([sizes], body(sizes))


def scalars(body: Callable[..., relay.Expr], names: str = "abc") -> relay.Function:
    values = [relay.var(name, shape=(), dtype="int64") for name in names]
    return relay.Function(values, body(*values))


ONE = relay.const(np.ones(1, "float32"))
IMAGE = relay.const(np.ones((1, 1, 2, 2), "float32"))
MATRIX = relay.const(np.ones((2, 2), "float32"))
PROGRAMS = {
    "dyn.broadcast_to": of_sizes(2, lambda s: relay.broadcast_to(ONE, s)),
    "dyn.full": of_sizes(2, lambda s: relay.full(relay.const(1.0), s, "float32")),
    "dyn.zeros": of_sizes(2, lambda s: relay.zeros(s, "float32")),
    "dyn.tile": of_sizes(2, lambda s: relay.tile(MATRIX, s)),
    "dyn.image.resize2d": of_sizes(2, lambda s: relay.image.resize2d(IMAGE, s)),
    "dyn.nn.pad": of_sizes(4, lambda s: relay.nn.pad(MATRIX, relay.reshape(s, (2, 2)))),
    "dyn.one_hot": of_sizes(
        1, lambda s: relay.one_hot(relay.const([0, 1]), relay.const(1.0), relay.const(0.0), s, -1, "float32")
    ),
    "dyn.sparse_to_dense": of_sizes(
        1, lambda s: relay.sparse_to_dense(relay.const([0]), s, relay.const([1.0]), relay.const(0.0))
    ),
    "sum of dyn.broadcast_to": of_sizes(2, lambda s: relay.sum(relay.broadcast_to(ONE, s))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_size_beyond_all_memory_is_an_error_of_the_operator(name: str) -> None:
    program = PROGRAMS[name]
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1)
    count = program.params[0].type_annotation.concrete_shape[0]
    for size in (2**62, 2**63 - 1):
        with pytest.raises(VMError, match=f"{name.split()[-1]}: the sizes of the result, read from data, are negative"):
            machine.run(np.full(count, size))
    machine.run(np.full(count, 2))


@pytest.mark.parametrize("sizes", [[2**32, 2**32], [2**62, 1], [2**24, 2**24], [0, 2**62], [2**31, 2**31]])
def test_products_that_leave_64_bits_are_seen(sizes: list[int]) -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(PROGRAMS["dyn.zeros"], "llvm"), "cpu", num_threads=1)
    with pytest.raises(VMError, match="of more elements than a tensor can have"):
        machine.run(np.array(sizes))
    assert machine.run(np.array([0, LARGEST_COUNT])).shape == (0, LARGEST_COUNT)


def test_what_the_system_has_no_memory_for_says_so() -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(PROGRAMS["dyn.zeros"], "llvm"), "cpu", num_threads=1)
    with pytest.raises(VMError, match="the system has no memory for a tensor of the size"):
        machine.run(np.array([2**45, 1]))


def test_a_range_is_as_long_as_memory_at_most() -> None:
    function = scalars(lambda a, b, c: relay.arange(a, b, c, "int64"))
    machine = vmkit.VirtualMachine(vmkit.compile(function, "llvm"), "cpu", num_threads=1)
    for start, stop, step in ((0, 2**62, 1), (2**62, 0, -1), (-(2**62), 2**62, 1)):
        with pytest.raises(VMError, match="arange: the sizes of the result"):
            machine.run(*map(np.int64, (start, stop, step)))
    assert machine.run(np.int64(3), np.int64(-(2**62)), np.int64(1)).shape == (0,)


def test_one_check_serves_every_result_of_the_same_sizes() -> None:
    def chain(s: relay.Var) -> relay.Expr:
        value = relay.zeros(s, "float32")
        for _ in range(4):
            value = relay.add(relay.exp(value), value)
        return relay.reshape(value, (-1,))

    checks = vmkit.compile(of_sizes(2, chain), "llvm").info.checks
    assert len([text for text in checks.values() if "read from data" in text]) == 1


def test_a_check_in_a_branch_does_not_hold_behind_it() -> None:
    flag, sizes = relay.var("flag", shape=(), dtype="bool"), relay.var("sizes", shape=(2,), dtype="int64")
    zeros = relay.zeros(sizes, "float32")
    body = relay.If(flag, relay.sum(zeros), relay.sum(relay.exp(relay.zeros(sizes, "float32"))))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([flag, sizes], body), "llvm"), "cpu", num_threads=1)
    for branch in (True, False):
        with pytest.raises(VMError, match=r"dyn\.zeros: the sizes"):
            machine.run(np.bool_(branch), np.array([2**32, 2**32]))
        assert machine.run(np.bool_(branch), np.array([2, 2])).numpy() == (0 if branch else 4)


ATTACK = """
import numpy as np, onnx, vmkit
from onnx import TensorProto as T, helper as h
from vmkit.errors import VMKitError

def attack(op, inputs, *values, opset=21, **attrs):
    given = [h.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    graph = h.make_graph([h.make_node(op, list(inputs), ["out"], **attrs)], "g", given,
                         [h.make_tensor_value_info("out", T.INT64 if op == "Range" else T.FLOAT, None)])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    machine = vmkit.VirtualMachine(vmkit.compile(model, "llvm"), "cpu", num_threads=1)
    for size in {sizes}:
        arrays = [np.array(value if value != "size" else size, dtype) for value, dtype in values]
        arrays = [np.full(kind[1], a, a.dtype) for a, kind in zip(arrays, inputs.values())]
        try:
            result = machine.run(*arrays)
            assert min(result.shape, default=0) >= 0, (op, size, result.shape)
        except VMKitError as error:
            assert "failed:" in str(error), error
    print(op)

I, F, f = T.INT64, T.FLOAT, np.float32
attack("ConstantOfShape", dict(s=(I, [2])), ("size", int))
attack("Expand", dict(x=(F, [1]), s=(I, [2])), (1, f), ("size", int))
attack("Pad", dict(x=(F, [2]), s=(I, [2])), (1, f), ("size", int))
attack("OneHot", dict(x=(I, [2]), s=(I, [1]), v=(F, [2])), (1, int), ("size", int), (1, f))
attack("Tile", dict(x=(F, [2, 2]), s=(I, [2])), (1, f), ("size", int))
attack("Range", dict(a=(I, []), b=(I, []), c=(I, [])), (0, int), ("size", int), (1, int))
attack("DFT", dict(x=(F, [1, 4, 1]), s=(I, [])), (1, f), ("size", int), opset=17, axis=1)
attack("HannWindow", dict(s=(I, [])), ("size", int))
attack("Reshape", dict(x=(F, [4]), s=(I, [2])), (1, f), ("size", int))
attack("Col2Im", dict(x=(F, [1, 4, 4]), i=(I, [2]), k=(I, [2])), (1, f), (3, int), ("size", int))
attack("Col2Im", dict(x=(F, [1, 4, 4]), i=(I, [2]), k=(I, [2])), (1, f), ("size", int), (2, int))
attack("CenterCropPad", dict(x=(F, [2, 2]), s=(I, [2])), (1, f), ("size", int))
attack("MelWeightMatrix", dict(a=(I, []), b=(I, []), c=(I, []), d=(F, []), e=(F, [])),
       (4, int), ("size", int), (8000, int), (0, f), (4000, f))
"""


def test_no_size_in_a_model_of_onnx_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTACK.replace("{sizes}", str(HUGE))], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout.split()[-1:] + done.stderr.splitlines()[-3:]
    assert len(done.stdout.split()) == 13


def vectors(body: Callable[[list[relay.Var]], relay.Expr]) -> relay.Function:
    given = [relay.var(name, shape=(relay.Any(),)) for name in "xyz"]
    return relay.Function(given, body(given))


TOO_MANY = "the sizes of the result are negative or of more elements than a tensor can have"
IMAGES = relay.var("images", shape=(relay.Any(), 1, relay.Any(), relay.Any()))
GROWING = {
    # 2^62 elements of four bytes, or padding that no memory holds: 2^64 is 0 in 64 bits.
    "einsum": (vectors(lambda v: relay.einsum(v, "a,b,c->abc")), [1 << 22, 1 << 20, 1 << 20]),
    "meshgrid": (vectors(lambda v: relay.meshgrid(v)[0]), [1 << 22, 1 << 20, 1 << 20]),
    "nn.avg_pool2d": (
        relay.Function([IMAGES], relay.nn.avg_pool2d(IMAGES, (2, 1), strides=(2, 2), padding=(1 << 62, 0, 0, 0))),
        [(1, 1, 6, 6)],
    ),
    "tile": (relay.Function([IMAGES], relay.tile(IMAGES, (1, 1, 1 << 30, 1 << 30))), [(1, 1, 64, 64)]),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_result_larger_than_can_be_counted_is_an_error_of_the_operator(name: str) -> None:
    program, shapes = GROWING[name]
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1)
    with pytest.raises(VMError, match=f"{name}: {TOO_MANY}"):
        machine.run(*[np.ones(shape, "float32") for shape in shapes])


def test_results_of_sizes_like_those_that_are_there_are_not_checked() -> None:
    weight = relay.const(np.ones((8, 1, 3, 3), "float32"))
    value = relay.nn.conv2d(IMAGES, weight, strides=(2, 2), padding=(1, 1))
    value = relay.nn.max_pool2d(relay.nn.relu(value), (2, 2), strides=(2, 2))
    value = relay.nn.upsampling(relay.nn.pad(value, ((0, 0), (0, 0), (1, 1), (2, 2))), 2, 2)
    value = relay.concatenate([relay.tanh(value), value], 1)
    checks = vmkit.compile(relay.Function([IMAGES], value), "llvm").info.checks
    assert not [text for text in checks.values() if TOO_MANY in text]


def test_a_size_beside_one_that_may_be_0_is_checked_where_elements_grow() -> None:
    # Of images of height 0 there may be 2^60, which no memory is for.
    for dtype, count in (("float32", 0), ("float64", 1)):
        total = relay.sum(relay.cast(IMAGES, dtype), axis=(1, 2, 3))
        checks = vmkit.compile(relay.Function([IMAGES], total), "llvm").info.checks
        assert len([text for text in checks.values() if TOO_MANY in text]) == count


def test_a_size_that_stands_twice_is_checked_once_and_runs() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any(), 4))
    scores = relay.nn.softmax(relay.nn.batch_matmul(x, x))
    executable = vmkit.compile(relay.Function([x], relay.nn.relu(scores)), "llvm")
    assert len([text for text in executable.info.checks.values() if TOO_MANY in text]) == 1
    given = np.random.default_rng(0).random((2, 5, 4), "float32")
    expected = np.exp(given @ given.transpose(0, 2, 1))
    found = vmkit.VirtualMachine(executable).run(given).numpy()
    np.testing.assert_allclose(found, expected / expected.sum(-1, keepdims=True), rtol=1e-5)
