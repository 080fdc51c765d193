"""Convolutions by constant kernels of 3x3 become products of tiles, where that is faster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tophub.kernels.winograd import WinogradPlan, WinogradShape
from ...tophub.kernels.winograd_plan import Machine, plan_winograd
from ...tophub.kernels.winograd_points import weight_matrix
from ..ir import Call, Constant, Op, children, const, dims, post_order, rewrite
from ..op.nn.window import padding_of
from ..op.registry import build
from .known_type import type_of
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["UseWinograd"]


@relay_pass(opt_level=2)
def UseWinograd(lanes: int = 16, registers: int = 32, cores: int = 1) -> ModuleTransform:
    """Return the pass that computes convolutions over channels-last data by Winograd's tiles, with what follows them.

    Results differ from exact ones as :mod:`vmkit.tophub.kernels.winograd_points` says: by rounding, but of larger
    terms than those of the plain sum. Weights are transformed in float64, once.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors.
    cores : int
        How many cores share the work.
    """
    machine = Machine(lanes, registers, cores)
    return per_function(lambda function: _rewritten(function, machine))


@dataclass
class _Layer:
    """A convolution and what follows it, up to the last call that only this one's result goes into."""

    conv: Call
    shape: WinogradShape
    plan: WinogradPlan
    bias: np.ndarray | None = None
    low: float | None = None
    high: float | None = None
    # From the end to the convolution: which argument of a call the one before is; and where a residual is added.
    path: list[int] = field(default_factory=list)
    residual: int | None = None

    @property
    def is_closed(self) -> bool:
        return self.low is not None or self.high is not None


def _rewritten(function: Any, machine: Machine) -> Any:
    users: dict[Any, list[Any]] = {}
    layers = []
    for node in post_order(function):
        for part in children(node):
            users.setdefault(part, []).append(node)
        layer = _layer(node, machine)
        if layer is not None:
            layers.append(layer)
    ends = {_extended(layer, users): layer for layer in layers}

    def replace(node: Any, original: Any) -> Any:
        layer = ends.get(original) if isinstance(original, Call) else None
        if layer is not None:
            node = _fused(node, layer)
            type_of(node)
        elif not node.same_as(original):
            node.checked_type_ = original.checked_type_
        return node

    return rewrite(function, {}, replace) if ends else function


def _layer(node: Any, machine: Machine) -> _Layer | None:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "nn.conv2d"):
        return None
    attrs, (data, weight) = node.attrs, node.args
    if not isinstance(weight, Constant) or attrs.data_layout != "NHWC" or attrs.out_layout not in ("", "NHWC"):
        return None
    layout = attrs.kernel_layout
    if sorted(layout) != sorted("OIHW") or {data.checked_type.dtype, weight.checked_type.dtype} != {"float32"}:
        return None
    sizes = {axis: int(d) for axis, d in zip(layout, weight.checked_type.shape, strict=True)}
    others = (*attrs.strides, *attrs.dilation, attrs.groups)
    if (sizes["H"], sizes["W"]) != (3, 3) or any(int(n) != 1 for n in others) or attrs.out_dtype not in ("", "float32"):
        return None
    lanes = machine.lanes
    if sizes["I"] % lanes or sizes["O"] % lanes or lanes < 4:
        return None
    batch, height, width = (d if isinstance(d, int) else None for d in data.checked_type.shape[:3])
    top, left, bottom, right = padding_of(attrs.padding, 2)
    shape = WinogradShape(
        tile=4,
        batch=batch,
        height=height,
        width=width,
        inner=sizes["I"],
        outer=sizes["O"],
        padding=(top, left, bottom, right),
        block=lanes * 2 if sizes["O"] % (lanes * 2) == 0 else lanes,
        lanes=lanes,
    )
    planned = plan_winograd(shape, machine)
    return None if planned is None else _Layer(node, *planned)


def _extended(layer: _Layer, users: dict[Any, list[Any]]) -> Any:
    """Take into a layer the calls after it that its kernel can do; return the last."""
    end = layer.conv
    while not layer.is_closed and len(users.get(end, ())) == 1:
        (call,) = users[end]
        if not (isinstance(call, Call) and isinstance(call.op, Op)) or not _take(layer, call, end):
            break
        layer.path.insert(0, next(i for i, arg in enumerate(call.args) if arg.same_as(end)))
        if layer.residual is not None:
            layer.residual += 1
        end = call
    return end


def _take(layer: _Layer, call: Call, end: Any) -> bool:
    match call.op.name:
        case "nn.relu":
            layer.low = 0.0
            return True
        case "clip":
            layer.low, layer.high = float(call.attrs.a_min), float(call.attrs.a_max)
            return True
        case "add":
            other = call.args[1] if call.args[0].same_as(end) else call.args[0]
            return _take_added(layer, other, end)
    return False


def _take_added(layer: _Layer, other: Any, end: Any) -> bool:
    if layer.residual is not None or other.same_as(end):
        return False
    shape, channels = list(other.checked_type.shape), layer.shape.outer
    if isinstance(other, Constant) and len(shape) <= 4 and all(d == 1 for d in shape[:-1]):
        if not shape or shape[-1] in (1, channels):
            bias = np.broadcast_to(other.data.numpy().reshape(-1), (channels,))
            layer.bias = bias if layer.bias is None else layer.bias + bias
            return True
    made = end.checked_type.shape
    if len(shape) != 4 or not all(dims.equal(a, b) is True for a, b in zip(shape, made, strict=True)):
        return False
    layer.residual = -1
    return True


def _fused(node: Any, layer: _Layer) -> Call:
    """Return the operator for a layer whose last call is `node`, its arguments rewritten."""
    residual = None
    for depth, argument in enumerate(layer.path):
        if depth == layer.residual:
            residual = node.args[1 - argument]
        node = node.args[argument]
    data, weight = node.args
    shape, plan = layer.shape, layer.plan
    added = [] if layer.bias is None else [const(layer.bias.astype("float32"))]
    if residual is not None:
        added.append(residual)
    packed = const(_packed(weight.data.numpy(), node.attrs.kernel_layout, shape))
    return build(
        "nn.contrib_conv2d_winograd_fused",
        data,
        packed,
        *added,
        tile=shape.tile,
        rows=plan.rows,
        count=plan.count,
        lanes=shape.lanes,
        padding=list(shape.padding),
        is_parallel_over_tiles=plan.is_parallel_over_tiles,
        has_bias=layer.bias is not None,
        a_min=layer.low,
        a_max=layer.high,
    )


def _packed(weight: np.ndarray, layout: str, shape: WinogradShape) -> np.ndarray:
    """Return a weight transformed, (blocks, products, input channels, output channels of a block)."""
    matrix = weight_matrix(shape.tile)
    kernel = weight.transpose([layout.index(axis) for axis in "HWIO"]).astype("float64")
    both = np.kron(matrix, matrix)  # (products, 9)
    moved = (both @ kernel.reshape(9, -1)).astype("float32")
    blocks = moved.reshape(shape.points, shape.inner, shape.outer // shape.block, shape.block)
    return np.ascontiguousarray(blocks.transpose(2, 0, 1, 3))
