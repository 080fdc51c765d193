"""A kernel is made once for all calls that differ in the names of sizes alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import tvm
from tvm import ir, relax, te, tirx

import vmkit
from vmkit import relay
from vmkit.relay.ir import dims
from vmkit.relay.lower.repeated_kernels import RepeatedKernels
from vmkit.relay.op.attrs import Attrs, Float, Ints, attrs_node

Any = relay.Any


@pytest.fixture
def kernels() -> RepeatedKernels:
    return RepeatedKernels(relax.BlockBuilder())


def size(name: str) -> tirx.Var:
    return tirx.Var(name, "int64")


def tensor(*shape: tirx.Var | int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorType([dims.as_expr(each) for each in shape], dtype))


Function = Callable[..., te.Tensor | list[te.Tensor]]


def ours(function: Function) -> Function:
    """Return a function as one of vmkit, which writes its kernel and does nothing else."""
    function.__module__ = "vmkit.example"
    return function


def scaled(by: object) -> Function:
    return ours(lambda x: te.compute(x.shape, lambda *i: x(*i) * tirx.const(float(str(by)), x.dtype)))


def made(kernels: RepeatedKernels, function: Function, *args: object) -> ir.GlobalVar:
    return kernels.call(function, list(args), "example", 0).args[0]


@pytest.fixture
def written(kernels: RepeatedKernels, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Take note of what TVM makes a kernel of."""
    noted: list[object] = []
    call_te = kernels.builder.call_te
    monkeypatch.setattr(kernels.builder, "call_te", lambda f, *a, **k: (noted.append(f), call_te(f, *a, **k))[1])
    return noted


def test_sizes_of_other_names_are_the_same_kernel(kernels: RepeatedKernels) -> None:
    n, m = size("n"), size("m")
    first, second = (kernels.call(scaled(2), [tensor(each, 3)], "scaled", 0) for each in (n, m))
    assert first.args[0].same_as(second.args[0])
    assert [call.ty_args[0].shape.values[0].name for call in (first, second)] == ["n", "m"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tensor(size("n"), size("m")), tensor(*[size("n")] * 2)),
        (tensor(size("n"), 3), tensor(size("n"), 4)),
        (tensor(size("n")), tensor(size("n"), dtype="float64")),
    ],
)
def test_sizes_that_are_known_or_equal_make_another(kernels: RepeatedKernels, one: relax.Var, other: relax.Var) -> None:
    called = [made(kernels, scaled(2), each) for each in (one, other)]
    assert not called[0].same_as(called[1])


@attrs_node("example.attrs.EpsilonAttrs")
class EpsilonAttrs(Attrs):
    epsilon: Float = 0.0
    axes: Ints = ()


HELD = [
    (2, 3),
    (0.0, -0.0),
    (1, True),
    (1, 1.0),
    ("2", 2),
    (None, "None"),
    ((1, 2), (1, 3)),
    ((1, (2,)), (1, 2)),
    (scaled(2), scaled(3)),
    (te.tag_scope("elemwise"), te.tag_scope("injective")),
    (EpsilonAttrs(epsilon=1e-12), EpsilonAttrs(epsilon=2e-12)),
    (EpsilonAttrs(axes=(1,)), EpsilonAttrs(axes=(1, 1))),
]


@pytest.mark.parametrize(("one", "other"), HELD)
def test_what_a_function_holds_is_compared(
    kernels: RepeatedKernels, written: list[object], one: object, other: object
) -> None:
    def holding(held: object) -> Function:
        return ours(lambda x: te.compute(x.shape, lambda i: x(i) * len(str(type(held)))))

    def by_default(held: object) -> Function:
        return ours(lambda x, _held=held: te.compute(x.shape, lambda i: x(i) + 1.0))

    for function in (holding, by_default):
        for held in (one, other, one):
            made(kernels, function(held), tensor(size("n")))
    assert len(written) == 4


def test_code_that_only_compares_equal_is_another_function(kernels: RepeatedKernels, written: list[object]) -> None:
    source = "lambda x: te.compute(x.shape, lambda i: x(i) + by)"
    functions = [eval(source, {"te": te, "by": by, "__name__": "vmkit.example"}) for by in (1.0, 2.0)]
    assert functions[0].__code__ == functions[1].__code__
    kernel = [made(kernels, function, tensor(size("n"))) for function in functions]
    assert len(written) == 2 and not kernel[0].same_as(kernel[1])


def counting(calls: list[int]) -> Function:
    def function(x: te.Tensor) -> te.Tensor:
        calls.append(len(calls))
        return te.compute(x.shape, lambda i: x(i) + float(len(calls)))

    return ours(function)


COUNTED: list[int] = []


def counting_elsewhere(x: te.Tensor) -> te.Tensor:
    COUNTED.append(len(COUNTED))
    return te.compute(x.shape, lambda i: x(i) + float(len(COUNTED)))


@pytest.mark.parametrize("function", [counting([]), counting_elsewhere, ours(lambda x, f=counting_elsewhere: f(x))])
def test_a_function_that_may_change_is_called_each_time(kernels: RepeatedKernels, function: Function) -> None:
    first, second = (made(kernels, function, tensor(size("n"))) for _ in range(2))
    assert not first.same_as(second)


def test_a_function_that_calls_itself_is_called_each_time(kernels: RepeatedKernels, written: list[object]) -> None:
    def power(x: te.Tensor, exponent: int) -> te.Tensor:
        if not exponent:
            return x
        return power(te.compute(x.shape, lambda i: x(i) * x(i)), exponent - 1)

    function = ours(lambda x: ours(power)(x, 2))
    for _ in range(2):
        made(kernels, function, tensor(size("n")))
    assert len(written) == 2


def test_a_tag_around_a_call_belongs_to_its_kernel(kernels: RepeatedKernels, written: list[object]) -> None:
    made(kernels, scaled(2), tensor(size("n")))
    with te.tag_scope("elemwise"):
        made(kernels, scaled(2), tensor(size("n")))
    assert len(written) == 2


def test_sizes_of_other_types_make_another(kernels: RepeatedKernels) -> None:
    function = ours(lambda length: te.compute((4,), lambda i: length * i))
    wide, narrow = (tirx.Var("n", dtype) for dtype in ("int64", "int32"))
    calls = [kernels.call(function, [each.astype("int64") + 1], "ramp", 0) for each in (wide, narrow, narrow)]
    assert [str(call.args[1].fields[0].ty.dtype) for call in calls] == ["int64", "int32", "int32"]
    assert not calls[0].args[0].same_as(calls[1].args[0]) and calls[1].args[0].same_as(calls[2].args[0])


def test_sizes_that_no_tensor_tells_are_given(kernels: RepeatedKernels) -> None:
    def ramp(length: tirx.Expr) -> list[te.Tensor]:
        up = te.compute((length,), lambda i: i + length, name="up")
        return [up, te.compute((length,), lambda i: length - i, name="down")]

    names = [size(name) for name in "nm"]
    first, second = (kernels.call(ours(ramp), [name + 1], "ramp", 0) for name in names)
    assert first.args[0].same_as(second.args[0])
    for call, name in zip((first, second), names, strict=True):
        assert call.args[1].fields[0].same_as(name)
        assert all(dims.equal(ty.shape.values[0], name + 1) for ty in call.ty_args[0].fields)


def test_values_of_a_program_that_repeats_kernels() -> None:
    x, y = (relay.var(name, shape=(Any(), Any())) for name in "xy")
    wide, tall = relay.var("wide", shape=(2,), dtype="int64"), relay.var("tall", shape=(2,), dtype="int64")
    both = [relay.reshape(relay.clip(relay.tanh(each), -0.5, top), wide) for each, top in ((x, 0.5), (y, 0.25))]
    total = relay.add(relay.add(both[0], both[1]), relay.reshape(both[1], tall))
    vm = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": relay.Function([x, y, wide, tall], total)}), "llvm"))
    a = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    b = np.linspace(1, -1, 12, dtype="float32").reshape(6, 2)
    p, q = (np.clip(np.tanh(each), -0.5, top).reshape(1, 12) for each, top in ((a, 0.5), (b, 0.25)))
    got = vm.run(a, b, np.array([1, 12]), np.array([12, -1])).numpy()
    np.testing.assert_allclose(got, p + q + q.reshape(12, 1), rtol=1e-5, atol=1e-6)


def test_a_kernel_of_tir_is_written_once_for_equal_numbers(kernels: RepeatedKernels) -> None:
    noted: list[float] = []

    def write(by: float) -> tirx.PrimFunc:
        noted.append(by)
        x = te.placeholder((4,), "float32")
        return te.create_prim_func([x, te.compute((4,), lambda i: x[i] * tirx.const(by, "float32"))])

    again = [kernels.written(partial(write, by), "scaled", 0) for by in (2.0, 2.0, 0.0, -0.0, 2.0)]
    assert [repr(by) for by in noted] == ["2.0", "0.0", "-0.0"]
    assert again[0].same_as(again[1]) and again[0].same_as(again[4]) and not again[2].same_as(again[3])
