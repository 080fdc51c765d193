"""Relax modules with operators that TVM has no kernel for: the error names them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relax

import vmkit
from vmkit.errors import CompileError, UnsupportedOperatorError


def module(make: Callable[..., relax.Expr], *types: tuple[tuple[object, ...], str]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{at}", relax.TensorType(shape, dtype)) for at, (shape, dtype) in enumerate(types)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    return builder.get()


@pytest.mark.parametrize(
    ("make", "dtype", "said"),
    [
        (lambda x: relax.op.power(x, x), "int32", r"relax.power of .*int32.*: power only applies to float"),
        (lambda x: relax.op.ewise_fma(x, x, x), "float32", r"relax.ewise_fma of .*: TVM has no kernel for it"),
    ],
)
def test_an_operator_without_a_kernel(make: Callable[..., relax.Expr], dtype: str, said: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=said) as raised:
        vmkit.compile(module(make, ((3,), dtype)))
    assert len(raised.value.operators) == 1


def test_operands_of_sizes_of_which_none_is_known_to_be_the_others() -> None:
    sizes = [tvm.tirx.Var(name, "int64") for name in "nm"]
    with pytest.raises(UnsupportedOperatorError, match=r"relax.add of .*\(n,\).*\(m,\).*the same symbol"):
        vmkit.compile(module(relax.op.add, *(((size,), "float32") for size in sizes)))


@pytest.mark.parametrize("make", [lambda x, i: relax.op.index_tensor(x, [i]), lambda x, i: relax.op.gather_nd(x, i)])
def test_positions_in_a_tensor_of_which_no_shape_is_known(make: Callable[..., relax.Expr]) -> None:
    params = [
        relax.Var("x", relax.TensorType(None, "float32", ndim=2)),
        relax.Var("i", relax.TensorType((3, 1), "int64")),
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    with pytest.raises(UnsupportedOperatorError, match=r"relax\.(index_tensor|gather_nd) of .*ndim=2"):
        vmkit.compile(builder.get())


def test_what_llvm_has_no_code_for() -> None:
    with pytest.raises(CompileError, match="TVM cannot compile the module"):
        vmkit.compile(module(relax.op.matmul, ((3, 3), "bool"), ((3, 3), "bool")))


def test_what_a_pass_of_the_caller_raises_is_left_alone() -> None:
    @tvm.ir.instrument.pass_instrument
    class Refusing:
        def run_before_pass(self, _module: tvm.IRModule, _info: tvm.transform.PassInfo) -> None:
            raise KeyError("no more")

    with tvm.transform.PassContext(instruments=[Refusing()]), pytest.raises(KeyError, match="no more"):
        vmkit.compile(module(relax.op.exp, ((3,), "float32")))
