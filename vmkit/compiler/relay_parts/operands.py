"""What the calls of a part read, as Relay's expressions and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from tvm import ir, relax, tirx

from ..._dataclasses import dataclass
from ...relay import ir as relay
from ...relay.ir import Dim, Expr, dims

__all__ = ["Convert", "NotOfRelayError", "Operands", "ints", "is_known", "leaves", "shape_of", "tensors_of"]

_KNOWN = frozenset({"float32", "int8", "uint8", "int32", "int64", "bool"})

Convert: TypeAlias = "Callable[[ir.Call, list[Any], Operands], Expr | None]"
"""Takes a call and its arguments: tensors as Relay's, tuples and shapes as lists, numbers as sizes or numbers."""


class NotOfRelayError(Exception):
    """An argument is none that Relay has, or a size is not known in the part."""


@dataclass
class Operands:
    """What the bindings of a part read.

    Attributes
    ----------
    values : dict
        What its own variables are in Relay.
    params : dict
        The parameters of the function that it becomes, by the variables that stand outside of it.
    fixed : dict
        What variables are in Relay that are made of constants alone, and no size, in whatever part.
    symbols : set
        The names that sizes of parameters have.
    names : dict
        The names that stand for sizes of parameters which are expressions of what is no parameter's size.
    bound : dict
        What variables of the whole function are bound to.
    """

    values: dict[relax.Var, Expr] = field(default_factory=dict)
    params: dict[relax.Var, relay.Var] = field(default_factory=dict)
    fixed: dict[relax.Var, Expr] = field(default_factory=dict)
    symbols: set[tirx.Var] = field(default_factory=set)
    names: dict[Any, tirx.Var] = field(default_factory=dict)
    bound: Mapping[relax.Var, relax.Expr] = field(default_factory=dict)

    def outside(self, param: relay.Expr) -> relax.Var | None:
        """Return the variable that stands outside of the part for a parameter of it; None of anything else."""
        return next((var for var, own in self.params.items() if own.same_as(param)), None)

    def is_fixed(self, binding: relax.Binding) -> bool:
        """Say whether a call takes constants, or what is made of such, and gives tensors of a known size."""
        given = [each for each in leaves(binding.value.args) if isinstance(each.ty, relax.TensorType)]
        sizes = [size for ty in tensors_of(binding.var.ty) for size in ty.shape]
        return all(isinstance(each, ir.GenericConst) or each in self.fixed for each in given) and all(
            isinstance(size, tirx.IntImm) for size in sizes
        )

    def of(self, args: Iterable[relax.Expr]) -> list[Any]:
        """Return what a call takes; NotOfRelayError if something of it is none of Relay's.

        What is not of the part becomes a parameter.
        """
        return [self._of(each) for each in args]

    def sizes(self, shape: Iterable[ir.Expr]) -> list[Dim]:
        """Return sizes as the part knows them; NotOfRelayError if it does not."""
        return [self._size(each) for each in shape]

    def forget(self, count: int) -> None:
        """Take back all parameters but the first ones."""
        for var in list(self.params)[count:]:
            del self.params[var]
        shapes = [param.type_annotation.shape for param in self.params.values()]
        self.symbols = {size for shape in shapes for size in shape if isinstance(size, tirx.Var)}
        self.names = {size: name for size, name in self.names.items() if name in self.symbols}

    def _of(self, arg: relax.Expr) -> Any:  # noqa: ANN401 - as Convert says
        if isinstance(arg, relax.Tuple):
            return self.of(arg.fields)
        if isinstance(arg, relax.ShapeExpr):
            return self.sizes(arg.values)
        if isinstance(arg.ty, relax.TensorType):
            return self._tensor(arg)
        if isinstance(arg, tirx.FloatImm):
            return float(arg.value)
        if isinstance(arg, ir.Expr) and isinstance(arg.ty, ir.PrimType):
            return self._size(arg)
        raise NotOfRelayError

    def _tensor(self, arg: relax.Expr) -> Expr:
        if isinstance(arg, ir.GenericConst):
            if str(arg.ty.dtype) not in _KNOWN or arg.ty.vdevice is not None:
                raise NotOfRelayError
            return relay.Constant(arg.value)
        if not isinstance(arg, relax.Var):
            raise NotOfRelayError
        for known in (self.values, self.fixed, self.params):
            if arg in known:
                return known[arg]
        if not is_known(arg.ty):
            raise NotOfRelayError
        shape = list(arg.ty.shape)
        self.symbols.update(size for size in shape if isinstance(size, tirx.Var))
        made = [self._size_or_name(size) for size in shape]
        self.params[arg] = relay.var(f"x{len(self.params)}", shape=made, dtype=str(arg.ty.dtype))
        return self.params[arg]

    def _size(self, size: ir.Expr) -> Dim:
        if isinstance(size, tirx.IntImm):
            return int(size.value)
        if self.names and (name := self.names.get(dims.structural_key(size))) is not None:
            return name
        if not all(symbol in self.symbols for symbol in dims.symbols([size])):
            raise NotOfRelayError
        return dims.canonical(size)

    def _size_or_name(self, size: ir.Expr) -> Dim:
        """Return a size of a new parameter, which has a name of its own where it is made of sizes of no parameter."""
        try:
            return self._size(size)
        except NotOfRelayError:
            name = tirx.Var("size", "int64")
            self.names[dims.structural_key(size)] = name
            self.symbols.add(name)
            return name


def ints(values: Iterable[Any]) -> list[int]:
    """Return attributes as integers of Python's."""
    return [int(v) for v in values]


def leaves(args: Iterable[relax.Expr]) -> list[relax.Expr]:
    """Return what a call takes, the fields of tuples one by one."""
    return [each for arg in args for each in (leaves(arg.fields) if isinstance(arg, relax.Tuple) else [arg])]


def tensors_of(ty: ir.Type) -> list[ir.Type]:
    """Return the type of a tensor, or those of a tuple of tensors, one by one."""
    return [each for one in ty.fields for each in tensors_of(one)] if isinstance(ty, relax.TupleType) else [ty]


def is_known(ty: ir.Type) -> bool:
    """Say whether a type is one of tensors that Relay has too, with a known shape; or a tuple of such."""
    return all(
        isinstance(each, relax.TensorType)
        and isinstance(each.shape, relax.ShapeExpr)
        and str(each.dtype) in _KNOWN
        and each.vdevice is None
        for each in tensors_of(ty)
    )


def shape_of(value: relax.Expr) -> list[ir.Expr]:
    """Return the sizes of a tensor whose shape is known; NotOfRelayError of another one."""
    if not is_known(value.ty) or not isinstance(value.ty, relax.TensorType):
        raise NotOfRelayError
    return list(value.ty.shape)
