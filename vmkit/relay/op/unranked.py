"""Tensors whose rank is known only when the program runs: made of tensors, asked for it, and taken as of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, relax, te, tirx
from tvm.ir import PrimType

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.type_solver import as_unranked
from ..ir.types import TensorType, Type, UnrankedType, scalar_type
from .attrs import Attrs, Dims, Int, Str, attrs_node
from .registry import operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

# A function that gives a number is named as those of TVM's pass ComputePrimValue are: bytecode's verifier tells it so
# from kernels, which give nothing.
_COMPUTES_RANK = "compute_symbolic_expr_rank"
_RANK = 4  # what tvm_struct_get reads of a tensor: the number of its dimensions


def _require_unranked(ty: Type) -> UnrankedType:
    if not isinstance(ty, UnrankedType):
        raise TypeCheckError(f"the input must be a tensor whose rank is not known, not {ty}")
    return ty


@attrs_node("relay.attrs.UnrankedOfAttrs")
class UnrankedOfAttrs(Attrs):
    """Attributes of unranked.of: the most dimensions that the tensor may have, and what to say where it has more."""

    most: Int | None = None
    message: Str = ""


@operator("unranked.of", "data", attrs=UnrankedOfAttrs, level=10)
class UnrankedOf:
    """The input itself, as a tensor whose rank is known only when the program runs."""

    @staticmethod
    def relation(attrs: UnrankedOfAttrs, data: Type) -> Type:
        if not isinstance(data, TensorType | UnrankedType):
            raise TypeCheckError(f"data must be a tensor, not {data}")
        unranked = as_unranked(data)
        fitting = [t for t in unranked.alternatives if attrs.most is None or len(t.shape) <= attrs.most]
        if len(unranked.alternatives) > 0 and not fitting:
            raise TypeCheckError(attrs.message or f"{data} has more than {attrs.most} dimensions")
        return UnrankedType(unranked.dtype, alternatives=fitting)

    @staticmethod
    def lower(context: LowerContext, attrs: UnrankedOfAttrs, data: relax.Expr) -> relax.Expr:
        (ty,) = context.types
        assert isinstance(ty, TensorType | UnrankedType)
        most = [len(t.shape) for t in as_unranked(ty).alternatives] if attrs.most is not None else []
        if attrs.most is not None and (not most or max(most) > attrs.most):
            context.require(dims.as_expr(_rank(context, data)) <= attrs.most, attrs.message)
        # By the copy, which takes the same memory, the memory planner knows that the tensor lives on.
        return context.emit(relax.op.call_pure_packed("vm.builtin.copy", data, ty_args=[relax.AnyType()]))


@operator("unranked.rank", "data", level=10)
class UnrankedRank:
    """The number of dimensions, an int64."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        _require_unranked(data)
        return scalar_type("int64")

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        return context.te(lambda n: te.compute((), lambda: n[0], name="rank"), [_rank(context, data)])


def _rank(context: LowerContext, data: relax.Expr) -> tirx.Var:
    """Return the rank of a tensor as a symbolic integer."""
    function = context.builder.add_func(_rank_function(), _COMPUTES_RANK)
    count = context.emit(relax.Call(function, [data], ty_args=[PrimType("int64")]))
    shape = context.emit(relax.op.call_pure_packed("ffi.Shape", count, ty_args=[relax.ShapeType(ndim=1)]))
    rank = context.symbol("rank")
    context.builder.match_cast(shape, relax.ShapeType([rank]))
    return rank


def _rank_function() -> tirx.PrimFunc:
    """Return a function of the host that reads the rank of a tensor of any."""
    tensor = tirx.Var("tensor", "handle")
    where, what = tirx.IntImm("int32", 0), tirx.IntImm("int32", _RANK)
    rank = ir.Call("tirx.tvm_struct_get", [tensor, where, what], ret_ty="int32")
    made = tirx.PrimFunc([tensor], tirx.Return(rank.astype("int64")), ret_type=PrimType("int64"))
    return made.with_attr({"s_tir": True, "tirx.is_host_func": True, "tirx.is_scheduled": True})


@attrs_node("relay.attrs.UnrankedAsAttrs")
class UnrankedAsAttrs(Attrs):
    """Attributes of unranked.as: the shape, with ``Any`` for what is not known of it."""

    shape: Dims


@operator("unranked.as", "data", attrs=UnrankedAsAttrs, level=10)
class UnrankedAs:
    """The input itself, as a tensor of a rank; the run fails where it has another, or other dimensions."""

    @staticmethod
    def relation(attrs: UnrankedAsAttrs, data: Type) -> Type:
        return TensorType(list(attrs.shape), _require_unranked(data).dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: UnrankedAsAttrs, data: relax.Expr) -> relax.Expr:
        return data
