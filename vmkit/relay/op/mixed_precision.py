"""Which operators are worth computing, or can be computed, with numbers of lower precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "CONVERSIONS",
    "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW",
    "MIXED_PRECISION_NEVER",
    "register_mixed_precision_conversion",
]

# Always faster in lower precision; done in it where the operands are in it already; numerically unfit.
MIXED_PRECISION_ALWAYS = 0
MIXED_PRECISION_FOLLOW = 1
MIXED_PRECISION_NEVER = 2

# f(call, mixed_precision_type) -> [category, data type to accumulate in, data type of the result]
Conversion = Callable[[Any, str], Sequence[Any]]

_ALWAYS = """
    nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense nn.batch_matmul
"""

_FOLLOW = """
    nn.pad nn.batch_flatten concatenate zeros split squeeze transpose expand_dims reshape dyn.reshape
    broadcast_to_like dyn.broadcast_to strided_slice dyn.strided_slice take argwhere where tile dyn.tile
    scatter_elements scatter_nd full dyn.full nn.depth_to_space
    less greater less_equal greater_equal
    copy cast cast_like
    add subtract multiply divide nn.bias_add nn.batch_norm sqrt shape_of
    max min maximum minimum argmax argmin nn.relu nn.leaky_relu nn.prelu nn.dropout
    sigmoid tanh fast_tanh fast_exp fast_erf clip
    nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_max_pool2d
    nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d image.resize2d
"""

_NEVER = """
    exp power nn.cross_entropy nn.cross_entropy_with_logits nn.softmax nn.l2_normalize erf arange
    nn.global_avg_pool2d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d
    sum mean variance nn.layer_norm
"""

CONVERSIONS: dict[str, Conversion] = {}


def register_mixed_precision_conversion(op_name: str, func: Conversion | None = None, level: int = 10) -> Any:
    """Say how an operator takes part in mixed precision; may be used as a decorator.

    Parameters
    ----------
    op_name : str
        The operator.
    func : callable
        Takes a call and the lower data type, and returns the category (``MIXED_PRECISION_ALWAYS``, ``_FOLLOW`` or
        ``_NEVER``), the data type to accumulate in and that of the result.
    level : int
        Relay's priority of registrations. Here the last one counts.
    """

    def register(given: Conversion) -> Conversion:
        CONVERSIONS[op_name] = given
        return given

    return register if func is None else register(func)


def _in_category(category: int) -> Conversion:
    return lambda call, dtype: [category, dtype, dtype]


for _category, _names in (
    (MIXED_PRECISION_ALWAYS, _ALWAYS),
    (MIXED_PRECISION_FOLLOW, _FOLLOW),
    (MIXED_PRECISION_NEVER, _NEVER),
):
    for _name in _names.split():
        register_mixed_precision_conversion(_name, _in_category(_category))
