"""Operators of Relax as Relay's, as far as both compute the same of tensors of float32."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

from tvm import ir, relax, tirx

from .._dataclasses import dataclass
from ..relay import ir as relay
from ..relay.ir import Dim, Expr
from ..relay.op.registry import build

__all__ = ["Operands", "as_relay"]

_FLOAT = "float32"
_BATCH_NORM = "relax.nn.batch_norm"

Convert: TypeAlias = "Callable[[ir.Call, list[Any]], Expr | None]"
"""Takes a call, and its tensors as Relay's, those of a tuple one by one, beside other arguments as they are."""


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
        What variables are in Relay that are made of constants alone, in whatever part.
    """

    values: dict[relax.Var, Expr] = field(default_factory=dict)
    params: dict[relax.Var, relay.Var] = field(default_factory=dict)
    fixed: dict[relax.Var, Expr] = field(default_factory=dict)

    def is_fixed(self, call: ir.Call) -> bool:
        """Say whether all tensors that a call takes are constants, or made of such."""
        return all(
            isinstance(each, ir.GenericConst) or each in self.fixed
            for each in _leaves(call.args)
            if isinstance(each.ty, relax.TensorType)
        )

    def of(self, args: Iterable[relax.Expr]) -> list[Any] | None:
        """Return what a call takes; None if something of it is none of Relay's. New parameters are entered."""
        new: dict[relax.Var, relay.Var] = {}
        found: list[Any] = []
        for each in _leaves(args):
            value = self._of(each, new) if isinstance(each.ty, relax.TensorType) else each
            if value is None:
                return None
            found.append(value)
        self.params.update(new)
        return found

    def _of(self, arg: relax.Expr, new: dict[relax.Var, relay.Var]) -> Expr | None:
        if isinstance(arg, ir.GenericConst):
            return relay.Constant(arg.value) if str(arg.ty.dtype) == _FLOAT and arg.ty.vdevice is None else None
        if not isinstance(arg, relax.Var):
            return None
        for known in (self.values, self.fixed, self.params, new):
            if arg in known:
                return known[arg]
        if not _is_known(arg.ty):
            return None
        new[arg] = relay.var(f"x{len(self.params) + len(new)}", shape=[_dim(d) for d in arg.ty.shape], dtype=_FLOAT)
        return new[arg]


def as_relay(binding: relax.Binding, operands: Operands) -> Expr | None:
    """Return what a binding's value is in Relay; None where Relay has no operator for it."""
    if not isinstance(binding, relax.VarBinding):
        return None
    value = binding.value
    if isinstance(value, relax.TupleGetItem):
        made = operands.values.get(value.tuple_value)
        return made if value.index == 0 and isinstance(value.tuple_value.ty, relax.TupleType) else None
    if not isinstance(value, ir.Call) or not isinstance(value.op, ir.Op):
        return None
    convert = CONVERTERS.get(value.op.name)
    if convert is None or not (_is_known(binding.var.ty) or value.op.name == _BATCH_NORM):
        return None
    args = operands.of(value.args)
    return None if args is None else convert(value, args)


def _leaves(args: Iterable[relax.Expr]) -> list[relax.Expr]:
    """Return what a call takes, the fields of tuples one by one."""
    return [each for arg in args for each in (arg.fields if isinstance(arg, relax.Tuple) else [arg])]


def _dim(size: ir.Expr) -> Dim:
    """Return a size, which has a name of its own if it is an expression."""
    if isinstance(size, tirx.IntImm):
        return int(size.value)
    return size if isinstance(size, tirx.Var) else tirx.Var("size", "int64")


def _is_known(ty: ir.Type) -> bool:
    """Say whether a type is one of tensors of float32 with a known shape."""
    is_tensor = isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr)
    return is_tensor and str(ty.dtype) == _FLOAT and ty.vdevice is None


# -- operators


def _same(name: str, call: ir.Call, args: list[Any]) -> Expr:
    return build(name, *args)


def _ints(values: Iterable[Any]) -> list[int]:
    return [int(v) for v in values]


def _window(call: ir.Call) -> dict[str, list[int]]:
    """Return how the windows of a convolution or a pooling lie."""
    return {name: _ints(getattr(call.attrs, name)) for name in ("strides", "padding", "dilation")}


def _convolution(name: str, call: ir.Call, args: list[Any]) -> Expr | None:
    a = call.attrs
    is_plain = a.out_dtype in (None, "", _FLOAT) and a.out_layout in ("", a.data_layout)
    if not is_plain or not isinstance(args[1], relay.Constant):
        return None
    more = {"output_padding": _ints(a.output_padding)} if "transpose" in name else {}
    return build(
        name,
        *args,
        **_window(call),
        groups=int(a.groups),
        data_layout=a.data_layout,
        kernel_layout=a.kernel_layout,
        **more,
    )


def _pooled(name: str, call: ir.Call, args: list[Any]) -> Expr | None:
    a = call.attrs
    if a.out_layout not in ("", a.layout) or (a.ceil_mode and "max" not in name):
        return None
    more = {} if "max" in name else {"count_include_pad": bool(a.count_include_pad)}
    return build(
        name,
        *args,
        pool_size=_ints(a.pool_size),
        **_window(call),
        layout=a.layout,
        ceil_mode=bool(a.ceil_mode),
        **more,
    )


def _adapted(call: ir.Call, args: list[Any]) -> Expr | None:
    a = call.attrs
    if a.out_layout not in ("", a.layout) or a.output_size is None:
        return None
    return build("nn.adaptive_avg_pool2d", *args, output_size=_ints(a.output_size), layout=a.layout)


def _normalized(call: ir.Call, args: list[Any]) -> Expr | None:
    a = call.attrs
    if a.training or not all(isinstance(each, relay.Constant) for each in args[1:5]):
        return None
    made = build(
        "nn.batch_norm", *args, axis=int(a.axis), epsilon=float(a.epsilon), center=bool(a.center), scale=bool(a.scale)
    )
    return relay.TupleGetItem(made, 0)


def _clipped(call: ir.Call, args: list[Any]) -> Expr | None:
    low, high = (each.value for each in args[1:])
    return build("clip", args[0], a_min=float(low), a_max=float(high))


def _leaking(call: ir.Call, args: list[Any]) -> Expr:
    return build("nn.leaky_relu", *args, alpha=float(call.attrs.alpha))


def _reduced(name: str, call: ir.Call, args: list[Any]) -> Expr | None:
    axis = call.attrs.axis
    return build(name, *args, axis=None if axis is None else _ints(axis), keepdims=bool(call.attrs.keepdims))


def _concatenated(call: ir.Call, args: list[Any]) -> Expr | None:
    if call.attrs.axis is None:
        return None
    return build("concatenate", relay.Tuple(args), axis=int(call.attrs.axis))


def _transposed(call: ir.Call, args: list[Any]) -> Expr:
    return build("transpose", *args, axes=None if call.attrs.axes is None else _ints(call.attrs.axes))


def _reshaped(call: ir.Call, args: list[Any]) -> Expr | None:
    data, shape = args
    if not isinstance(shape, relax.ShapeExpr):
        return None
    sizes = [int(d.value) if isinstance(d, tirx.IntImm) else -1 for d in shape.values]
    # A size that only the run knows stands for what is left: there is one, and no other size is 0.
    if sizes.count(-1) > 1 or 0 in sizes:
        return None
    return build("reshape", data, sizes)


def _silu(call: ir.Call, args: list[Any]) -> Expr:
    return build("multiply", args[0], build("sigmoid", args[0]))


_SAME = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    *("sigmoid", "tanh", "exp", "sqrt", "negative", "abs", "erf", "nn.relu"),
)
"""What both call the same."""

CONVERTERS: dict[str, Convert] = {
    **{f"relax.{name}": partial(_same, name) for name in _SAME},
    **{f"relax.nn.{name}": partial(_convolution, f"nn.{name}") for name in ("conv1d", "conv2d", "conv2d_transpose")},
    "relax.nn.max_pool2d": partial(_pooled, "nn.max_pool2d"),
    "relax.nn.avg_pool2d": partial(_pooled, "nn.avg_pool2d"),
    "relax.nn.adaptive_avg_pool2d": _adapted,
    "relax.nn.leakyrelu": _leaking,
    "relax.nn.silu": _silu,
    "relax.clip": _clipped,
    "relax.mean": partial(_reduced, "mean"),
    "relax.concat": _concatenated,
    "relax.permute_dims": _transposed,
    "relax.reshape": _reshaped,
    _BATCH_NORM: _normalized,
}
"""How calls become Relay's, by the operator."""
