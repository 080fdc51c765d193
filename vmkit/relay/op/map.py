"""Maps: at run time, a tuple of the tensor of their keys and the tensor of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import MapType, Type
from .elementwise import require_tensor
from .registry import operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext


def _require_map(ty: Type) -> MapType:
    if not isinstance(ty, MapType):
        raise TypeCheckError(f"the input must be a map, not {ty}")
    return ty


def _part(context: LowerContext, data: relax.Expr, index: int) -> relax.Expr:
    (ty,) = context.types
    part = (ty.keys, ty.values)[index]
    read = context.pin_as(context.read_field(data, index), part)
    assert isinstance(read, relax.Expr)
    return read


@operator("map.construct", "keys", "values", level=10)
class MapConstruct:
    """The map of keys to values, or, where values are a matrix, the list of a map for each of its rows."""

    @staticmethod
    def relation(attrs: None, keys: Type, values: Type) -> Type:
        own, given = require_tensor(keys, "keys"), require_tensor(values, "values")
        if len(own.shape) != 1 or len(given.shape) not in (1, 2):
            raise TypeCheckError(f"keys must be a vector and values a vector or a matrix, not {own} and {given}")
        if not (own.dtype == "string" or own.dtype.startswith(("int", "uint"))):
            raise TypeCheckError(f"keys are integers or strings, not {own.dtype}")
        if dims.equal(own.shape[0], given.shape[-1]) is False:
            raise TypeCheckError(f"there are {own.shape[0]} keys and {given.shape[-1]} values")
        return MapType(own, given)

    @staticmethod
    def lower(context: LowerContext, attrs: None, keys: relax.Expr, values: relax.Expr) -> relax.Expr:
        count, given = context.shape(keys)[0], context.shape(values)[-1]
        context.require(dims.as_expr(count) == dims.as_expr(given), "the keys of a map are not as many as its values")
        parts = [context.emit(keys), context.emit(values)]
        return context.emit(relax.op.call_pure_packed("vm.builtin.make_tuple", *parts, ty_args=[relax.AnyType()]))


@operator("map.keys", "data", level=10)
class MapKeys:
    """The keys of a map in ascending order, or of each map of a list of them."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        return _require_map(data).keys

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        return _part(context, data, 0)


@operator("map.values", "data", level=10)
class MapValues:
    """The values of a map in the order of its keys; of a list of maps, a row for each."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        return _require_map(data).values

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        return _part(context, data, 1)
