"""Constant weights of a few bits become float32."""

from __future__ import annotations

from ..ir import Constant, Function, RelayExpr, is_call
from ..op.nn.block_quantized import dequantized, dequantized_weight
from ..op.registry import build
from .known_type import rewrite_typed
from .registry import ModuleTransform, per_function, relay_pass
from .share_constants import SharedConstants

__all__ = ["UnpackBlockQuantized"]


@relay_pass(opt_level=0)
def UnpackBlockQuantized() -> ModuleTransform:
    """Return the pass that makes constants of a few bits float32 where no kernel that reads them has taken them."""

    def on_function(function: Function) -> Function:
        shared = SharedConstants()
        return rewrite_typed(function, lambda node: _unpacked(node, shared))

    return per_function(on_function)


def _unpacked(node: RelayExpr, shared: SharedConstants) -> RelayExpr:
    if is_call(node, "nn.contrib_block_dequantize") and all(isinstance(arg, Constant) for arg in node.args):
        return shared.const(dequantized(node.attrs, *(arg.data.numpy() for arg in node.args)))
    if not is_call(node, "nn.contrib_block_quantized_dense"):
        return node
    data, *operands = node.args
    if not all(isinstance(operand, Constant) for operand in operands):
        return node
    packed, scales, *zeros = (operand.data.numpy() for operand in operands)
    weight = dequantized_weight(node.attrs, packed, scales, zeros[0] if zeros else None)
    return build("nn.dense", data, shared.const(weight), units=node.attrs.units)
