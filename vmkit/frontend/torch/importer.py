"""Programs of ``torch.export`` as Relax modules: read by TVM's importer, with the sizes that PyTorch knows.

TVM's importer finds the sizes of results by Relax's own rules, which lose some that PyTorch derived: the first row of
``n`` is ``min(1, n)`` rows for them, which then broadcasts against nothing. The exported program says the size of each
result, so where the two differ the result is cast to that, a check when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import tvm
from tvm import relax, tirx

from ...errors import ModelError, UnsupportedOperatorError, VMKitError
from ...relax.rewrite import with_functions
from ...relay.lower.checks import RuntimeChecks
from ...relay.lower.read_sizes import ReadSizes
from ...schedule.expressions import uses
from ..packages import needed
from .alike import are_equal, with_alike_sizes
from .arguments import WAY, Importing, Symbols, dtype_of, refused
from .arithmetic import arithmetic
from .complex_numbers import COMPLEX, Complex, as_real, complex_result, takes_complex, with_real_ends
from .conditions import with_conditions
from .decompositions import decompositions
from .effects import require_room, without_tokens
from .ends import with_flat_ends, with_tensor_ends
from .formulas import formula_of, sizes_of
from .fractions import with_fractions
from .indices import read_at
from .loops import LOOPS
from .operators import CONVERTERS, filled
from .padding import padded_with
from .parts import split
from .quantization import register_quantization
from .read_numbers import READ_NUMBERS
from .relay_operators import adaptive_averaged, averaged, pooled
from .simpler_nodes import with_simpler_nodes
from .sizes import with_plain_inputs
from .statistics import layered
from .undecomposed import UNDECOMPOSED

if TYPE_CHECKING:
    import sympy
    import torch
    from torch import fx

__all__ = ["from_exported_program", "from_pt2"]

_PARTS_OF = {"torch.complex64": "float32", "torch.complex128": "float64"}
_ASSUMED = 2  # elements along a dynamic dimension, at least


def from_pt2(path: Path) -> tvm.IRModule:
    """Return the Relax module of a file that ``torch.export.save`` wrote; see :func:`from_exported_program`."""
    load = needed("torch.export", "torch", f"{path.name}: {WAY}").load
    register_quantization()
    try:
        program = load(path)
    except Exception as error:
        raise ModelError(f"{path}: torch.export cannot load it: {error}") from error
    return from_exported_program(program)


def from_exported_program(program: torch.export.ExportedProgram) -> tvm.IRModule:
    """Return the Relax module of an exported program: its weights are constants, its dynamic dimensions symbols.

    Dimensions that the program says are equal are one symbol, and the ranges that it gives them are attributes of
    ``main``, checked when it runs, as are the other conditions on sizes that were taken for true. A result of one
    tensor is that, not a tuple. What the program writes in place are results after its own, and buffers among that also
    inputs after its own, whose first values the function ``initial_state`` gives; numbers that it takes or gives are
    tensors of no axes, and None and what else is the same at each run is left out. Complex numbers that are taken or
    given are floats, with the real part and the imaginary one on a last axis of two. Random numbers are drawn by
    another generator than PyTorch's, anew at each run.

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
    needed("torch", "torch", WAY)
    # Its base is a class of torch's importer, which imports torch.
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    class Importer(ExportedProgramImporter):
        # There is one importer of this class.
        symbols, checks, read_sizes = Symbols(), RuntimeChecks(), ReadSizes()
        loops: ClassVar[dict[tvm.ir.GlobalVar, relax.Function]] = {}

        @staticmethod
        def _has_cond_op(nodes: Iterable[fx.Node]) -> bool:
            # What branches and loops call is written outside of regions of dataflow, whose values are made but once.
            return any(getattr(each.target, "__name__", "") in {"cond", *LOOPS} for each in nodes)

        def create_input_vars(self, exported_program: torch.export.ExportedProgram) -> tuple[Any, dict[str, Any], Any]:
            weights, inputs, ranges = super().create_input_vars(exported_program)
            for name, var in weights.items():
                if name in complex_ends:
                    weights[name] = relax.Var(name, relax.TensorType([*var.ty.shape, 2], var.ty.dtype))
            allowed = {name: _allowed(name, exported_program.range_constraints, *ends) for name, ends in ranges.items()}
            return weights, {name: _as_specialized(var) for name, var in inputs.items()}, allowed

        @staticmethod
        def _convert_data_type(input_type: object, env: dict[Any, Any] | None = None) -> str:
            real = _PARTS_OF.get(str(input_type), input_type)
            return cast("str", ExportedProgramImporter._convert_data_type(real, env))

        @staticmethod
        def _convert_pytorch_tensor_to_tvm(tensor_value: torch.Tensor) -> tvm.runtime.Tensor:
            made = ExportedProgramImporter._convert_pytorch_tensor_to_tvm(as_real(tensor_value))
            return cast("tvm.runtime.Tensor", made)

        def create_convert_map(self) -> dict[str, Callable[[Any], Any]]:
            own = super().create_convert_map()
            better = {name: partial(convert, self) for name, convert in {**CONVERTERS, **UNDECOMPOSED}.items()}
            better |= {name: partial(convert, self, own[name]) for name, convert in _BESIDE_OWN.items()}
            every = dict.fromkeys(COMPLEX, _only_of_complex) | own | arithmetic(self, own) | better
            known = {name: _checked(self, convert) for name, convert in every.items()}
            of_fractions = {each.target.__name__ for each in _nodes(decomposed) if _is_of_fractions(each)}
            return dict.fromkeys(of_fractions, partial(_size_of_fractions, self)) | known

    decomposed = _decomposed(program)
    without_tokens(decomposed)
    first = with_tensor_ends(decomposed)
    complex_ends = with_real_ends(decomposed)
    importer = Importer()
    _require_known(decomposed, importer.convert_map)
    try:
        imported = importer.from_exported_program(decomposed, False, True, False, None)
    except VMKitError:
        raise
    except Exception as error:
        raise ModelError(f"{WAY} cannot be imported by TVM: {type(error).__name__}: {error}") from error
    imported = with_functions(imported, importer.loops)
    # Decomposing a program that was loaded from a file drops them.
    conditions = getattr(program, "_guards_code", ())
    module = importer.checks.noted_in(with_conditions(with_plain_inputs(imported), conditions, importer.checks))
    return _with_initial_state(module, list(map(importer._convert_pytorch_tensor_to_tvm, first)))


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program that is written by the operators that have converters; ModelError where PyTorch fails at it."""
    try:
        flat, rules = with_flat_ends(program), decompositions(CONVERTERS)
        return with_simpler_nodes(flat, rules, CONVERTERS) or flat.run_decompositions(rules)
    except Exception as error:
        # PyTorch 2.13 fails for sizes such as 8 * n in a program that was loaded from a file.
        raise ModelError(
            f"{WAY}: PyTorch cannot decompose its operators ({type(error).__name__}: {error}); if it was loaded from "
            "a file, hand in what torch.export.export returned, or save what run_decompositions() of that returns"
        ) from error


def _with_initial_state(module: tvm.IRModule, first: Sequence[tvm.runtime.Tensor]) -> tvm.IRModule:
    """Return a module with a function that gives the first values of buffers, if there are any."""
    if not first:
        return module
    builder = relax.BlockBuilder(module)
    with builder.function("initial_state"):
        builder.emit_func_output(relax.Tuple([relax.const(each) for each in first]), [])
    return builder.finalize()


def _allowed(name: str, declared: Mapping[sympy.Expr, Any], lower: int, upper: int | None) -> tuple[int, int | None]:
    """Return the least and the most that a size may be.

    PyTorch assumes 2 or more of each where it exports, and lets a program run at 0 and 1 all the same: what sizes that
    are computed from it allow.
    """
    if lower != _ASSUMED:
        return lower, upper
    computed = [(size, size.free_symbols, range_.lower) for size, range_ in declared.items() if not size.is_Symbol]
    of_it = [(size, symbol, lower) for size, (symbol, *more), lower in computed if not more and symbol.name == name]
    fits = (k for k in range(_ASSUMED) if all(size.subs(symbol, k) >= lower for size, symbol, lower in of_it))
    return next(fits, _ASSUMED), upper


def _only_of_complex(node: fx.Node) -> object:
    raise refused(node, "has a rule for complex numbers alone")


_BESIDE_OWN: dict[str, Callable[..., object]] = {
    "native_layer_norm.default": layered,
    "_adaptive_avg_pool2d.default": adaptive_averaged,
    "_adaptive_avg_pool3d.default": adaptive_averaged,
    "avg_pool2d.default": averaged,
    "avg_pool3d.default": averaged,
    "constant_pad_nd.default": padded_with,
    "full.default": filled,
    "index.Tensor": read_at,
    "max_pool2d_with_indices.default": pooled,
    "max_pool3d_with_indices.default": pooled,
    "split_with_sizes.default": split,
    **READ_NUMBERS,
}
"""The converters that leave some nodes to TVM's."""


def _as_specialized(var: relax.Var) -> relax.Var:
    """Return an input of which the dimensions that PyTorch made numbers are: TVM takes such a number for a name."""
    shape = [
        tirx.IntImm("int64", int(d.name)) if isinstance(d, tvm.ir.Var) and d.name.isdecimal() else d
        for d in var.ty.shape
    ]
    return relax.Var(var.name, relax.TensorType(shape, var.ty.dtype))


def _nodes(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Yield the calls of operators in a program, those in its branches too."""
    for module in program.graph_module.modules():
        yield from (n for n in getattr(module, "graph", program.graph).nodes if n.op == "call_function")


def _is_of_fractions(node: fx.Node) -> bool:
    """Say whether a node computes a fraction of sizes, or a size of fractions."""
    import torch

    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    is_number = isinstance(values[0], torch.SymInt | torch.SymFloat)
    return is_number and any(isinstance(value, torch.SymFloat) for value in values)


def _is_of_tensors(importer: Importing, node: fx.Node) -> bool:
    """Say whether a node computes with tensors, such as those that hold the fractions that are read."""
    given = (getattr(importer.env.get(each), "ty", None) for each in node.all_input_nodes)
    return any(isinstance(ty, relax.TensorType) for ty in given)


def _size_of_fractions(importer: Importing, node: fx.Node) -> object:
    """Return a size by PyTorch's formula of it; fractions themselves are in those formulas, and no values."""
    import torch

    return None if isinstance(node.meta["val"], torch.SymFloat) else formula_of(importer, node, node)


def _require_known(program: torch.export.ExportedProgram, known: Mapping[str, Any]) -> None:
    """Raise UnsupportedOperatorError with all operators of a program that have no converter."""
    missing: dict[str, list[str]] = {}
    for node in _nodes(program):
        if node.target.__name__ not in known:
            missing.setdefault(str(node.target), []).append(node.name)
    if missing:
        lines = [f"{target}: {len(names)} node(s), {', '.join(names[:5])}" for target, names in sorted(missing.items())]
        what = "1 operator is" if len(lines) == 1 else f"{len(lines)} operators are"
        raise UnsupportedOperatorError(
            f"{WAY}: {what} not supported by TVM's importer:\n  " + "\n  ".join(lines), lines
        )


def _checked(importer: Importing, convert: Callable[[fx.Node], object]) -> Callable[[fx.Node], object]:
    """Return a converter that says which node it fails at, and whose results have the sizes that PyTorch knows."""

    def converted(node: fx.Node) -> object:
        if _is_of_fractions(node) and not _is_of_tensors(importer, node):
            return _size_of_fractions(importer, node)
        try:
            _require_room(importer, node)
            with with_alike_sizes(importer, node), with_fractions(importer, node):
                result = complex_result(importer, convert, node) if takes_complex(node) else convert(node)
            if isinstance(result, Complex):
                sized = (_sized(importer, part, node.meta["val"]) for part in (result.real, result.imaginary))
                return Complex(*(cast("relax.Expr", part) for part in sized))
            value = node.meta.get("val")
            return result if value is None else _sized(importer, _typed(importer, node, result), value)
        except VMKitError:
            raise
        except Exception as error:
            given = ", ".join(
                str(importer.env[a].ty) for a in node.all_input_nodes if hasattr(importer.env.get(a), "ty")
            )
            raise UnsupportedOperatorError(
                f"{WAY}: TVM's importer fails at node {node.name!r} ({node.target}) of ({given}): "
                f"{type(error).__name__}: {error}",
                [str(node.target)],
            ) from error

    return converted


def _require_room(importer: Importing, node: fx.Node) -> None:
    """Check that a node's results, where the sizes of them are known by numbers that were read, can be made."""
    value = node.meta.get("val")
    for each in value if isinstance(value, tuple | list) else (value,):
        if hasattr(each, "shape"):
            shape = [d for d in sizes_of(importer, each.shape) if d is not None]
            require_room(importer, shape, dtype_of(each), node.name)


def _typed(importer: Importing, node: fx.Node, result: object) -> object:
    """Return a result in the type that PyTorch gives it; an error where only one of the two has fractions."""
    dtype = str(getattr(node.meta["val"], "dtype", "")).removeprefix("torch.")
    own = result.ty.dtype if isinstance(result, relax.Expr) and isinstance(result.ty, relax.TensorType) else None
    if own is None or not dtype or own == dtype:
        return result
    if ("float" in dtype) != ("float" in str(own)) or "complex" in dtype:
        raise refused(node, f"is computed in {own} by TVM's importer, in {dtype} by PyTorch")
    return importer.block_builder.emit(relax.op.astype(cast("relax.Expr", result), dtype))


def _sized(importer: Importing, result: object, value: object) -> object:
    """Return a result with the sizes of what PyTorch says that it is, cast to those where Relax says other ones."""
    if not isinstance(result, relax.Expr) or not isinstance(result.ty, relax.TensorType) or not hasattr(value, "shape"):
        return result
    own = result.ty.shape
    if own is not None and len(own) == len(value.shape):
        _name_computed(importer, value.shape, list(own))
    sizes = sizes_of(importer, value.shape)
    shape = [d for d in sizes if d is not None]
    if len(shape) < len(sizes) or (own is not None and are_equal(list(own), shape)):
        return result
    if own is not None and len(own) == len(shape):
        shape = [_as_check(d, size) for d, size in zip(shape, own, strict=True)]
    return importer.block_builder.match_cast(result, relax.TensorType(shape, result.ty.dtype))


def _name_computed(importer: Importing, sizes: Sequence[int | torch.SymInt], own: Sequence[tirx.Expr]) -> None:
    """Note what sizes stand for that PyTorch does not know, such as a slice's between numbers that are read.

    A symbol that is cast from a size which is computed TVM replaces by that size, but not everywhere.
    """
    known = importer.symbols.of(importer.env)
    for size, computed in zip(sizes, own, strict=True):
        name = "" if isinstance(size, int) or not size.node.expr.is_Symbol else str(size.node.expr)
        if name.startswith("u") and name not in known and not isinstance(computed, tvm.ir.Var | tirx.IntImm):
            importer.symbols.define(importer.env, name, computed)


def _as_check(size: tirx.Expr, own: tirx.Expr) -> tirx.Expr:
    """Return a size to cast another to, no bare symbol where that other one is computed from it.

    TVM puts what is cast in the place of a bare symbol, within itself without end here, and dies of that.
    """
    if not isinstance(size, tvm.ir.Var) or own.same_as(size) or not uses(own, size):
        return size
    return tirx.Max(size, tirx.IntImm(str(size.ty.dtype), 0))
