"""How single operators of PyTorch are written by simpler ones, with the sizes that the export found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from .arguments import dtype_of

if TYPE_CHECKING:
    from torch import fx

    from .simpler_nodes import Writer

__all__ = ["RULES", "Rule", "UnknownError"]

Rule: TypeAlias = "Callable[[Writer, fx.Node, list[Any]], fx.Node]"


class UnknownError(Exception):
    """Something of a program is left to PyTorch."""


def _aten() -> Any:  # noqa: ANN401 - it is made of attributes
    import torch

    return torch.ops.aten


def _convolution(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, weight, bias, stride, padding, dilation, groups = args
    rank = len(node.meta["val"].shape) - 2
    if len(data.meta["val"].shape) != rank + 2 or isinstance(padding, str):
        raise UnknownError
    ways = ([each] if isinstance(each, int) else list(each) for each in (stride, padding, dilation))
    return w.call(node, _aten().convolution.default, data, weight, bias, *ways, False, [0] * rank, groups)


def _normalized(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, weight, bias, mean, variance, is_training, momentum, epsilon, _ = args
    if is_training or any(each is None for each in (weight, bias, mean, variance)):
        raise UnknownError
    target = _aten()._native_batch_norm_legit_no_training.default
    return w.first(node, target, data, weight, bias, mean, variance, momentum, epsilon)


def _layer(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, shape, weight, bias, epsilon, _ = args
    if weight is None or bias is None:
        raise UnknownError
    return w.first(node, _aten().native_layer_norm.default, data, shape, weight, bias, epsilon)


def _largest(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, size, stride, *rest = args
    if len(data.meta["val"].shape) != 4:
        raise UnknownError
    return w.first(node, _aten().max_pool2d_with_indices.default, data, size, stride or size, *rest)


def _adapted(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, size = args
    if list(size) == [1, 1]:
        return w.call(node, _aten().mean.dim, data, [-1, -2], True)
    return w.call(node, _aten()._adaptive_avg_pool2d.default, data, list(size))


def _kept(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return what an operator drops elements of in training alone."""
    _, _, is_training = args
    if is_training:
        raise UnknownError
    return _same(w, node, args)


def _same(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return what an operator is taken of, whose elements lie otherwise in memory at most."""
    w.share(node, cast("fx.Node", node.args[0]))
    return cast("fx.Node", args[0])


def _cut(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return the pieces of a tensor along an axis."""
    data, _, axis = args
    w.share(node, cast("fx.Node", node.args[0]))
    sizes = [each.shape[axis] for each in node.meta["val"]]
    if not all(isinstance(size, int) for size in sizes):
        raise UnknownError
    return w.call(node, _aten().split_with_sizes.default, data, sizes, axis)


def _viewed(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return another shape of a tensor, which importers take from what is known of the node."""
    w.share(node, cast("fx.Node", node.args[0]))
    shape = [size if isinstance(size, int) else -1 for size in node.meta["val"].shape]
    return w.call(node, _aten().view.default, args[0], shape)


def _widened(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return a tensor repeated along axes of one element, to a shape that importers are told where it is known."""
    data, to = args[0], node.meta["val"].shape
    w.share(node, cast("fx.Node", node.args[0]))
    own = [*[None] * (len(to) - len(data.meta["val"].shape)), *data.meta["val"].shape]
    if any(not isinstance(size, int) and str(size) != str(old) for size, old in zip(to, own, strict=True)):
        raise UnknownError
    return w.call(node, _aten().expand.default, data, [size if isinstance(size, int) else -1 for size in to])


def _unbound(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Note the pieces of one element along an axis."""
    data, axis = args
    w.share(node, cast("fx.Node", node.args[0]))
    pieces = enumerate(node.meta["val"])
    selected = _aten().select.int
    w.results[node] = [w.call(node, selected, data, axis, at, value=v, is_last=False) for at, v in pieces]
    return cast("fx.Node", data)


def _stacked(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    parts, axis = args
    longer = []
    for part in parts:
        value = part.meta["val"].unsqueeze(axis)
        longer.append(w.call(node, _aten().unsqueeze.default, part, axis, value=value, is_last=False))
    return w.call(node, _aten().cat.default, longer, axis)


def _added_product(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, first, second, factor = args
    if factor != 1 or len({dtype_of(each) for each in (node, data, first, second)}) > 1:
        raise UnknownError
    value = first.meta["val"] * second.meta["val"]
    product = w.call(node, _aten().mul.Tensor, first, second, value=value, is_last=False)
    return w.call(node, _aten().add.Tensor, data, product)


def _swapped(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, first, second = args
    axes = list(range(len(node.meta["val"].shape)))
    axes[first], axes[second] = axes[second], axes[first]
    return w.call(node, _aten().permute.default, data, axes)


def _turned(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    return w.call(node, _aten().permute.default, args[0], list(range(len(node.meta["val"].shape)))[::-1])


def _of_rows(name: str) -> Rule:
    def softmax(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
        data, axis, dtype = args
        if dtype is not None:
            raise UnknownError
        return w.call(node, getattr(_aten(), name).default, data, axis, False)

    return softmax


def _limited(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, low, high = [*args, 0, 6][:3] if len(args) == 1 else args
    return w.call(node, _aten().clamp.default, data, low, high)


def _as_it_is(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    return w.call(node, node.target, *args)


def _attended(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    query, key, value, mask, dropout, _, scale, is_grouped = args
    sizes = [each.meta["val"].shape for each in (query, key, value)]
    is_plain = dropout == 0 and not is_grouped and isinstance(scale, float | None) and isinstance(sizes[0][-1], int)
    masks = () if mask is None else (mask,)
    types = {dtype_of(each) for each in (query, key, value)}
    is_plain = is_plain and types == {"float32"} and all(dtype_of(each) in ("bool", "float32") for each in masks)
    if not is_plain or any(len(shape) != 4 for shape in sizes):
        raise UnknownError
    return w.call(node, node.target, *args)


def _cast(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return a tensor in the data type that the node has."""
    old, new = args[0].meta["val"], node.meta["val"]
    if old.device != new.device:
        raise UnknownError
    if old.dtype == new.dtype:
        return _same(w, node, args)
    return w.call(node, _aten()._to_copy.default, args[0], dtype=new.dtype)


def _masked(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, mask, number = args
    if not isinstance(number, int | float):
        raise UnknownError
    of = node.meta["val"]
    made = w.call(node, _aten().scalar_tensor.default, number, value=of.new_empty(()), is_last=False, dtype=of.dtype)
    return w.call(node, _aten().where.self, mask, made, data)


def _counted(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return numbers from the first on, or from 0, up to the last; data type, layout, device and pinning end them."""
    first, last = [0, *args[:-4]][-2:]
    return w.call(node, _aten().arange.start_step, first, last, 1, dtype=node.meta["val"].dtype)


def _full(place: int, number: float | None = None) -> Rule:
    """Return the rule of a tensor of one number: the one behind its sizes if none is given."""

    def rule(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
        sizes, filling = args[place], args[place + 1] if number is None else number
        if not isinstance(filling, int | float):
            raise UnknownError
        return w.call(node, _aten().full.default, sizes, filling, dtype=node.meta["val"].dtype)

    return rule


def _full_like(number: float) -> Rule:
    def rule(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
        return w.call(node, _aten().full_like.default, args[0], number, dtype=node.meta["val"].dtype)

    return rule


def _by(name: str, overload: str) -> Rule:
    """Return the rule of an operator that another one stands for, with as many operands."""

    def rule(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
        return w.call(node, getattr(getattr(_aten(), name), overload), *args)

    return rule


def _taken_from(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, number, factor = args
    if factor != 1:
        raise UnknownError
    return w.call(node, _aten().sub.Tensor, number, data)


def _grouped(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, groups, weight, bias, epsilon, _ = args
    channels = data.meta["val"].shape[1]
    if not isinstance(channels, int):
        raise UnknownError
    # How large the batch and an image are it takes from the data, as all that imports it does.
    return w.first(node, _aten().native_group_norm.default, data, weight, bias, -1, channels, -1, groups, epsilon)


def _averaged(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, size = args
    if list(size) != [1]:
        raise UnknownError
    return w.call(node, _aten().mean.dim, data, [-1], True)


def _padded(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, sizes, mode, number = args
    if mode != "constant" or not all(isinstance(size, int) for size in sizes):
        raise UnknownError
    return w.call(node, _aten().constant_pad_nd.default, data, list(sizes), number or 0.0)


def _rolled(w: Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return a tensor whose last elements along axes stand before the first."""
    data, shifts, axes = args
    shape = node.meta["val"].shape
    sizes = [shape[axis] for axis in axes]
    is_known = bool(axes) and all(isinstance(each, int) for each in (*sizes, *shifts))
    if not is_known or not all(size and shift % size for size, shift in zip(sizes, shifts, strict=True)):
        raise UnknownError
    for place, (axis, size, shift) in enumerate(zip(axes, sizes, shifts, strict=True), 1):
        cut, parts = size - shift % size, []
        for first, last in ((cut, size), (0, cut)):
            value = data.meta["val"].narrow(axis, first, last - first)
            parts.append(w.call(node, _aten().slice.Tensor, data, axis, first, last, value=value, is_last=False))
        data = w.call(node, _aten().cat.default, parts, axis, is_last=place == len(axes))
    return cast("fx.Node", data)


_SHAPED = ("flatten.using_ints", "reshape.default", "reshape_as.default", "squeeze.dim", "unflatten.int")

RULES: dict[str, Rule] = {
    **dict.fromkeys((*_SHAPED, "view_as.default"), _viewed),
    **dict.fromkeys(("arange.default", "arange.start"), _counted),
    **dict.fromkeys(("chunk.default", "split.Tensor"), _cut),
    **dict.fromkeys(("contiguous.default", "detach.default"), _same),
    **dict.fromkeys(("conv1d.default", "conv2d.default", "conv3d.default"), _convolution),
    **dict.fromkeys(("dropout.default", "feature_dropout.default"), _kept),
    **dict.fromkeys(("hardtanh.default", "relu6.default"), _limited),
    **dict.fromkeys(("linear.default", "sym_size.int"), _as_it_is),
    **dict.fromkeys(("to.device", "to.dtype", "to.dtype_layout", "to.other", "type_as.default"), _cast),
    "__and__.Tensor": _by("bitwise_and", "Tensor"),
    "__or__.Tensor": _by("bitwise_or", "Tensor"),
    "adaptive_avg_pool1d.default": _averaged,
    "adaptive_avg_pool2d.default": _adapted,
    "addcmul.default": _added_product,
    "batch_norm.default": _normalized,
    "clamp_min.default": _by("clamp", "default"),
    "expand_as.default": _widened,
    "group_norm.default": _grouped,
    "layer_norm.default": _layer,
    "log_softmax.int": _of_rows("_log_softmax"),
    "masked_fill.Scalar": _masked,
    "max.other": _by("maximum", "default"),
    "max_pool2d.default": _largest,
    "min.other": _by("minimum", "default"),
    "new_full.default": _full(1),
    "new_ones.default": _full(1, 1),
    "new_zeros.default": _full(1, 0),
    "numpy_T.default": _turned,
    "ones.default": _full(0, 1),
    "ones_like.default": _full_like(1),
    "pad.default": _padded,
    "roll.default": _rolled,
    "rsub.Scalar": _taken_from,
    "scaled_dot_product_attention.default": _attended,
    "softmax.int": _of_rows("_softmax"),
    "stack.default": _stacked,
    "transpose.int": _swapped,
    "unbind.int": _unbound,
    "zeros.default": _full(0, 0),
    "zeros_like.default": _full_like(0),
}
"""How operators are written by simpler ones, or left as they are for :data:`.undecomposed.UNDECOMPOSED`."""
