"""Kernels that a program asks for again and again are made once.

TVM makes the kernel of each call, and then finds that it has it already: a millisecond or three for each operator. Here
what a kernel is made of is compared before: the function of TE that writes it, with what that has in its closure, and
its arguments, in which only the names of symbols may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import tvm
from tvm import ir, relax, tirx
from tvm.te.tag import TagScope

from ..._dataclasses import dataclass
from ..ir import dims
from ..op.attrs import Attrs

__all__ = ["RepeatedKernels", "Tell"]

Tell = Callable[[str, tirx.PrimFunc], None]

_PURE = ("vmkit", "tvm")


class _Own(Exception):
    """Something is a part of a kernel that cannot be compared."""


@dataclass(frozen=True)
class _Made:
    """A kernel, and its call with symbols of :class:`RepeatedKernels` in the places of the caller's.

    Its function is held because its key has addresses of what the function is made of.
    """

    function: Callable[..., Any]
    kernel: ir.GlobalVar
    results: tuple[relax.TensorType, ...]
    is_tuple: bool
    numbers: tuple[ir.Expr, ...]


class RepeatedKernels:
    """The kernels of a module that is being lowered.

    Parameters
    ----------
    builder : relax.BlockBuilder
        Where kernels are added, and their calls.
    tell : callable, optional
        Is told each kernel that a function of TIR writes, after its name.
    """

    def __init__(self, builder: relax.BlockBuilder, tell: Tell | None = None) -> None:
        self.builder = builder
        self._tell = tell
        self._made: dict[Hashable, _Made] = {}
        self._written: dict[Hashable, ir.GlobalVar] = {}
        self._symbols: dict[tuple[int, str], tirx.Var] = {}

    def call(self, function: Callable[..., Any], args: list[Any], name: str, pattern: int) -> relax.Call:
        """Return the call of the kernel that a function of TE writes for arguments; see :meth:`LowerContext.te`."""
        try:
            known = (_function_key(function), tuple(map(_shape_of, args)), name, pattern)
        except _Own:
            return self._new(function, args, name, pattern)
        tensors, sizes = list(_tensors(args)), list(_sizes(args))
        symbols = dims.symbols(sizes)
        canonical = {symbol: self._symbol(at, str(symbol.ty.dtype)) for at, symbol in enumerate(symbols)}
        key = (known, dims.structural_key(relax.ShapeExpr([dims.renamed(size, canonical) for size in sizes])))
        if key not in self._made:
            call = self._new(function, args, name, pattern)
            self._made[key] = _noted(function, call, len(tensors), canonical)
            return call
        made = self._made[key]
        values = {canonical[symbol]: symbol for symbol in symbols}
        types = [_renamed(ty, values) for ty in made.results]
        given = relax.Tuple([*tensors, *(dims.renamed(number, values) for number in made.numbers)])
        return relax.op.call_tir(made.kernel, given, types if made.is_tuple else types[0])

    def written(self, write: partial[tirx.PrimFunc], name: str, pattern: int) -> ir.GlobalVar:
        """Return the kernel that a function of TIR writes, which follows from what it is given alone."""
        # By their text, which tells numbers apart that are equal, such as two zeros.
        key = (write.func, repr((write.args, write.keywords)), name, pattern)
        if key not in self._written:
            kernel = write().with_attr("op_pattern", pattern)
            self._written[key] = self.builder.add_func(kernel, name)
            if self._tell is not None:
                self._tell(self._written[key].name_hint, kernel)
        return self._written[key]

    def _new(self, function: Callable[..., Any], args: list[Any], name: str, pattern: int) -> relax.Call:
        attrs = {"op_pattern": pattern}
        return self.builder.call_te(function, *args, primfunc_name_hint=name, primfunc_attrs=attrs)

    def _symbol(self, at: int, dtype: str) -> tirx.Var:
        """Return what stands for the symbol at a place among those of a call, in every call."""
        if (at, dtype) not in self._symbols:
            self._symbols[at, dtype] = tirx.Var(f"size{at}", dtype)
        return self._symbols[at, dtype]


def _noted(
    function: Callable[..., Any], call: relax.Call, tensors: int, canonical: Mapping[tirx.Var, tirx.Var]
) -> _Made:
    kernel, given = call.args[0], list(call.args[1].fields)
    (result,) = call.ty_args
    is_tuple = isinstance(result, relax.TupleType)
    types = [_renamed(ty, canonical) for ty in (result.fields if is_tuple else [result])]
    numbers = tuple(dims.renamed(number, canonical) for number in given[tensors:])
    return _Made(function, kernel, tuple(types), is_tuple, numbers)


def _renamed(ty: relax.TensorType, names: Mapping[tirx.Var, tirx.Var]) -> relax.TensorType:
    return relax.TensorType([dims.renamed(size, names) for size in ty.shape.values], ty.dtype)


# -- functions


def _function_key(function: object, within: tuple[object, ...] = ()) -> Hashable:
    """Return what functions that write the same kernel have in common.

    A function of others may do anything, such as count its calls; vmkit's and TVM's follow from what they are given
    and hold, and from the target and the options, which no lowering changes.

    Parameters
    ----------
    within : tuple
        The functions that hold this one, which may be itself.
    """
    if not isinstance(function, FunctionType) or function in within or TagScope.get_current() is not None:
        raise _Own
    if (function.__module__ or "").partition(".")[0] not in _PURE:
        raise _Own
    within = (*within, function)
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError as error:  # a cell that nothing is in yet
        raise _Own from error
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    # Equal code may stand at several places, and constants in it need only compare equal: its address tells.
    return id(function.__code__), id(function.__globals__), _keys(cells, within), _keys(defaults, within)


def _keys(values: Iterable[object], within: tuple[object, ...]) -> Hashable:
    return tuple(_key(value, within) for value in values)


def _key(value: object, within: tuple[object, ...]) -> Hashable:
    """Return what equal parts of functions have in common; numbers that only compare equal do not.

    What may change while a function runs is not compared, so that a function does nothing but write its kernel.
    """
    match value:
        case float():
            return type(value), repr(value)
        case None | bool() | int() | str():
            return type(value), value
        case tuple() | ir.Array():
            return type(value), _keys(value, within)
        case Attrs():  # by their fields: as nodes they are equal where floats are close
            return type(value), _keys((getattr(value, field.name) for field in value.declared), within)
        case TagScope():
            return TagScope, value.tag
    return _function_key(value, within)


# -- arguments


def _is_tensor(arg: object) -> bool:
    return isinstance(arg, ir.Expr) and isinstance(arg.ty, relax.TensorType)


def _is_size(arg: Any) -> bool:  # noqa: ANN401 - as TE takes them
    # What a program computes, if only a number, is a value that a kernel is given as it is given tensors.
    return ir.is_prim_expr(arg) and str(arg.ty.dtype) == "int64" and not isinstance(arg, relax.DataflowVar)


def _shape_of(arg: Any) -> Hashable:  # noqa: ANN401 - as TE takes them
    """Return an argument but for its sizes."""
    if isinstance(arg, list):
        return list, tuple(map(_shape_of, arg))
    if _is_tensor(arg):
        if not isinstance(arg.ty.shape, relax.ShapeExpr) or arg.ty.vdevice is not None:
            raise _Own
        return "tensor", str(arg.ty.dtype), len(arg.ty.shape.values)
    return "size" if _is_size(arg) else _key(arg, ())


def _tensors(args: list[Any]) -> Iterator[relax.Expr]:
    for arg in args:
        if isinstance(arg, list):
            yield from _tensors(arg)
        elif _is_tensor(arg):
            yield arg


def _sizes(args: list[Any]) -> Iterator[tvm.ir.Expr]:
    for arg in args:
        if isinstance(arg, list):
            yield from _sizes(arg)
        elif _is_tensor(arg):
            yield from arg.ty.shape.values
        elif _is_size(arg):
            yield arg
