"""Relay's expressions, as nodes of TVM's IR.

A ``Function`` derives from ``tvm.ir.BaseFunc`` and lives in a ``tvm.IRModule``; global variables and operators are
TVM's own ``tvm.ir.GlobalVar`` and ``tvm.ir.Op``. Structural equality ignores names, spans and inferred types, and tells
a shared expression from two that are alike (``"dag"``), which also keeps it linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

import numpy.typing as npt
import tvm
import tvm_ffi
from tvm.ir import GlobalVar, Op, Span, Type
from tvm_ffi.dataclasses import field

from ..._tvm import call_global_vars_by
from ...errors import TypeCheckError
from ...values.element_types import small_integer_bits
from ...values.tensors import as_tensor
from . import hooks
from .dtype import dtype_name, is_vector
from .lifetime import py_class
from .types import Dim, FuncType, TensorType

__all__ = [
    "Call",
    "Constant",
    "Expr",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "Op",
    "RelayExpr",
    "Tuple",
    "TupleGetItem",
    "Var",
    "const",
    "is_call",
    "var",
]


def _binary(name: str, *, swapped: bool = False) -> Callable[[Expr, RelayExpr], Call]:
    """Return a Python operator method that calls a Relay operator."""

    def method(self: Expr, other: RelayExpr) -> Call:
        if isinstance(other, int | float):
            raise TypeError(f'convert "{other}" with `relay.const` first')
        args = [other, self] if swapped else [self, other]
        return Call(Op.get(name), args)

    return method


def _found_type(node: Expr | Function) -> Type:
    if node.checked_type_ is None:
        raise ValueError("the type checker has not populated the checked_type for this node")
    return node.checked_type_


def _text_within(node: Expr | Function, _print: Callable[[Any], str]) -> str:
    return hooks.print_node(node)


_INHERITED = ("__s_equal__", "__s_hash__", "__s_visit__", "__data_to_json__", "__data_from_json__", "__ffi_repr__")


@py_class("relay.Expr", repr=False)
class Expr(tvm.ir.Expr):
    """Base of Relay's expressions.

    Arithmetic and comparison operators build calls of the Relay operators of the same meaning; ``==`` stays
    identity of nodes.
    """

    checked_type_: Any = field(default=None, structural_eq="ignore", repr=False, kw_only=True)

    # TVM asks the hook for the text of a node within one of its own, such as an array; kinds of nodes take it over.
    __ffi_inherit_type_attrs__ = _INHERITED
    __ffi_repr__ = _text_within

    @property
    def checked_type(self) -> Type:
        """The type that ``relay.transform.InferType`` found; ValueError before it ran."""
        return _found_type(self)

    def __str__(self) -> str:
        return hooks.print_node(self)

    __repr__ = __str__

    def astext(self, show_meta_data: bool = True) -> str:
        """Return the text of this expression, header and metadata included; see :func:`vmkit.relay.astext`."""
        return hooks.print_text(self, show_meta_data)

    def __call__(self, *args: Expr) -> Call:
        return Call(self, args)

    def __neg__(self) -> Call:
        return Call(Op.get("negative"), [self])

    __add__, __radd__ = _binary("add"), _binary("add", swapped=True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", swapped=True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", swapped=True)
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", swapped=True)
    __lt__, __gt__ = _binary("less"), _binary("greater")
    __le__, __ge__ = _binary("less_equal"), _binary("greater_equal")

    def astype(self, dtype: str) -> Call:
        """Return this expression cast to `dtype`."""
        return hooks.build("cast", self, dtype=dtype)

    def __getitem__(self, index: int) -> RelayExpr:
        return TupleGetItem(self, index)


@py_class("relay.Constant", init=False, repr=False)
class Constant(Expr):
    """A tensor held by the program.

    Parameters
    ----------
    data : tvm.runtime.Tensor
        The value; it is shared, not copied.
    """

    data: Any

    def __init__(self, data: tvm.runtime.Tensor, span: Span | None = None) -> None:
        self.__ffi_init__(data=data, span=span)

    @property
    def checked_type(self) -> TensorType:
        """The type of the tensor, which is known before ``relay.transform.InferType`` ran."""
        if self.checked_type_ is None:
            return TensorType(self.data.shape, str(self.data.dtype))
        return cast("TensorType", self.checked_type_)


@py_class("relay.Var", structural_eq="var", init=False, repr=False)
class Var(Expr):
    """A local variable: a function parameter or a name bound by Let.

    Parameters
    ----------
    name_hint : str
        The name; variables are told apart by identity, not by name.
    type_annotation : Type, optional
        The declared type; inferred when missing.
    """

    name_hint: str = field(structural_eq="ignore")
    type_annotation: Any = None

    def __init__(self, name_hint: str, type_annotation: Type | None = None, span: Span | None = None) -> None:
        self.__ffi_init__(name_hint=name_hint, span=span, type_annotation=type_annotation)


@py_class("relay.TupleIdentity", structural_eq="dag")
class _TupleIdentity(tvm_ffi.Object):
    """What tells a tuple that is used twice from two that are alike."""

    fields: tvm_ffi.Array


@py_class("relay.Tuple", init=False, repr=False)
class Tuple(Expr):
    """A tuple of values."""

    fields: tvm_ffi.Array = field(structural_eq="ignore")
    # Empty tuples have no identity: they are a constant, and all the same however often one is used.
    identity: Any = None

    def __init__(self, fields: Sequence[RelayExpr], span: Span | None = None) -> None:
        array = tvm_ffi.Array(list(fields))
        self.__ffi_init__(fields=array, span=span, identity=_TupleIdentity(array) if len(array) else None)

    def __getitem__(self, index: int) -> RelayExpr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


@py_class("relay.TupleGetItem", structural_eq="dag", init=False, repr=False)
class TupleGetItem(Expr):
    """One field of a tuple."""

    tuple_value: Any
    index: int

    def __init__(self, tuple_value: RelayExpr, index: int, span: Span | None = None) -> None:
        self.__ffi_init__(tuple_value=tuple_value, index=int(index), span=span)


@py_class("relay.Call", structural_eq="dag", init=False, repr=False)
class Call(Expr):
    """A call of an operator, a global function, or a function value.

    Parameters
    ----------
    op : Op, GlobalVar or Expr
        What is called.
    args : sequence of Expr
        The arguments.
    attrs : Attrs, optional
        The operator's attributes.
    type_args : sequence of Type
        Instantiations of the callee's type parameters; inferred when empty.
    """

    op: Any
    args: tvm_ffi.Array
    attrs: Any = None
    type_args: tvm_ffi.Array = field(default_factory=list, structural_eq="ignore")

    def __init__(
        self,
        op: RelayExpr,
        args: Sequence[RelayExpr],
        attrs: tvm.ir.Node | None = None,
        type_args: Sequence[Type] = (),
        span: Span | None = None,
    ) -> None:
        self.__ffi_init__(op=op, args=list(args), attrs=attrs, type_args=list(type_args or ()), span=span)


@py_class("relay.Let", structural_eq="dag", init=False, repr=False)
class Let(Expr):
    """``let variable = value; body``. The value of a function may refer to the variable: recursion."""

    var: Any = field(structural_eq="def")
    value: Any
    body: Any

    def __init__(self, variable: Var, value: RelayExpr, body: RelayExpr, span: Span | None = None) -> None:
        self.__ffi_init__(var=variable, value=value, body=body, span=span)


@py_class("relay.If", structural_eq="dag", init=False, repr=False)
class If(Expr):
    """``if (cond) { true_branch } else { false_branch }``; the condition is a boolean scalar."""

    cond: Any
    true_branch: Any
    false_branch: Any

    def __init__(
        self, cond: RelayExpr, true_branch: RelayExpr, false_branch: RelayExpr, span: Span | None = None
    ) -> None:
        self.__ffi_init__(cond=cond, true_branch=true_branch, false_branch=false_branch, span=span)


@py_class("relay.Function", structural_eq="dag", init=False, repr=False)
class Function(tvm.ir.BaseFunc):
    """A function: global when an IRModule holds it, otherwise a value (a closure).

    Parameters
    ----------
    params : sequence of Var
        The parameters.
    body : Expr
        The result.
    ret_type : Type, optional
        The declared type of the result; inferred when missing.
    type_params : sequence of TypeVar
        The type variables that the function abstracts over.
    attrs : DictAttrs or mapping, optional
        Function attributes.
    """

    params: tvm_ffi.Array = field(structural_eq="def")
    body: Any
    type_params: tvm_ffi.Array = field(structural_eq="def", default_factory=list)
    ret_type: Any = None
    checked_type_: Any = field(default=None, structural_eq="ignore", repr=False, kw_only=True)

    def __init__(
        self,
        params: Sequence[Var],
        body: RelayExpr,
        ret_type: Type | None = None,
        type_params: Sequence[Type] = (),
        attrs: Mapping[str, Any] | tvm.ir.DictAttrs | None = None,
        span: Span | None = None,
    ) -> None:
        if attrs is None or isinstance(attrs, Mapping):
            attrs = tvm.ir.make_node("ir.DictAttrs", **(attrs or {}))
        self.__ffi_init__(
            attrs=attrs,
            params=list(params),
            body=body,
            span=span,
            ret_type=ret_type,
            type_params=list(type_params or ()),
        )

    @property
    def checked_type(self) -> FuncType:
        """The type that ``relay.transform.InferType`` found; ValueError before it ran."""
        return cast("FuncType", _found_type(self))

    __ffi_repr__ = _text_within

    def __str__(self) -> str:
        return hooks.print_node(self)

    __repr__ = __str__

    def astext(self, show_meta_data: bool = True) -> str:
        """Return the text of this function, header and metadata included; see :func:`vmkit.relay.astext`."""
        return hooks.print_text(self, show_meta_data)

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)


RelayExpr: TypeAlias = Expr | Function | GlobalVar | Op
"""Whatever stands in a program: functions, global variables and operators are not below Relay's own base."""


def is_call(expr: RelayExpr | None, *names: str) -> TypeGuard[Call]:
    """Say whether an expression is a call of one of the named operators."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[Dim] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """Return a new variable.

    Parameters
    ----------
    name_hint : str
        The name.
    type_annotation : Type or str, optional
        The type; a string is the data type of a scalar.
    shape : sequence of dimensions, optional
        With `dtype`, a shorthand for a tensor type; not together with `type_annotation`.
    dtype : str
        The element type that goes with `shape`.

    Examples
    --------
    >>> from vmkit import relay
    >>> relay.var("x", shape=(1, relay.Any())).type_annotation.dtype
    'float32'
    """
    if type_annotation is not None and shape is not None:
        raise ValueError(f"variable {name_hint!r}: give either type_annotation or shape, not both")
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    return Var(name_hint, type_annotation, span)


def const(
    value: npt.ArrayLike | tvm.runtime.Tensor | Constant,
    dtype: npt.DTypeLike | TensorType | None = None,
    span: Span | None = None,
) -> Constant:
    """Return a constant.

    Parameters
    ----------
    value : bool, int, float, sequence, numpy.ndarray or tvm.runtime.Tensor
        The value. An array keeps its own data type unless `dtype` is given; Python integers become int32, floats
        float32 and booleans bool, as in Relay.
    dtype : str, numpy data type or TensorType, optional
        The data type wanted, or a type that has it.

    Raises
    ------
    TypeError
        When the value is no tensor, an integer does not fit `dtype`, or that is a type of strings or of integers of
        less than a byte.
    """
    if isinstance(value, Constant):
        return value
    if dtype is not None:
        dtype = dtype_name(dtype.dtype if isinstance(dtype, TensorType) else dtype)
        if is_vector(dtype):
            raise TypeCheckError(f"there are no constants of {dtype}, whose elements are several numbers")
    tensor = as_tensor(value, dtype)
    if small_integer_bits(str(tensor.dtype)) is not None:
        # TVM packs two such elements into a byte, numpy does not, and neither says so.
        raise TypeError(
            f"there are no constants of {tensor.dtype}; cast one of 8 bits: relay.cast(relay.const(x), "
            f'"{tensor.dtype}")'
        )
    return Constant(tensor, span)


def _called(gvar: GlobalVar, args: tuple[Any, ...]) -> Call | None:
    return Call(gvar, args) if any(isinstance(a, Expr | Function) for a in args) else None


call_global_vars_by(_called)
