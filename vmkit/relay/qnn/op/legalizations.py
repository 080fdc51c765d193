"""What quantised operators become on targets that multiply other integers, or only wider ones.

Legalizations of products ask for the target in force (``with target:``); without one they leave calls as they are. The
compiler runs none of them: what it makes of quantised products follows from the instructions of its target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from tvm.target import Target

from ....target.generic_function import generic_func
from ....target.integer_unit import integer_unit
from ...ir import Call, RelayExpr, Type, is_call
from ...op.attached import Attached, register_legalize, register_qnn_legalize
from ...op.attrs import Attrs
from .canonicalizations import create_integer_lookup_op
from .integer_products import (
    helper_change_dtypes_to_be_same,
    helper_change_dtypes_to_int8,
    helper_change_dtypes_to_uint8_int8,
    helper_no_fast_int8_hw_legalization,
)

__all__ = [
    "hardswish_func",
    "helper_change_dtypes_to_be_same",
    "helper_change_dtypes_to_int8",
    "helper_change_dtypes_to_uint8_int8",
    "helper_no_fast_int8_hw_legalization",
    "is_aarch64_arm",
    "is_fast_int8_on_arm",
    "is_fast_int8_on_intel",
    "qnn_bias_add_legalize",
    "qnn_conv2d_legalize",
    "qnn_conv2d_transpose_legalize",
    "qnn_dense_legalize",
    "register_qnn_unary_op_legalize",
]

Inputs: TypeAlias = Sequence[RelayExpr]
Types: TypeAlias = Sequence[Type]


# -- functions of one number


def hardswish_func(x: np.ndarray) -> np.ndarray:
    """Return ``x * clip(x + 3, 0, 6) / 6``."""
    return x * np.clip(x + 3.0, 0.0, 6.0) / 6.0


def register_qnn_unary_op_legalize(op_name: str, floating_point_func: Callable[[np.ndarray], np.ndarray]) -> Attached:
    """Register a quantised function of one number to be looked up in a table.

    Parameters
    ----------
    op_name : str
        An operator of data, scale, zero point, output scale and output zero point.
    floating_point_func : callable
        The function, on arrays of float32.
    """

    def legalize(attrs: Attrs | None, inputs: Inputs, types: Types) -> RelayExpr:
        data, scale, zero_point, out_scale, out_zero_point = inputs
        dtype = types[0].dtype
        return create_integer_lookup_op(
            *(data, floating_point_func, scale, zero_point, out_scale, out_zero_point), in_dtype=dtype, out_dtype=dtype
        )

    return register_qnn_legalize(op_name, legalize)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x], "float32")


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "abs": np.abs,
    "erf": _erf,
    "exp": np.exp,
    "hardswish": hardswish_func,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}

for _name, _function in _FUNCTIONS.items():
    register_qnn_unary_op_legalize(f"qnn.{_name}", _function)


# -- products


@generic_func
def qnn_conv2d_legalize(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    """Return None: for most targets a quantised convolution stays."""
    return None


@generic_func
def qnn_dense_legalize(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    """Return None: for most targets a quantised product stays."""
    return None


@generic_func
def qnn_conv2d_transpose_legalize(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    """Return a transposed convolution of int16 differences from the zero points."""
    return helper_no_fast_int8_hw_legalization(attrs, inputs, types, "nn.conv2d_transpose")


@generic_func
def qnn_bias_add_legalize(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    """Return None: for most targets a sum with a bias stays."""
    return None


register_qnn_legalize("qnn.conv2d", lambda *given: qnn_conv2d_legalize(*given))
register_qnn_legalize("qnn.conv2d_transpose", lambda *given: qnn_conv2d_transpose_legalize(*given))
register_qnn_legalize("qnn.dense", lambda *given: qnn_dense_legalize(*given))
register_legalize("nn.bias_add", lambda *given: qnn_bias_add_legalize(*given))


@register_legalize("clip")
def _clip_legalize(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    """Return a requantisation without limits after it that its data type has anyway."""
    if not is_call(inputs[0], "qnn.requantize"):
        return None
    limits = np.iinfo(types[0].dtype)
    return inputs[0] if attrs.a_min <= limits.min and attrs.a_max >= limits.max else None


def _target() -> Target:
    target = Target.current(allow_none=True)
    if target is None:
        raise ValueError("there is no target in force; ask within `with target:`")
    return target


def is_fast_int8_on_intel() -> bool:
    """Say whether the target in force has an x86 instruction that multiplies and sums up integers of 8 bits."""
    return integer_unit(_target()) is not None


def is_fast_int8_on_arm() -> bool:
    """Say whether the target in force has Arm's dot products of integers of 8 bits."""
    attrs = _target().attrs
    return bool(attrs.get("feature.has_dotprod")) or "+dotprod" in (attrs.get("mattr") or ())


def is_aarch64_arm() -> bool:
    """Say whether the target in force is a 64-bit Arm processor."""
    return "aarch64" in str(_target().attrs.get("mtriple", ""))


@qnn_conv2d_legalize.register("arm_cpu")
def _conv2d_on_arm(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    is_depthwise = attrs.groups > 1 and attrs.groups == attrs.channels
    if is_fast_int8_on_arm() or (not is_depthwise and is_aarch64_arm() and attrs.data_layout == "NHWC"):
        return helper_change_dtypes_to_be_same(attrs, inputs, types, "qnn.conv2d")
    return helper_no_fast_int8_hw_legalization(attrs, inputs, types, "nn.conv2d")


@qnn_dense_legalize.register("arm_cpu")
def _dense_on_arm(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    if is_fast_int8_on_arm():
        return helper_change_dtypes_to_be_same(attrs, inputs, types, "qnn.dense")
    return helper_no_fast_int8_hw_legalization(attrs, inputs, types, "nn.dense")


@qnn_conv2d_legalize.register("cpu")
def _conv2d_on_cpu(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    if is_fast_int8_on_intel():
        return helper_change_dtypes_to_uint8_int8(attrs, inputs, types, "qnn.conv2d")
    return helper_no_fast_int8_hw_legalization(attrs, inputs, types, "nn.conv2d")


@qnn_dense_legalize.register("cpu")
def _dense_on_cpu(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    if is_fast_int8_on_intel():
        return helper_change_dtypes_to_uint8_int8(attrs, inputs, types, "qnn.dense")
    return helper_no_fast_int8_hw_legalization(attrs, inputs, types, "nn.dense")


@qnn_conv2d_legalize.register("cuda")
def _conv2d_on_cuda(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    return helper_change_dtypes_to_int8(attrs, inputs, types, "qnn.conv2d")


@qnn_dense_legalize.register("cuda")
def _dense_on_cuda(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    return helper_change_dtypes_to_int8(attrs, inputs, types, "qnn.dense")
