"""``tvm.relay.op.contrib.dnnl``: what oneDNN takes, for scripts that cut programs for it.

oneDNN itself is not in TVM's wheel any more, so that such a function compiles where a code generator ``dnnl`` is
registered, as the global function ``relay.ext.dnnl`` or by ``vmkit.byoc.codegen``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from tvm.ir.op import register_op_attr

from vmkit.relay.dataflow_pattern import DFPattern, is_op, wildcard
from vmkit.relay.ir import Call, TensorType
from vmkit.relay.op.contrib import register_pattern_table
from vmkit.relay.op.contrib.register import PatternRow

__all__ = ["install_dnnl", "pattern_table"]

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.conv3d_transpose")
_AFTER = ("tanh", "sigmoid", "clip", "relu")
_NAMES = {"relu": "nn.relu"}
_ALONE = (
    *_CONVOLUTIONS,
    "abs",
    "add",
    "clip",
    "exp",
    "log",
    "multiply",
    "nn.avg_pool2d",
    "nn.avg_pool3d",
    "nn.batch_matmul",
    "nn.batch_norm",
    "nn.dense",
    "nn.global_avg_pool2d",
    "nn.layer_norm",
    "nn.leaky_relu",
    "nn.max_pool2d",
    "nn.max_pool3d",
    "nn.relu",
    "nn.softmax",
    "round",
    "sigmoid",
    "sqrt",
    "tanh",
)


@functools.cache
def install_dnnl() -> None:
    """Register what oneDNN takes under the name ``dnnl``, once: TVM takes no attribute of an operator twice."""
    for operator in _ALONE:
        register_op_attr(operator, "target.dnnl", _takes, level=15)
    register_pattern_table("dnnl", pattern_table)


def pattern_table() -> Sequence[PatternRow]:
    """Return the groups of operators that oneDNN takes as one, the longest first."""
    return list(_rows())


def _takes(call: Call) -> bool:
    types = [arg.checked_type for arg in call.args]
    has_long = any(isinstance(ty, TensorType) and ty.dtype == "int64" for ty in types)
    return not has_long and not bool(getattr(call.attrs, "ceil_mode", False))


def _rows() -> Iterator[PatternRow]:
    for has_relu in (True, False):
        name = "dnnl.conv2d_bias_sum" + ("_relu" if has_relu else "")
        total = is_op("add")(_biased("nn.conv2d"), wildcard())
        yield name, is_op("nn.relu")(total) if has_relu else total, _sums_alike
    for operator in (*_CONVOLUTIONS, "nn.dense"):
        short = operator.removeprefix("nn.")
        for has_bias in (True, False):
            made = _biased(operator) if has_bias else is_op(operator)(wildcard(), wildcard())
            stem = f"dnnl.{short}" + ("_bias" if has_bias else "")
            for after in _AFTER:
                yield f"{stem}_{after}", is_op(_NAMES.get(after, after))(made)
            if has_bias:
                yield stem, made


def _biased(operator: str) -> DFPattern:
    return is_op("add")(is_op(operator)(wildcard(), wildcard()), wildcard())


def _sums_alike(call: Call) -> bool:
    """Say whether what is added to a biased convolution is another tensor of its shape: more than a second bias."""
    total = call.args[0] if call.op.name == "nn.relu" else call
    shapes = [[str(d) for d in arg.checked_type.shape] for arg in total.args]
    return shapes[0] == shapes[1]
