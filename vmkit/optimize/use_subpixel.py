"""Transposed convolutions become plain ones, one or several, whose results are put in their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tvm

from ..relay.ir import Call, Constant, Dim, Expr, RelayExpr, Tuple, const, is_call
from ..relay.op.nn.layout import SPATIAL
from ..relay.op.nn.transposed import Transposed
from ..relay.op.registry import build, entry
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .subpixel import Part, Plan, TransposedAxis, plan_phases

__all__ = ["UseSubpixel"]

Filters: TypeAlias = np.ndarray | Expr
"""A weight: an array, where it is a constant."""

_RANKS = {f"nn.conv{rank}d_transpose": rank for rank in SPATIAL}


@relay_pass(opt_level=1)
def UseSubpixel(lanes: int = 16) -> ModuleTransform:
    """Return the pass that computes transposed convolutions as plain ones over channels-last data.

    The plain ones have stride 1 and no zeros between their data; :mod:`.subpixel` says which they are. Results are
    those of the transposed convolution, up to the order of sums.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has.
    """
    return per_function(lambda function: rewrite_typed(function, lambda node: _replaced(node, lanes)))


def _replaced(node: RelayExpr, lanes: int) -> RelayExpr:
    if not is_call(node, *_RANKS):
        return node
    geometry = Transposed.read(node.attrs)
    data, weight = node.args
    shapes = geometry.shapes(type_of(data).shape, type_of(weight).shape)
    sizes = [d for d in (shapes.first, shapes.second, *shapes.kernel) if isinstance(d, int)]
    if len(sizes) != 2 + len(shapes.kernel) or 0 in sizes:
        return node
    inputs, outputs, *kernel = sizes
    axes = _axes(geometry, kernel, shapes.sizes)
    is_depthwise = geometry.groups == inputs and outputs == 1
    plan = plan_phases(axes, outputs, is_depthwise and geometry.groups > 1, lanes)
    if not _fits(plan):
        return node
    last = f"N{geometry.spatial}C"
    source = data if geometry.data.text == last else build("layout_transform", data, geometry.data.text, last)
    filters = _filters(weight, geometry)
    results = [
        _convolution(node, geometry, source, _gathered(filters, sizes, geometry.groups, parts), parts, lanes)
        for parts in plan.convolutions
    ]
    result = _interleaved(geometry, plan, results)
    return result if geometry.out.text == last else build("layout_transform", result, last, geometry.out.text)


def _axes(geometry: Transposed, kernel: list[int], sizes: Sequence[Dim]) -> list[TransposedAxis]:
    rank = len(kernel)
    axes = []
    for i, (size, window) in enumerate(zip(kernel, geometry.windows(kernel), strict=True)):
        stride, before = geometry.strides[i], geometry.padding[i]
        grown = window + geometry.output_padding[i] - stride - before - geometry.padding[rank + i]
        data = sizes[i]
        known = data if isinstance(data, int) else None
        axes.append(TransposedAxis(size, stride, geometry.dilation[i], before, grown, known))
    return axes


def _fits(plan: Plan) -> bool:
    """Say whether there is a result, and all windows fit on the data; where a size is not known, for all but 0."""
    for axis, phases in zip(plan.sources, plan.axes, strict=True):
        size = 1 if axis.size is None else axis.size
        if size < 1 or size * axis.stride + axis.grown < 0 or any(size + part.grown < 0 for part in phases.parts):
            return False
    return True


def _filters(weight: Expr, geometry: Transposed) -> Filters:
    """Return a weight with its axes in the order of the geometry's filters, as an array where it is a constant."""
    have = geometry.kernel
    if isinstance(weight, Constant) and have.text == have.letters:
        array = weight.data.numpy()
        return array.transpose([have.letters.index(letter) for letter in geometry.filters])
    return weight if have.text == geometry.filters else build("layout_transform", weight, have.text, geometry.filters)


def _gathered(filters: Filters, sizes: list[int], groups: int, parts: tuple[Part, ...]) -> Filters:
    """Return the weight of a plain convolution: the spatial axes, then the input channels, then the outputs.

    Of `filters` with axes of these `sizes`, each output channel takes the kernel's numbers that its phase meets.
    """
    inputs, outputs, *kernel = sizes
    rank, lasts = len(kernel), [(0, 0), (0, 0), *[(0, 1)] * len(kernel)]
    value = np.pad(filters, lasts) if isinstance(filters, np.ndarray) else build("nn.pad", filters, pad_width=lasts)
    for i, part in enumerate(parts):
        value = _take(value, np.array(part.taps, "int64"), 2 + 2 * i)
    phases, windows = [len(part.taps) for part in parts], [part.window for part in parts]
    pairs = [size for pair in zip(phases, windows, strict=True) for size in pair]
    apart = _reshape(value, [groups, inputs // groups, outputs, *pairs])
    order = [*range(4, 4 + 2 * rank, 2), 1, 0, *range(3, 3 + 2 * rank, 2), 2]
    return _reshape(_transpose(apart, order), [*windows, inputs // groups, -1])


def _take(value: Filters, index: np.ndarray, axis: int) -> Filters:
    if isinstance(value, np.ndarray):
        return np.take(value, index, axis)
    return build("take", value, const(index), axis=axis)


def _reshape(value: Filters, shape: list[int]) -> Filters:
    return value.reshape(shape) if isinstance(value, np.ndarray) else build("reshape", value, newshape=shape)


def _transpose(value: Filters, axes: list[int]) -> Filters:
    return value.transpose(axes) if isinstance(value, np.ndarray) else build("transpose", value, axes=axes)


def _convolution(
    call: Call, geometry: Transposed, source: Expr, weight: Filters, parts: tuple[Part, ...], lanes: int
) -> Expr:
    rank = len(parts)
    *window, inner, outer = weight.shape if isinstance(weight, np.ndarray) else type_of(weight).shape
    layout = f"{geometry.spatial}IO"
    if geometry.groups > 1 and inner == 1:
        # The order of a depthwise convolution's.
        layout = f"{geometry.spatial}OI"
        weight = _reshape(weight, [*window, outer, inner])
    if isinstance(weight, np.ndarray):
        weight = Constant(tvm.runtime.tensor(np.ascontiguousarray(weight)))
    elif layout.endswith("IO") and type_of(weight).dtype.startswith("float"):
        # Constants are packed later, in ways that depend on more; what is computed is written packed at once.
        block = next((b for b in (2 * lanes, lanes, lanes // 2) if outer // geometry.groups % b == 0), None)
        if block is not None:
            packed = f"O{geometry.spatial}I{block}o"
            weight, layout = build("layout_transform", weight, layout, packed), packed
    return build(
        f"nn.conv{rank}d",
        source,
        weight,
        padding=[*(part.before for part in parts), *(part.after for part in parts)],
        dilation=[part.dilation for part in parts],
        groups=geometry.groups,
        channels=outer,
        kernel_size=window,
        data_layout=f"N{geometry.spatial}C",
        kernel_layout=layout,
        out_dtype=call.attrs.out_dtype,
    )


def _interleaved(geometry: Transposed, plan: Plan, parts: list[Expr]) -> Expr:
    """Return the phases that are channels of tensors, or tensors of their own, in their places."""
    first = plan.convolutions[0]
    rest = [part.grown * axis.stride - axis.grown for part, axis in zip(first, plan.sources, strict=True)]
    shifts = [[part.shift for part in each] for each in plan.convolutions]
    if len(parts) == 1 and plan.phases == 1 and not any(rest):
        return parts[0]
    return entry("nn.contrib_interleave_subpixels").call(
        Tuple(parts),
        strides=[axis.stride for axis in plan.sources],
        joined=[int(len(axis.parts) == 1) for axis in plan.axes],
        crop=[axis.crop for axis in plan.axes],
        rest=rest,
        shifts=shifts,
        groups=geometry.groups,
    )
