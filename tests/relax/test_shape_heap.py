"""Sizes are numbers on a heap: what is checked is what TVM's pass checks, and equal things are computed once."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import vmkit
from vmkit import relay
from vmkit.errors import CompileError, VMError
from vmkit.relax.rewrite import bindings_of
from vmkit.relax.shape_checks import Checks
from vmkit.relax.shape_heap import lower_shapes
from vmkit.relay.op.registry import entry

Any = relay.Any


@I.ir_module(check_well_formed=False)
class Program:
    @R.function
    def main(
        k: T.int64,
        x: R.Tensor(("n", "m"), "float32"),
        t: R.Tuple(R.Tensor(("n", "a"), "float32"), R.Shape(["b"])),
        u: R.Tensor("float32"),
        s: R.Shape,
        o: R.Any,
        f: R.Callable((), R.Any),
        c: R.Tensor((), "bool"),
    ) -> R.Tensor(("n", "m"), "float32"):
        n, b, z = T.int64(), T.int64(), T.int64()
        g = R.call_packed("foo", R.shape([n, b, 3, k + 1]), ty_args=R.Tensor("float32"))
        h: R.Tensor((z, z * 2), "float32") = R.match_cast(u, R.Tensor((z, z * 2), "float32"))
        if c:
            w = R.call_packed("foo", R.shape([z + n]), g, ty_args=R.Tensor("float32"))
            r = w
        else:
            v = R.call_packed("bar", R.shape([z, n]), h, ty_args=R.Tensor("float32"))
            r = v
        p: R.Tensor((n, 7), "float32") = R.match_cast(r, R.Tensor((n, 7), "float32"))
        _ = R.call_packed("foo", o, p, ty_args=R.Tensor("float32"))
        return x


def steps(sequence: relax.SeqExpr) -> list[object]:
    """Return what calls do: the function, numbers but for places of the heap, and texts."""
    found: list[object] = []
    for binding in bindings_of(sequence):
        value = binding.value
        if isinstance(value, relax.If):
            found += [steps(value.true_branch), steps(value.false_branch)]
        elif isinstance(value, relax.Call) and isinstance(value.op, relax.ExternFunc):
            numbers = [int(a) for a in value.args if isinstance(a, tvm.tirx.IntImm)]
            texts = [a.value.partition(", annotation")[0] for a in value.args if isinstance(a, tvm.ir.StringImm)]
            codes = numbers[:1] + numbers[1::2] if "shape" in value.op.global_symbol else numbers[:1]
            found.append((value.op.global_symbol, codes, texts))
        elif isinstance(value, relax.Call):
            found.append(getattr(value.op, "name_hint", "").rstrip("0123456789"))
    return found


def test_the_checks_are_those_of_tvm() -> None:
    ours, theirs = lower_shapes()(Program), transform.VMShapeLower()(Program)
    assert steps(ours["main"].body) == steps(theirs["main"].body)
    assert {f"shape_func{k}" for k in ("", 1)} <= {gvar.name_hint for gvar in ours.get_global_vars()}


def test_a_size_that_nothing_tells_is_an_error() -> None:
    n = tvm.tirx.Var("n", "int64")
    shape = relax.ShapeExpr([n + 1])
    result = relax.Var("shape", shape.ty)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, shape)])], result)
    function = relax.Function([], vmkit._tvm.retyped(body, shape.ty), relax.ShapeType(ndim=1))
    with pytest.raises(CompileError, match="main: nothing gives the size n a value"):
        lower_shapes()(tvm.IRModule({"main": function}))


def test_computations_that_differ_in_places_are_one_function() -> None:
    x = relay.var("x", shape=(Any(), Any()))
    shapes = [relay.var(name, shape=(2,), dtype="int64") for name in "ab"]
    value = x
    for k in range(6):
        value = relay.tanh(relay.reshape(value, shapes[k % 2]))
    executable = vmkit.compile(relay.Function([x, *shapes], value), "llvm")
    assert executable.bytecode.count("shape_func") >= 6
    named = {word.split("(")[0] for word in executable.bytecode.split() if word.startswith("shape_func")}
    assert len(named) <= 3
    machine = vmkit.VirtualMachine(executable, "cpu")
    data = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    expected = data
    for _ in range(6):
        expected = np.tanh(expected)
    for a, b in (((3, 2), (6, 1)), ((1, 6), (-1, 2))):
        found = machine.run(data, np.array(a), np.array(b)).numpy()
        np.testing.assert_allclose(found, expected.reshape(b), rtol=1e-5)
    with pytest.raises(VMError, match="reshape"):
        machine.run(data, np.array([4, 2]), np.array([6, 1]))


def test_a_size_divided_by_another_that_is_none_is_divided_by_one() -> None:
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    sizes = relax.ShapeExpr([n // m, n % m])

    def of_two_kernels(x: relax.Var) -> relax.Expr:
        return relax.op.add(relax.op.broadcast_to(relax.op.sum(x), sizes), relax.op.ones(sizes, "float32"))

    # One kernel's sizes are computed by the machine, and those of several by the function that calls them.
    for make, level in ((lambda _: relax.op.zeros(sizes, "float32"), 2), (of_two_kernels, 2), (of_two_kernels, 0)):
        params = [relax.Var(name, relax.TensorType((size,), "float32")) for name, size in (("x", n), ("y", m))]
        builder = relax.BlockBuilder()
        with builder.function("main", params):
            builder.emit_func_output(builder.emit(make(params[0])))
        with vmkit.PassContext(opt_level=level):
            machine = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")
        for by, wanted in ((2, (3, 1)), (0, (7, 0))):
            assert machine.run(np.ones(7, "float32"), np.ones(by, "float32")).shape == wanted


@I.ir_module(check_well_formed=False)
class CastOfACall:
    @R.function
    def rows(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor("float32", ndim=2):
        return x

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", 3), "float32"):
        n = T.int64()
        cls = CastOfACall
        y: R.Tensor((n, 3), "float32") = R.match_cast(cls.rows(x), R.Tensor((n, 3), "float32"))
        return y


def test_a_call_that_is_cast_runs_once() -> None:
    body = lower_shapes()(CastOfACall)["main"].body
    assert steps(body).count("rows") == 1
    casts = [binding for binding in bindings_of(body) if isinstance(binding, relax.MatchCast)]
    assert [isinstance(cast.value, relax.Var) for cast in casts] == [True]


def test_checks_in_a_row_are_one_comparison_and_equal_ones_one_check() -> None:
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    x, y = relay.var("x", shape=(n, m)), relay.var("y", shape=(Any(), Any()))
    bound = entry("require").builder
    # What a message has in it is compared by the machine, and else by the function that computes sizes.
    for end, number in ((", {actual}", 1), ("", 0)):
        value = x
        for condition, message in ((n - 1, "n is 1"), (m - 2, "m is 2"), (n - 1, "n is 1")):
            value = bound(value, condition=condition, message=message + end)
        executable = vmkit.compile(relay.Function([x, y], relay.Tuple([relay.exp(value), y])), target="native")
        compared = [line for line in executable.bytecode.splitlines() if "ErrorContext(match_cast" in line]
        assert len(compared) == number
        machine = vmkit.VirtualMachine(executable)
        for shape, text in (((1, 3), "n is 1"), ((3, 2), "m is 2")):
            with pytest.raises(VMError, match=f"failed: {text}{end.format(actual=0)}$"):
                machine.run(np.zeros(shape, "float32"), np.zeros((1, 1), "float32"))
        found = machine.run(np.zeros((3, 3), "float32"), np.zeros((1, 1), "float32"))[0]
        np.testing.assert_array_equal(found.numpy(), 1)


def test_sizes_that_a_kernel_finds_are_read_where_others_are_computed() -> None:
    x, step = relay.var("x", shape=(Any(), Any())), relay.var("step", shape=(2,), dtype="int64")
    ends = [relay.const(np.array(pair, "int64")) for pair in ((1, 0), (9, 9))]
    executable = vmkit.compile(relay.Function([x, step], relay.strided_slice(x, *ends, step)), "llvm")
    assert not {"tensor_to_shape", "match_cast"} & set(re.findall(r"\w+", executable.bytecode))
    machine = vmkit.VirtualMachine(executable, "cpu")
    data = np.arange(12, dtype="float32").reshape(3, 4)
    for steps_ in ((1, 1), (2, 3)):
        expected = data[1 :: steps_[0], :: steps_[1]]
        np.testing.assert_array_equal(machine.run(data, np.array(steps_)).numpy(), expected)
    with pytest.raises(VMError, match=r"failed: strided_slice: a stride is 0$"):
        machine.run(data, np.array((0, 1)))


def test_a_loop_reads_and_checks_sizes_without_the_machine() -> None:
    """What an iteration finds wrong says the sizes of that iteration."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    loop (float[n] x, int64 count, float[2, 3] start) => (float[2, 3] result) {
        shape = Constant <value = int64[2] {2, 3}> ()
        yes = Constant <value = bool {1}> ()
        result = Loop (count, yes, start) <body = turn (int64 at, bool go, float[2, 3] sum)
            => (bool on, float[2, 3] more) {
            zero = Constant <value = int64[1] {0}> ()
            eight = Constant <value = int64 {8}> ()
            left = Sub (eight, at)
            end = Unsqueeze (left, zero)
            some = Slice (x, zero, end)
            rows = Reshape (some, shape)
            more = Add (sum, rows)
            on = Identity (go)
        }>
    }
    """
    executable = vmkit.compile(onnx.parser.parse_model(text))
    assert not {"tensor_to_shape", "match_prim_value"} & set(re.findall(r"\w+", executable.bytecode))
    machine, start = vmkit.VirtualMachine(executable), np.zeros((2, 3), "float32")
    data = np.arange(6, dtype="float32")
    for count in (0, 2, 3):
        found = machine.run(data, np.array(count), start).numpy()
        np.testing.assert_array_equal(found, count * data.reshape(2, 3))
    with pytest.raises(VMError, match="the new shape holds 6 elements, the input 5"):
        machine.run(data, np.array(4), start)


def test_casts_of_a_program_are_not_compared_with_checks() -> None:
    """What fails of several checks is told by its place, as each is a size and a number."""
    n, m, number = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64"), 7_000_000_000_001
    x = relax.Var("x", relax.TensorType([n, m], "float32"))
    builder, casts = relax.BlockBuilder(), []
    with builder.function("main", [x]):
        for given, asked in (([n, m], [2, 3]), ([n, m, n], [2, 3, 2]), ([n - 1, number], [1, number])):
            ty = relax.ShapeType(asked)
            casts.append(relax.Var("checked", ty))
            builder.emit_normalized(relax.MatchCast(casts[-1], builder.emit(relax.ShapeExpr(given)), ty))
        builder.emit_func_output(x)
    checks = Checks(builder.get()["main"].body)
    assert [cast in checks for cast in casts] == [False, False, True]
