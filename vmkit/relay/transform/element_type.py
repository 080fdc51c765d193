"""Types, attributes and functions with one element type in the place of another."""

from __future__ import annotations

from typing import cast

from ..expr_functor import ExprMutator
from ..ir import Call, Constant, Function, RelayExpr, TensorType, Type, Var, const
from ..op.attrs import Attrs
from ..type_functor import TypeMutator

__all__ = ["ElementTypeChange"]


class ElementTypeChange(ExprMutator):
    """Puts one element type in the place of another in a whole function: in parameters, constants and results too.

    What stands in the place of an expression has no types: ``relay.transform.InferType`` finds them.

    Parameters
    ----------
    source, target : str
        The data types.
    """

    def __init__(self, source: str, target: str) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.types = _TensorTypes(source, target)

    def type(self, ty: Type) -> Type:
        """Return a type with the other element type."""
        return self.types.visit(ty)

    def attributes(self, attrs: Attrs | None) -> Attrs | None:
        """Return attributes that name the other data type, such as ``out_dtype``, where they named the one."""
        values = {} if attrs is None else {f.name: getattr(attrs, f.name) for f in attrs.declared}
        named = {n: self.target for n, v in values.items() if isinstance(v, str) and v == self.source}
        return attrs if attrs is None or not named else type(attrs)(**{**values, **named})

    def visit_call(self, call: Call) -> RelayExpr:
        args = [self.visit(a) for a in call.args]
        return Call(self.visit(call.op), args, self.attributes(call.attrs), list(call.type_args), call.span)

    def visit_constant(self, constant: Constant) -> RelayExpr:
        is_other = constant.checked_type.dtype == self.source
        return const(constant.data.numpy().astype(self.target)) if is_other else constant

    def visit_function(self, fn: Function) -> RelayExpr:
        params = [cast("Var", self.visit(p)) for p in fn.params]
        ret_type = None if fn.ret_type is None else self.type(fn.ret_type)
        return Function(params, self.visit(fn.body), ret_type, list(fn.type_params), fn.attrs, fn.span)

    def visit_var(self, var: Var) -> RelayExpr:
        ty = None if var.type_annotation is None else self.type(var.type_annotation)
        return Var(var.name_hint, ty, var.span)


class _TensorTypes(TypeMutator):
    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def visit_tensor_type(self, ty: TensorType) -> Type:
        return TensorType(list(ty.shape), self.target) if ty.dtype == self.source else ty
