"""Transposed convolutions whose windows meet at their edges become products of single positions, put in their places.

Where windows are as large as the steps between them, every number of the result comes from one position of the data: a
convolution by 1x1 computes all of a window as channels, and goes on in the order of axes that the program has.
"""

from __future__ import annotations

import numpy as np

from ..relay.ir import Constant, RelayExpr, const, is_call
from ..relay.op.nn.transposed import Transposed
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["UseDepthToSpace"]


@relay_pass(opt_level=1)
def UseDepthToSpace() -> ModuleTransform:
    """Return the pass that computes transposed convolutions of squares side by side as convolutions by 1x1."""
    return per_function(lambda function: rewrite_typed(function, _replaced))


def _replaced(node: RelayExpr) -> RelayExpr:
    if not is_call(node, "nn.conv2d_transpose") or not isinstance(node.args[1], Constant):
        return node
    geometry = Transposed.read(node.attrs)
    if geometry.groups != 1 or any((*geometry.padding, *geometry.output_padding)) or geometry.out != geometry.data:
        return node
    weight, letters = node.args[1].data, geometry.kernel.text
    if sorted(letters) != ["H", "I", "O", "W"] or sorted(geometry.data.text) != ["C", "H", "N", "W"]:
        return node
    filters = weight.numpy().transpose([letters.index(letter) for letter in "HWOI"])
    height, width, outer, inner = filters.shape
    block = geometry.strides[0]
    is_beside = geometry.strides == [height, width] and height == width > 1
    if not is_beside or 0 in (outer, inner) or str(weight.dtype) != type_of(node).dtype:
        return node
    rows = np.ascontiguousarray(filters.reshape(block * block * outer, inner, 1, 1))
    made = build(
        "nn.conv2d",
        node.args[0],
        const(rows),
        channels=block * block * outer,
        kernel_size=(1, 1),
        data_layout=geometry.data.text,
        kernel_layout="OIHW",
        out_dtype=node.attrs.out_dtype,
    )
    return build("nn.depth_to_space", made, block_size=block, layout=geometry.data.text, mode="DCR")
