"""Pointwise convolutions around a depthwise one become one operator, which goes through images line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from .._dataclasses import dataclass
from ..kernels.inverted_residual import DepthwiseShape, InvertedResidualShape
from ..kernels.packed_gemm_plan import PackedGemmShape, plan_packed_gemm
from ..relay.ir import Call, Expr, Function, RelayExpr, children, const, is_call, post_order, rewrite
from ..relay.op.registry import build
from ..relay.transform.known_type import type_of, with_type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.share_constants import SharedConstants
from ..target.processor import CACHES
from .conv_layers import ConvLayer

__all__ = ["FuseInvertedResiduals"]

_PRODUCT = "nn.contrib_packed_gemm"
_MOST = CACHES.three_quarters_of_second  # of weights and lines that are read again for each line
_LONGEST = 5  # lines of a window, and columns: each step of it is written out
_FEWEST = 8  # positions of a line, for which weights come from the second cache in time
_SHARED = 0.25  # of an image's lines, at most, which parts of it have in common


@relay_pass(opt_level=1)
def FuseInvertedResiduals(
    lanes: int = 16, registers: int = 32, passes: int = 1, cores: int = 1, shares_kernels: bool = False
) -> ModuleTransform:
    """Return the pass that makes one operator of a depthwise convolution and the products around it.

    The product before it is taken in if nothing else reads what it gives. Images have a known height and width, and
    lines of them stay in the second cache together with the weights. Then what lies between the products, which is
    several times as large as what they read and give, never leaves that cache.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors.
    passes : int
        How many times a unit of the target works for each vector.
    cores : int
        How many cores share the work.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone are to call one kernel: all layers stay as they are.
    """
    machine = {"lanes": lanes, "registers": registers, "passes": passes}

    def change(function: Function) -> Function:
        if shares_kernels:
            return function
        found = {block.project: block for block in _blocks(function, lanes, registers, cores)}

        def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
            block = found.get(original) if isinstance(original, Call) else None
            if block is None:
                return with_type_of(node, original)
            made = block.fused(cast("Call", node), machine, cores)
            type_of(made)
            return made

        return rewrite(function, {}, replace) if found else function

    return per_function(change)


@dataclass(frozen=True)
class _Block:
    """A depthwise convolution with what follows it, the product of that, and the one before if it is taken in."""

    layer: ConvLayer
    expand: Call | None
    project: Call

    def fused(self, project: Call, machine: Mapping[str, int], cores: int) -> Expr:
        """Return the operator in place of the last product, whose inputs are rewritten."""
        layer, weight = self.layer, self.layer.weight("HWOI")
        window = layer.shared.const(np.ascontiguousarray(weight.reshape(weight.shape[:3])))

        def make(data: Expr, added: list[Expr]) -> Expr:
            expand, more = self.expand, []
            if expand is not None:
                data, *more = _with_bias(cast("Call", data))
            weight, bias, *residual = _with_bias(project)[1:]
            own = added or [const(np.zeros(layer.sizes["O"], "float32"))]
            return build(
                "nn.contrib_inverted_residual",
                data,
                window,
                *own,
                weight,
                bias,
                *more,
                *residual,
                **machine,
                strides=layer.strides,
                padding=list(layer.padding),
                a_min=layer.low,
                a_max=layer.high,
                expand_min=None if expand is None else expand.attrs.a_min,
                expand_max=None if expand is None else expand.attrs.a_max,
                project_min=project.attrs.a_min,
                project_max=project.attrs.a_max,
                activation=layer.activation,
                expand_activation="" if expand is None else expand.attrs.activation,
                project_activation=project.attrs.activation,
                has_expand=expand is not None,
                units=project.attrs.units,
                chunks=_chunks(self.shape(machine["lanes"]), cores),
            )

        return layer.replaced(cast("Call", project.args[0]), make)

    def shape(self, lanes: int) -> InvertedResidualShape:
        """Return what the kernel would compute, but for what changes each number by itself."""
        layer, (batch, *image, _) = self.layer, self.layer.image(self.layer.conv.args[0])
        height, width = (int(d) for d in image)
        top, left, bottom, right = layer.padding
        size, strides = (layer.sizes["H"], layer.sizes["W"]), (layer.strides[0], layer.strides[1])
        depthwise = DepthwiseShape(size, strides, (top, left, bottom, right))

        def product(call: Call, positions: int) -> PackedGemmShape:
            _, inner, block = (int(d) for d in call.args[1].checked_type.shape)
            return PackedGemmShape((1, positions), inner, int(call.attrs.units), block, lanes)

        expand = None if self.expand is None else product(self.expand, width)
        project = product(self.project, depthwise.fitted(height, width)[1])
        return InvertedResidualShape(
            batch if isinstance(batch, int) else None, height, width, expand, depthwise, project
        )


def _chunks(shape: InvertedResidualShape, cores: int) -> int:
    """Return in how many parts cores share an image, 1 if they share images."""
    is_of_images = shape.expand is None or (shape.batch is not None and shape.batch % cores == 0)
    return 1 if is_of_images else cores


def _is_worth(shape: InvertedResidualShape, registers: int, cores: int) -> bool:
    """Say whether lines and weights stay near, cores wait for few lines, and what lies between is much."""
    s, d = shape, shape.depthwise
    shared = (_chunks(s, cores) - 1) * d.size[0]
    if shared > _SHARED * d.strides[0] * s.result[0]:
        return False
    weights = 4 * sum(p.blocks * p.inner * p.block for p in (s.expand, s.project) if p is not None)
    if 4 * s.kept + weights > _MOST or (weights > CACHES.first and s.result[1] < _FEWEST):
        return False
    first = s.height * s.width if s.expand is not None else 0
    between = 4 * (s.batch or 1) * s.channels * (first + s.result[0] * s.result[1])
    is_far, are_apart = between > CACHES.second, max(d.strides) > 1
    if are_apart and s.expand is None:
        return False  # what is saved is a quarter of what is read, in an order that memory is slower in
    if is_far:
        return True
    # Products are as fast alone if what they read is near: windows that are apart are little work beside them, and
    # tiles that end with each line compute rows twice.
    plans = [(p.rows, plan_packed_gemm(p, registers).rows) for p in (s.expand, s.project) if p is not None]
    return not are_apart and not any(have % rows for have, rows in plans if have is not None)


def _with_bias(product: Call) -> list[Expr]:
    """Return the inputs of a product, with zeros for a bias if it has none."""
    data, weight, *added = product.args
    if not product.attrs.has_bias:
        added = [const(np.zeros(int(product.attrs.units), "float32")), *added]
    return [data, weight, *added]


def _blocks(function: Function, lanes: int, registers: int, cores: int) -> Iterator[_Block]:
    """Yield the blocks of a typed function that are worth it, which have nothing in common."""
    users: dict[Any, list[Any]] = {}
    layers = []
    shared = SharedConstants()
    for node in post_order(function):
        for part in children(node):
            users.setdefault(part, []).append(node)
        layer = ConvLayer.of(node, shared, of_groups=True)
        if layer is not None and _is_depthwise(layer, lanes):
            layers.append(layer)
    taken: set[RelayExpr] = set()
    for layer in layers:
        end = layer.extend(users, taken)
        project = users[end][0] if len(users.get(end, ())) == 1 else None
        if project is None or layer.has_residual or not (_is_product(project) and project.args[0].same_as(end)):
            continue
        before = layer.conv.args[0]
        is_own = len(users[before]) == 1 and before not in taken and _is_product(before) and not _has_residual(before)
        block = _Block(layer, before if is_own else None, project)
        if _is_worth(block.shape(lanes), registers, cores):
            taken.add(project)
            yield block


def _is_depthwise(layer: ConvLayer, lanes: int) -> bool:
    """Say whether a layer is a depthwise convolution of images of known size by a small window, in whole vectors."""
    sizes, size = layer.sizes, (layer.sizes["H"], layer.sizes["W"])
    _, *image = layer.image(layer.conv.args[0])
    if layer.is_of_rows or not all(isinstance(d, int) for d in image) or 0 in layer.conv.checked_type.shape:
        return False
    is_single = layer.groups == sizes["O"] == image[-1] and sizes["I"] == 1
    top, left, bottom, right = layer.padding
    is_padded = max(top, bottom) >= size[0] or max(left, right) >= size[1]
    is_small = 1 < max(size) <= _LONGEST and layer.dilation == [1, 1]
    return is_single and is_small and not is_padded and sizes["O"] % lanes == 0


def _is_product(node: RelayExpr) -> bool:
    """Say whether a node is a product of each position by itself, by a kernel of its own."""
    if not is_call(node, _PRODUCT):
        return False
    attrs = node.attrs
    return not (attrs.kernel_size or attrs.joined or attrs.is_shared or attrs.overlaps) and attrs.groups == 1


def _has_residual(product: Call) -> bool:
    return len(product.args) > 2 + product.attrs.has_bias
