"""Dense layers with constant weights of a few bits go to kernels that read them so."""

from __future__ import annotations

from typing import Any

from ..kernels.block_quantized.ways import WAYS, way_for
from ..relay.ir import Call, Constant, Expr, Function, RelayExpr, const, is_call
from ..relay.op.nn.block_quantized import unpacked_codes
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.share_constants import SharedConstants
from ..target.processor import CACHES, Processor
from ..target.vectors import PORTABLE as PORTABLE_VECTORS
from .ops.block_quantized import BlockQuantizedProductAttrs, product_shape

__all__ = ["PackBlockQuantized"]

PORTABLE = Processor(PORTABLE_VECTORS, None, None, 1, CACHES)
_NAME = "nn.contrib_block_quantized_dense"


@relay_pass(opt_level=2)
def PackBlockQuantized(processor: Processor = PORTABLE) -> ModuleTransform:
    """Return the pass that packs constant weights of a few bits for a processor's vectors, with a bias.

    Where a layer's data may be rounded to int8 and the processor multiplies integers, they are.

    Parameters
    ----------
    processor : Processor
        Of a CPU.
    """

    def on_function(function: Function) -> Function:
        shared = SharedConstants()
        return rewrite_typed(function, lambda node: _chosen(node, processor, shared))

    return per_function(on_function)


def _chosen(node: RelayExpr, processor: Processor, shared: SharedConstants) -> RelayExpr:
    bias, result = None, node
    if is_call(node, "add") and is_call(node.args[0], _NAME) and _is_bias(node.args[1], node):
        node, bias = node.args
    if not is_call(node, _NAME) or not all(isinstance(arg, Constant) for arg in node.args[1:]):
        return result
    if node.attrs.block_size % 16 or 0 in type_of(node).shape:
        return result
    return _packed(node, bias, processor, shared)


def _is_bias(value: Expr, result: Call) -> bool:
    """Say whether what is added is a constant vector for the columns."""
    is_vector = isinstance(value, Constant) and len(type_of(value).shape) == 1
    return is_vector and type_of(value).shape[0] == type_of(result).shape[-1] and type_of(value).dtype == "float32"


def _packed(node: Call, bias: Constant | None, processor: Processor, shared: SharedConstants) -> Call:
    packed, scales, *rest = (arg.data.numpy() for arg in node.args[1:])
    zeros = rest[0] if rest else None
    old = node.attrs
    way, lanes, rows = way_for(processor, old.bits, old.rounds_data)
    attrs: dict[str, Any] = {
        "way": way.name,
        "channels": old.channels,
        "units": old.units,
        "bits": old.bits,
        "block_size": old.block_size,
        "lanes": lanes,
        "rows": rows,
        "zeros": "" if zeros is None else str(zeros.dtype),
        "has_bias": bias is not None,
    }
    s = product_shape(BlockQuantizedProductAttrs(**attrs))
    codes = unpacked_codes(packed, old.bits)
    operands = [WAYS[way.name].packed(s, codes), s.of_panels(scales)]
    added = (zeros, None if bias is None else bias.data.numpy())
    operands += [s.of_panels(each) for each in added if each is not None]
    return build(
        "nn.contrib_block_quantized_product", node.args[0], *(shared.first_of(const(v)) for v in operands), **attrs
    )
