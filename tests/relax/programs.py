"""Small Relax programs, compiled, for the tests of the runtime half."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

from vmkit.values.signature import Signature, TensorSpec, TupleSpec

TARGET = "llvm"


def compiled(mod: tvm.IRModule, target: Any = TARGET) -> tvm.runtime.Module:
    """Return the runtime module of a Relax module."""
    return tvm.compile(mod, tvm.target.Target(target)).mod


def code_of(module: tvm.runtime.Module) -> bytes:
    """Return the bytecode blob of a runtime module."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "code"
        module.write_to_file(str(path), "relax.VMExecutable")
        return path.read_bytes()


def link(code: bytes, module: tvm.runtime.Module) -> tvm.runtime.Module:
    """Return `code` with the kernels of `module`."""
    linked = tvm.get_global_func("ffi.Module.load_from_bytes.relax.VMExecutable")(code)
    for library in module.imports:
        linked.import_module(library)
    return linked


@I.ir_module
class Sum:
    """``main(i, acc)`` adds i, i-1, ... 1 to acc by a call to itself in tail position."""

    @R.function
    def main(i: R.Tensor((), "int32"), acc: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int32"))
        if c:
            i2: R.Tensor((), "int32") = R.subtract(i, R.const(1, "int32"))
            a2: R.Tensor((), "int32") = R.add(acc, i)
            r: R.Tensor((), "int32") = Sum.main(i2, a2)
            out: R.Tensor((), "int32") = r
        else:
            out: R.Tensor((), "int32") = acc
        return out


@I.ir_module
class Swap:
    """``main(i, a, b)`` swaps a and b i times and returns a - b: the moves of the tail call form a cycle."""

    @R.function
    def main(i: R.Tensor((), "int32"), a: R.Tensor((), "int32"), b: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int32"))
        if c:
            i2: R.Tensor((), "int32") = R.subtract(i, R.const(1, "int32"))
            out: R.Tensor((), "int32") = Swap.main(i2, b, a)
        else:
            out: R.Tensor((), "int32") = R.subtract(a, b)
        return out


@I.ir_module
class Nested:
    """``main(i, acc)``: as Sum, the tail call two Ifs deep and adding 10 for even i."""

    @R.function
    def main(i: R.Tensor((), "int32"), acc: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int32"))
        if c:
            i2: R.Tensor((), "int32") = R.subtract(i, R.const(1, "int32"))
            half: R.Tensor((), "int32") = R.floor_divide(i, R.const(2, "int32"))
            twice: R.Tensor((), "int32") = R.multiply(half, R.const(2, "int32"))
            even: R.Tensor((), "bool") = R.equal(twice, i)
            if even:
                a2: R.Tensor((), "int32") = R.add(acc, R.const(10, "int32"))
                inner: R.Tensor((), "int32") = Nested.main(i2, a2)
            else:
                inner: R.Tensor((), "int32") = Nested.main(i2, acc)
            out: R.Tensor((), "int32") = inner
        else:
            out: R.Tensor((), "int32") = acc
        return out


@I.ir_module
class Triangle:
    """``main(i)`` is i + main(i - 1): recursion that is no tail call."""

    @R.function
    def main(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int32"))
        if c:
            i2: R.Tensor((), "int32") = R.subtract(i, R.const(1, "int32"))
            r: R.Tensor((), "int32") = Triangle.main(i2)
            out: R.Tensor((), "int32") = R.add(i, r)
        else:
            out: R.Tensor((), "int32") = i
        return out


def scalars(*names: str) -> Signature:
    """Return the signature of a function of int32 scalars."""
    return Signature("main", tuple(TensorSpec(name, "int32", ()) for name in names), (TensorSpec("", "int32", ()),))


def add_rows() -> tuple[tvm.IRModule, Signature]:
    """Return ``main(x: float32[n, m], y: float32[n]) -> float32[n]``: the row sums of x, plus y."""
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    x = relax.Var("x", relax.TensorType([n, m], "float32"))
    y = relax.Var("y", relax.TensorType([n], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(relax.op.add(builder.emit(relax.op.sum(x, axis=1)), y)))
    inputs = (TensorSpec("x", "float32", ("n", "m")), TensorSpec("y", "float32", ("n",)))
    return builder.get(), Signature("main", inputs, (TensorSpec("", "float32", ("n",)),))


def double(dtype: str = "float32", shape: tuple[int | str, ...] = (64, 64)) -> tuple[tvm.IRModule, Signature]:
    """Return ``main(x) -> x + x``."""
    symbols = {dim: tirx.Var(dim, "int64") for dim in shape if isinstance(dim, str)}
    x = relax.Var("x", relax.TensorType([symbols.get(dim, dim) for dim in shape], dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    spec = TensorSpec("x", dtype, shape)
    return builder.get(), Signature("main", (spec,), (TensorSpec("", dtype, shape),))


def identity(dtype: str, shape: tuple[int, ...]) -> tuple[tvm.IRModule, Signature]:
    """Return ``main(x) -> x``."""
    x = relax.Var("x", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    spec = TensorSpec("x", dtype, shape)
    return builder.get(), Signature("main", (spec,), (TensorSpec("", dtype, shape),))


def tuples() -> tuple[tvm.IRModule, Signature]:
    """Return ``main(t: (float32[2], (float32[2],))) -> (a + b, (a,))`` of its tuple ``(a, (b,))``."""
    tensor = relax.TensorType([2], "float32")
    t = relax.Var("t", relax.TupleType([tensor, relax.TupleType([tensor])]))
    builder = relax.BlockBuilder()
    with builder.function("main", [t]):
        a = builder.emit(relax.TupleGetItem(t, 0))
        b = builder.emit(relax.TupleGetItem(builder.emit(relax.TupleGetItem(t, 1)), 0))
        builder.emit_func_output(relax.Tuple([builder.emit(relax.op.add(a, b)), relax.Tuple([a])]))
    spec = TensorSpec("", "float32", (2,))
    inputs = (TupleSpec("t", (spec, TupleSpec("", (spec,)))),)
    return builder.get(), Signature("main", inputs, (spec, TupleSpec("", (spec,))), result_is_tuple=True)


def constant_add() -> tuple[tvm.IRModule, Signature]:
    """Return ``main(x: float32[4]) -> x + [0, 1, 2, 3]``."""
    x = relax.Var("x", relax.TensorType([4], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, relax.const(np.arange(4, dtype="float32")))))
    spec = TensorSpec("x", "float32", (4,))
    return builder.get(), Signature("main", (spec,), (TensorSpec("", "float32", (4,)),))
