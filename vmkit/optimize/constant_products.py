"""Products with a constant weight that passes may pack: dense layers, and convolutions over channels-last data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..kernels.packed_product.encoding import Encoding
from ..kernels.packed_product.weight import PackedWeight
from ..relay.ir import Call, Expr, Op, RelayExpr
from ..relay.op.registry import entry
from ..relay.transform.share_constants import SharedConstants
from ..values.host_memory import return_free_memory
from .ops.packed_product import PackedProductAttrs, packed_weight

__all__ = ["ConstantProduct", "constant_product"]

_LARGE = 1 << 20  # bytes of a weight: what packing it has left between what stays adds up to all weights
_LAYOUTS = {("nn.conv1d", "NWC"): "OWI", ("nn.conv2d", "NHWC"): "OHWI"}


@dataclass(frozen=True)
class ConstantProduct:
    """A call, and its weight.

    Attributes
    ----------
    call : Call
        Of a dense layer, or of a convolution in one group, or in one for each channel.
    weight : array
        (units, rows, columns, channels), the channels 1 of a convolution in groups.
    window : dict
        The attributes of a window; none for a dense layer.
    """

    call: Call
    weight: np.ndarray[Any, Any]
    window: dict[str, list[int]]

    def attrs(self, encoding: Encoding, weight: np.ndarray[Any, Any] | None = None) -> dict[str, Any]:
        """Return the attributes of the product in an encoding, with its weight or another of its shape."""
        weight = self.weight if weight is None else weight
        units, *_, channels = weight.shape
        channels *= self.groups
        attrs = {"encoding": encoding.name, "channels": channels, "units": units, **self.window}
        extras = packed_weight(PackedProductAttrs(**attrs)).extras_of(weight)
        return {**attrs, "extras": extras} if extras else attrs

    @property
    def groups(self) -> int:
        """How many groups of channels there are: one, or as many as channels."""
        return int(self.call.attrs.groups) if self.window else 1

    def packed(self, encoding: Encoding, weight: np.ndarray[Any, Any] | None = None) -> PackedWeight:
        """Return how the weight, or another of its shape, is packed in an encoding."""
        return packed_weight(PackedProductAttrs(**self.attrs(encoding, weight)))

    def multiplied(
        self,
        encoding: Encoding,
        shared: SharedConstants,
        data: Expr,
        *filler: Expr,
        weight: np.ndarray[Any, Any] | None = None,
    ) -> Call:
        """Return the product in an encoding of some data, with the weight or with another of its shape.

        Equal weights are packed into one constant, which is `shared`.
        """
        weight = self.weight if weight is None else weight
        attrs = self.attrs(encoding, weight)
        packed = shared.const(packed_weight(PackedProductAttrs(**attrs)).pack(weight))
        if weight.nbytes >= _LARGE:
            return_free_memory()
        return entry("nn.contrib_packed_product").call(data, packed, *filler, **attrs)


def constant_product(
    node: RelayExpr, weight_of: Callable[[Expr], np.ndarray[Any, Any] | None], takes_depthwise: bool = False
) -> ConstantProduct | None:
    """Return a node as a product with a constant weight, None where it is none.

    Parameters
    ----------
    takes_depthwise : bool
        Whether a convolution with a group, and an output, for each channel is one.
    weight_of : callable
        Returns the numbers of an argument of a call; None where it is no constant, or none to be packed.
    """
    if not (isinstance(node, Call) and isinstance(node.op, Op) and len(node.args) == 2):
        return None
    attrs = node.attrs
    layout = _LAYOUTS.get((node.op.name, getattr(attrs, "data_layout", "")))
    if layout is None:
        weight = weight_of(node.args[1]) if node.op.name == "nn.dense" else None
        return None if weight is None else ConstantProduct(node, weight[:, None, None, :], {})
    old = attrs.kernel_layout
    if attrs.out_layout not in ("", attrs.data_layout) or sorted(old) != sorted(layout):
        return None
    if attrs.groups != 1 and not takes_depthwise:
        return None
    weight = weight_of(node.args[1])
    if weight is None:
        return None
    ordered = np.ascontiguousarray(weight.transpose([old.index(letter) for letter in layout]))
    if attrs.groups != 1 and (ordered.shape[0], ordered.shape[-1]) != (attrs.groups, 1):
        return None
    window = {name: [int(v) for v in getattr(attrs, name)] for name in ("strides", "dilation", "padding")}
    window["kernel_size"] = list(ordered.shape[1:-1])
    return ConstantProduct(node, ordered if ordered.ndim == 4 else ordered[:, None], window)
