"""Dense layers with constant weights of a few bits go to kernels that read them so."""

from __future__ import annotations

from typing import Any

from ..kernels.block_quantized.ways import way_for
from ..relay.ir import Call, Constant, Function, RelayExpr, is_call, rewrite
from ..relay.op.nn.block_quantized import unpacked_codes
from ..relay.op.registry import build
from ..relay.transform.known_type import type_of, use_counts, with_type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.share_constants import SharedConstants
from ..target.processor import CACHES, Processor
from ..target.vectors import PORTABLE as PORTABLE_VECTORS
from .ops.block_quantized import BlockQuantizedProductAttrs, product_shape

__all__ = ["PackBlockQuantized"]

PORTABLE = Processor(PORTABLE_VECTORS, None, None, 1, CACHES)
_NAME, _PACKED = "nn.contrib_block_quantized_dense", "nn.contrib_block_quantized_product"


@relay_pass(opt_level=1)
def PackBlockQuantized(processor: Processor = PORTABLE) -> ModuleTransform:
    """Return the pass that packs constant weights of a few bits for a processor's vectors, with a bias.

    Where a layer's data may be rounded to int8 and the processor multiplies integers, they are.

    Parameters
    ----------
    processor : Processor
        Of a CPU.
    """

    def on_function(function: Function) -> Function:
        shared, uses = SharedConstants(), use_counts(function)

        def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
            node = with_type_of(node, original)
            if is_call(node, "add") and uses[original.args[0]] == 1 and _takes_bias(node):
                node = _with_bias(node.args[0], node.args[1], shared)
            elif is_call(node, _NAME):
                node = _packed(node, processor, shared)
            return with_type_of(node, original)

        return rewrite(function, {}, replace)

    return per_function(on_function)


def _takes_bias(add: Call) -> bool:
    """Say whether what is added to a product is a constant vector for its columns."""
    made, value = add.args
    if not is_call(made, _PACKED) or made.attrs.has_bias or not isinstance(value, Constant):
        return False
    return str(value.data.dtype) == "float32" and tuple(value.data.shape) == (made.attrs.units,)


def _with_bias(made: Call, bias: Constant, shared: SharedConstants) -> Call:
    panels = shared.const(product_shape(made.attrs).of_panels(bias.data.numpy()))
    return build(_PACKED, *made.args, panels, **_values(made.attrs) | {"has_bias": True})


def _values(attrs: BlockQuantizedProductAttrs) -> dict[str, Any]:
    return {field.name: getattr(attrs, field.name) for field in attrs.declared}


def _packed(node: Call, processor: Processor, shared: SharedConstants) -> Call:
    """Return a layer with its weight packed, or as it is where kernels cannot take it."""
    old, (data, *operands) = node.attrs, node.args
    is_known = all(isinstance(operand, Constant) for operand in operands)
    if not is_known or old.block_size % 16 or 0 in type_of(node).shape:
        return node
    packed, scales, *zeros = (operand.data.numpy() for operand in operands)
    way, lanes, rows = way_for(processor, old.bits, old.rounds_data)
    attrs: dict[str, Any] = {
        "way": way.name,
        "channels": old.channels,
        "units": old.units,
        "bits": old.bits,
        "block_size": old.block_size,
        "lanes": lanes,
        "rows": rows,
        "zeros": str(zeros[0].dtype) if zeros else "",
    }
    s = product_shape(BlockQuantizedProductAttrs(**attrs))
    arrays = [way.packed(s, unpacked_codes(packed, old.bits)), *(s.of_panels(each) for each in (scales, *zeros))]
    return build(_PACKED, data, *(shared.const(array) for array in arrays), **attrs)
