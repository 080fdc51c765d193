"""Simulated quantisations become integers, and operators on them operators on integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import QuantizationError
from ..ir import Call, Constant, Function, RelayExpr, Tuple, const, is_call
from ..ir.lifetime import py_class
from ..op.attached import Attached, attach
from ..op.qnn.parameters import Parameter
from ..op.qnn.scaling import fixed_point_product
from ..op.registry import build
from ..transform.forward_rewrite import TempExpr, forward_rewrite
from ..transform.registry import ModuleTransform, per_function, relay_pass
from .annotation import SIMULATED
from .config import QAnnotateKind, current_qconfig
from .context import forward_op

__all__ = ["QRealizeIntExpr", "QuantizeRealize"]

_KEY = "FQRealizeRewrite"
Args = Sequence[RelayExpr]


@relay_pass(opt_level=1)
def QuantizeRealize() -> ModuleTransform:
    """Return the pass that computes with integers what simulated quantisations, with constant scales, round."""

    def change(function: Function) -> Function:
        return forward_rewrite(function, _KEY)

    return per_function(change)


@py_class("relay.quantize.QRealizeIntExpr", init=False)
class QRealizeIntExpr(TempExpr):
    """A value as integers.

    Parameters
    ----------
    data : Expr
        The integers, which may still be held as reals.
    dom_scale : Constant
        The real that one of them stands for.
    dtype : str
        The data type of `data`.
    """

    data: Any
    dom_scale: Any
    dtype: str

    def __init__(self, data: RelayExpr, dom_scale: RelayExpr, dtype: str) -> None:
        self.__ffi_init__(data=data, dom_scale=dom_scale, dtype=dtype)

    @property
    def scale(self) -> float:
        """The real that one stands for, as a number."""
        return _number(self.dom_scale)

    def cast(self, dtype: str) -> RelayExpr:
        """Return the integers in a data type."""
        return self.data if self.dtype == dtype else build("cast", self.data, dtype=dtype)

    def realize(self) -> RelayExpr:
        """Return the value in reals."""
        return build("multiply", build("cast", self.data, dtype="float32"), self.dom_scale)


def _number(value: RelayExpr) -> float:
    if not isinstance(value, Constant):
        raise QuantizationError("a simulated quantisation has no constant scale or limit; calibrate the program first")
    return float(value.data.numpy().item())


def _scalar(value: float, dtype: str) -> Constant:
    return const(np.asarray(value).astype(dtype))


def _product_of_scales(*values: QRealizeIntExpr) -> Constant:
    return const(np.float32(math.prod(np.float32(v.scale) for v in values)))


def _scaled(data: RelayExpr, factor: float, rank: int, dtype: str) -> RelayExpr:
    """Return int32 data times a factor, by fixed-point numbers, in a data type."""
    number = Parameter(const(np.float64(factor), "float64"), True)
    wide = build("cast", data, dtype="int32")
    made = fixed_point_product(wide, number, -1, rank, current_qconfig().rounding)
    return made if dtype == "int32" else build("cast", made, dtype=dtype)


def _register(op_name: str, rewrite: Callable[[Call, Args], RelayExpr | None]) -> Attached:
    def with_integers(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
        return rewrite(ref_call, new_args)

    return attach(op_name, _KEY, with_integers, 10)


def _quantize(ref_call: Call, new_args: Args) -> RelayExpr:
    data, dom_scale = new_args[:2]
    scale, low, high = (_number(a) for a in new_args[1:])
    if not isinstance(data, QRealizeIntExpr):
        integers = build("round", build("multiply", data, const(np.float32(1 / scale))))
        return QRealizeIntExpr(build("clip", integers, a_min=low, a_max=high), dom_scale, "float32")
    made = _moved(data, scale, len(ref_call.checked_type.shape))
    return QRealizeIntExpr(build("clip", made, a_min=low, a_max=high), dom_scale, data.dtype)


def _moved(value: QRealizeIntExpr, scale: float, rank: int) -> RelayExpr:
    """Return integers by another scale: shifted where the ratio is a power of two."""
    if value.scale == scale:
        return value.data
    config, bits = current_qconfig(), math.log2(scale / value.scale)
    wide = config.dtype_activation
    if bits != int(bits):
        return _scaled(value.data, value.scale / scale, rank, value.dtype)
    data = value.cast(wide)
    if bits < 0:
        data = build("left_shift", data, _scalar(-bits, wide))
    else:
        if config.round_for_shift:
            data = build("add", data, _scalar(2 ** (int(bits) - 1), wide))
        data = build("right_shift", data, _scalar(bits, wide))
    return data if value.dtype == wide else build("cast", data, dtype=value.dtype)


_register(SIMULATED, _quantize)


def _product(ref_call: Call, new_args: Args) -> RelayExpr | None:
    left, right = new_args
    if not isinstance(left, QRealizeIntExpr) or not isinstance(right, QRealizeIntExpr):
        return None
    config = current_qconfig()
    values = {f.name: getattr(ref_call.attrs, f.name) for f in ref_call.attrs.declared}
    attrs = type(ref_call.attrs)(**values | {"out_dtype": config.dtype_activation})
    made = Call(ref_call.op, [left.cast(config.dtype_input), right.cast(config.dtype_weight)], attrs)
    return QRealizeIntExpr(made, _product_of_scales(left, right), config.dtype_activation)


for _name in ("nn.conv1d", "nn.conv2d", "nn.dense", "nn.batch_matmul"):
    _register(_name, _product)


def _multiply(ref_call: Call, new_args: Args) -> RelayExpr | None:
    left, right = new_args
    if not isinstance(left, QRealizeIntExpr) or not isinstance(right, QRealizeIntExpr):
        return None
    wide = current_qconfig().dtype_activation
    made = forward_op(ref_call, [left.cast(wide), right.cast(wide)])
    return QRealizeIntExpr(made, _product_of_scales(left, right), wide)


_register("multiply", _multiply)


def _unified(old: Args, values: Sequence[QRealizeIntExpr], dtype: str) -> tuple[list[RelayExpr], Constant]:
    """Return integers in one data type by one scale, and the scale: the smallest, so that no bits are lost."""
    config = current_qconfig()
    made = []
    for ref, value in zip(old, values, strict=True):
        data = value.cast(dtype)
        is_input = is_call(ref, SIMULATED) and ref.attrs.kind == QAnnotateKind.INPUT
        if value.dtype == dtype and is_input and dtype != config.dtype_input:
            # It fits into fewer bits, and is kept in them.
            narrow = build("annotation.stop_fusion", build("cast", data, dtype=config.dtype_input))
            data = build("cast", narrow, dtype=dtype)
        made.append(data)
    scale = min(v.scale for v in values)
    ranks = [len(ref.checked_type.shape) for ref in old]
    return [_multiplied(d, v.scale / scale, r, dtype) for d, v, r in zip(made, values, ranks, strict=True)], const(
        np.float32(scale)
    )


def _multiplied(data: RelayExpr, factor: float, rank: int, dtype: str) -> RelayExpr:
    """Return integers times a factor that is at least 1."""
    if factor == 1:
        return data
    if math.log2(factor).is_integer():
        return build("left_shift", data, _scalar(math.log2(factor), dtype))
    if factor == int(factor):
        return build("multiply", data, _scalar(factor, dtype))
    return _scaled(data, factor, rank, dtype)


def _add(ref_call: Call, new_args: Args) -> RelayExpr | None:
    if not all(isinstance(a, QRealizeIntExpr) for a in new_args):
        return None
    values: Any = list(new_args)
    wide = current_qconfig().dtype_activation
    made, scale = _unified(list(ref_call.args), values, wide)
    # What is still held in reals is no part of the kernel of the sum.
    made = [
        build("annotation.stop_fusion", m) if v.dtype == "float32" else m for m, v in zip(made, values, strict=True)
    ]
    return QRealizeIntExpr(forward_op(ref_call, made), scale, wide)


_register("add", _add)


def _concatenate(ref_call: Call, new_args: Args) -> RelayExpr | None:
    fields: Any = list(new_args[0].fields) if isinstance(new_args[0], Tuple) else []
    if not fields or not all(isinstance(f, QRealizeIntExpr) for f in fields):
        return None
    config = current_qconfig()
    is_narrow = all(f.dtype == config.dtype_input for f in fields) and len({f.scale for f in fields}) == 1
    dtype = config.dtype_input if is_narrow else config.dtype_activation
    made, scale = _unified(list(ref_call.args[0].fields), fields, dtype)
    return QRealizeIntExpr(forward_op(ref_call, [Tuple(made)]), scale, dtype)


_register("concatenate", _concatenate)


def _unary(
    change: Callable[[Call, QRealizeIntExpr], tuple[RelayExpr, str]],
) -> Callable[[Call, Args], RelayExpr | None]:
    """Return a rule for integers of one scale, from what makes the result and its data type."""

    def rewrite(ref_call: Call, new_args: Args) -> RelayExpr | None:
        value = new_args[0]
        if not isinstance(value, QRealizeIntExpr):
            return None
        data, dtype = change(ref_call, value)
        return QRealizeIntExpr(data, value.dom_scale, dtype)

    return rewrite


def _clip(call: Call, value: QRealizeIntExpr) -> tuple[RelayExpr, str]:
    low, high = call.attrs.a_min / value.scale, call.attrs.a_max / value.scale
    return build("clip", value.data, a_min=low, a_max=high), value.dtype


def _as_it_is(call: Call, value: QRealizeIntExpr) -> tuple[RelayExpr, str]:
    return forward_op(call, [value.data]), value.dtype


def _narrow(call: Call, value: QRealizeIntExpr) -> tuple[RelayExpr, str]:
    dtype = current_qconfig().dtype_input
    return forward_op(call, [value.cast(dtype)]), dtype


def _wide(call: Call, value: QRealizeIntExpr) -> tuple[RelayExpr, str]:
    dtype = current_qconfig().dtype_activation
    return forward_op(call, [value.cast(dtype)]), dtype


def _cast_hint(call: Call, value: QRealizeIntExpr) -> tuple[RelayExpr, str]:
    return value.cast(call.attrs.dtype), call.attrs.dtype


for _names, _change in (
    (("clip",), _clip),
    (("nn.relu", "reshape", "strided_slice", "nn.batch_flatten", "transpose", "annotation.stop_fusion"), _as_it_is),
    (("nn.max_pool2d", "nn.max_pool1d"), _narrow),
    (("nn.avg_pool2d", "nn.global_avg_pool2d"), _wide),
    (("annotation.cast_hint",), _cast_hint),
):
    for _name in _names:
        _register(_name, _unary(_change))
