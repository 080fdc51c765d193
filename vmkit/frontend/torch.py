"""Programs of ``torch.export`` as Relax modules: read by TVM's importer, with the sizes that PyTorch knows.

TVM's importer finds the sizes of results by Relax's own rules, which lose some that PyTorch derived: the first row of
``n`` is ``min(1, n)`` rows for them, which then broadcasts against nothing. The exported program says the size of each
result, so where the two differ the result is cast to that, a check when the program runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import tvm
from tvm import relax, tirx
from tvm.sym import Analyzer, ConstIntBound

from ..errors import ModelError, UnsupportedOperatorError, VMKitError
from ..schedule.expressions import uses
from .packages import needed
from .torch_arithmetic import arithmetic
from .torch_indices import Importing, read_at, windows_of, written_at
from .torch_sizes import with_plain_inputs

if TYPE_CHECKING:
    import sympy
    import torch
    from torch import fx

__all__ = ["from_exported_program", "from_pt2"]

_WAY = "a program of torch.export"


def from_pt2(path: Path) -> tvm.IRModule:
    """Return the Relax module of a file that ``torch.export.save`` wrote; see :func:`from_exported_program`."""
    load = needed("torch.export", "torch", f"{path.name}: {_WAY}").load
    try:
        program = load(path)
    except Exception as error:
        raise ModelError(f"{path}: torch.export cannot load it: {error}") from error
    return from_exported_program(program)


def from_exported_program(program: torch.export.ExportedProgram) -> tvm.IRModule:
    """Return the Relax module of an exported program: its weights are constants, its dynamic dimensions symbols.

    Dimensions that the program says are equal are one symbol, and the ranges that it gives them are attributes of
    ``main``, checked when it runs. A result of one tensor is that, not a tuple.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        What ``torch.export.export`` returns; it stays as it is.

    Raises
    ------
    UnsupportedOperatorError
        With all operators that TVM's importer has no converter for, or the node that it fails at.
    UnavailableError
        Where torch is not installed.
    """
    needed("torch", "torch", _WAY)
    # Its base is a class of torch's importer, which imports torch.
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    class Importer(ExportedProgramImporter):
        def create_convert_map(self) -> dict[str, Callable[[Any], Any]]:
            more = {name: partial(_extreme, self, reduced) for name, reduced in _EXTREMES.items()}
            own = super().create_convert_map()
            mended = {
                "cat.default": partial(_joined, self),
                "index.Tensor": partial(read_at, self, own["index.Tensor"]),
                "unfold.default": partial(windows_of, self),
            }
            written = {name: partial(written_at, self) for name in ("index_put.default", "index_put_.default")}
            converters = more | own | arithmetic(self, own) | mended | written
            return {name: _checked(self, convert) for name, convert in converters.items()}

    try:
        decomposed = program.run_decompositions()
    except Exception as error:
        # PyTorch 2.13 fails for sizes such as 8 * n in a program that was loaded from a file.
        raise ModelError(
            f"{_WAY}: PyTorch cannot decompose its operators ({type(error).__name__}: {error}); if it was loaded from "
            "a file, hand in what torch.export.export returned, or save what run_decompositions() of that returns"
        ) from error
    importer = Importer()
    _require_known(decomposed, importer.convert_map)
    try:
        imported = importer.from_exported_program(decomposed, False, True, False, None)
    except VMKitError:
        raise
    except Exception as error:
        raise ModelError(f"{_WAY} cannot be imported by TVM: {type(error).__name__}: {error}") from error
    return with_plain_inputs(imported)


# What TVM's importer has no converter for, although Relax has the operator.
_EXTREMES = {"amax.default": relax.op.max, "amin.default": relax.op.min}


def _extreme(importer: Importing, reduced: Callable[..., relax.Expr], node: fx.Node) -> relax.Expr:
    """Return the largest or least elements along axes, by default along all of them."""
    # The types of a graph's arguments are wider than the schema, which says a tensor, a list of integers and a flag.
    data, *options = cast("tuple[Any, ...]", node.args)
    axes = list(options[0]) if options and options[0] else None
    keepdims = bool(options[1]) if len(options) > 1 else False
    return importer.block_builder.emit(reduced(importer.env[data], axis=axes, keepdims=keepdims))


def _joined(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return tensors along an axis; PyTorch lets vectors of no elements stand among them, as caches begin with."""
    given, *axis = cast("tuple[Any, ...]", node.args)
    shapes = [list(each.meta["val"].shape) for each in given]
    is_empty = [len(shape) == 1 and isinstance(shape[0], int) and shape[0] == 0 for shape in shapes]
    kept = [each for each, empty in zip(given, is_empty, strict=True) if not empty] or given[:1]
    dtype = str(cast("Any", node.meta["val"]).dtype).removeprefix("torch.")
    parts = [importer.env[each] for each in kept]
    parts = [each if each.ty.dtype == dtype else relax.op.astype(each, dtype) for each in parts]
    joined = relax.op.concat(parts, axis[0] if axis else node.kwargs.get("dim", 0)) if len(parts) > 1 else parts[0]
    return importer.block_builder.emit(joined)


def _require_known(program: torch.export.ExportedProgram, known: Mapping[str, Any]) -> None:
    """Raise UnsupportedOperatorError with all operators of a program that have no converter."""
    missing: dict[str, list[str]] = {}
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", program.graph).nodes:
            if node.op == "call_function" and node.target.__name__ not in known:
                missing.setdefault(str(node.target), []).append(node.name)
    if missing:
        lines = [f"{target}: {len(names)} node(s), {', '.join(names[:5])}" for target, names in sorted(missing.items())]
        what = "1 operator is" if len(lines) == 1 else f"{len(lines)} operators are"
        raise UnsupportedOperatorError(
            f"{_WAY}: {what} not supported by TVM's importer:\n  " + "\n  ".join(lines), lines
        )


def _checked(importer: Importing, convert: Callable[[fx.Node], object]) -> Callable[[fx.Node], object]:
    """Return a converter that says which node it fails at, and whose results have the sizes that PyTorch knows."""

    def converted(node: fx.Node) -> object:
        try:
            result = convert(node)
            value = node.meta.get("val")
            return result if value is None else _sized(importer, _typed(importer, node, result), value)
        except VMKitError:
            raise
        except Exception as error:
            given = ", ".join(
                str(importer.env[a].ty) for a in node.all_input_nodes if hasattr(importer.env.get(a), "ty")
            )
            raise UnsupportedOperatorError(
                f"{_WAY}: TVM's importer fails at node {node.name!r} ({node.target}) of ({given}): "
                f"{type(error).__name__}: {error}",
                [str(node.target)],
            ) from error

    return converted


def _typed(importer: Importing, node: fx.Node, result: object) -> object:
    """Return a result in the type that PyTorch gives it; an error where only one of the two has fractions."""
    dtype = str(getattr(node.meta["val"], "dtype", "")).removeprefix("torch.")
    own = result.ty.dtype if isinstance(result, relax.Expr) and isinstance(result.ty, relax.TensorType) else None
    if own is None or not dtype or own == dtype:
        return result
    if ("float" in dtype) != ("float" in str(own)) or "complex" in dtype:
        raise UnsupportedOperatorError(
            f"{_WAY}: TVM's importer computes node {node.name!r} ({node.target}) in {own}, PyTorch in {dtype}",
            [str(node.target)],
        )
    return importer.block_builder.emit(relax.op.astype(cast("relax.Expr", result), dtype))


def _sized(importer: Importing, result: object, value: object) -> object:
    """Return a result with the sizes of what PyTorch says that it is, cast to those where Relax says other ones."""
    if not isinstance(result, relax.Expr) or not isinstance(result.ty, relax.TensorType) or not hasattr(value, "shape"):
        return result
    symbols = {s.name: s for v in importer.env.values() for s in _symbols(v)}
    sizes = [_dim(d, symbols) for d in value.shape]
    shape = [d for d in sizes if d is not None]
    own = result.ty.shape
    if len(shape) < len(sizes) or (own is not None and _are_equal(list(own), shape)):
        return result
    if own is not None and len(own) == len(shape):
        shape = [_as_check(d, size) for d, size in zip(shape, own, strict=True)]
    return importer.block_builder.match_cast(result, relax.TensorType(shape, result.ty.dtype))


def _as_check(size: tirx.Expr, own: tirx.Expr) -> tirx.Expr:
    """Return a size to cast another to, no bare symbol where that other one is computed from it.

    TVM puts what is cast in the place of a bare symbol, within itself without end here, and dies of that.
    """
    if not isinstance(size, tvm.ir.Var) or own.same_as(size) or not uses(own, size):
        return size
    return tirx.Max(size, tirx.IntImm(str(size.ty.dtype), 0))


def _symbols(value: object) -> list[tirx.Var]:
    ty = getattr(value, "ty", None)
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return []
    return [d for d in ty.shape if isinstance(d, tvm.ir.Var)]


def _are_equal(own: list[Any], shape: list[Any]) -> bool:
    analyzer = Analyzer()
    for size in {*shape}:
        if isinstance(size, tvm.ir.Var):
            analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))
    return len(own) == len(shape) and all(analyzer.can_prove_equal(a, b) for a, b in zip(own, shape, strict=True))


def _dim(size: int | torch.SymInt, symbols: Mapping[str, tirx.Var]) -> tirx.Expr | None:
    """Return a size of PyTorch's, an int or a formula, over Relax's symbols; None where it is of none of these."""
    if isinstance(size, int):
        return tirx.IntImm("int64", size)
    return _formula(size.node.expr, symbols)


def _formula(formula: sympy.Expr, symbols: Mapping[str, tirx.Var]) -> tirx.Expr | None:
    """Return a formula of sympy over symbols; a size that only data tells is a new one."""
    if formula.is_Integer:
        return tirx.IntImm("int64", int(formula))
    if formula.is_Symbol:
        return symbols.get(str(formula), tirx.Var(str(formula), "int64") if str(formula).startswith("u") else None)
    args = [_formula(a, symbols) for a in formula.args]
    make = _OPERATIONS.get(type(formula).__name__)
    if make is None or any(a is None for a in args):
        return None
    return make(*args)


_OPERATIONS: dict[str, Callable[..., tirx.Expr]] = {
    "Add": lambda *terms: reduce(operator.add, terms),
    "Mul": lambda *factors: reduce(operator.mul, factors),
    "FloorDiv": tirx.floordiv,
    "CleanDiv": tirx.floordiv,
    "CeilDiv": lambda a, b: tirx.floordiv(a + b - 1, b),
    "Mod": tirx.floormod,
    "PythonMod": tirx.floormod,
    "Max": lambda *values: reduce(tirx.max, values),
    "Min": lambda *values: reduce(tirx.min, values),
}
