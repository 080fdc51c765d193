"""Convolutions with constant weights, each with the calls after it that a kernel of its own can do at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, TypeAlias, cast

import numpy as np

from .._dataclasses import dataclass
from ..relay.ir import (
    Call,
    Constant,
    Dim,
    Expr,
    Function,
    Op,
    RelayExpr,
    children,
    const,
    dims,
    is_call,
    post_order,
    rewrite,
)
from ..relay.op.nn.window import padding_of
from ..relay.op.registry import build
from ..relay.transform.known_type import type_of, with_type_of
from ..relay.transform.share_constants import SharedConstants
from .activations import activation_after
from .constants import number_of

__all__ = ["ConvLayer", "Make", "layers_of", "rewrite_layers"]

Make: TypeAlias = Callable[[Expr, list[Expr]], Expr]
"""Takes the data, and the bias and the residual where there are any, as images; returns the layer's result."""

_SPATIAL = {"nn.conv1d": "W", "nn.conv2d": "HW"}


@dataclass
class ConvLayer:
    """A convolution over channels-last float32 data, and what follows it up to the first call that is something else.

    A convolution of rows is seen as one of images of height 1.

    Attributes
    ----------
    conv : Call
        The convolution, of images or of rows.
    sizes : dict of str to int
        The shape of its weight by O, I, H and W; I is of one group.
    padding : tuple of int
        Zeros above, left, below and right.
    shared : SharedConstants
        The constants that layers of one function are given, equal ones once.
    bias : numpy.ndarray or None
        The sum of what constants add to each channel.
    low, high : float or None
        What sums are raised and lowered to.
    activation : str
        The function of :mod:`vmkit.kernels.activation` that results are made by from those; empty if they are the
        results.
    """

    conv: Call
    sizes: dict[str, int]
    padding: tuple[int, int, int, int]
    shared: SharedConstants
    bias: np.ndarray | None = None
    low: float | None = None
    high: float | None = None
    activation: str = ""
    # From the end to the convolution: which argument of a call the one before is; and how deep a residual is added.
    _path: list[int] = field(default_factory=list)
    _residual: int | None = None

    @classmethod
    def of(cls, node: RelayExpr, shared: SharedConstants, of_groups: bool = False) -> ConvLayer | None:
        """Return the layer that a node begins; None if it is no plain convolution, of groups 1 if not `of_groups`."""
        if not is_call(node, *_SPATIAL):
            return None
        attrs, (data, weight), spatial = node.attrs, node.args, _SPATIAL[node.op.name]
        layout = f"N{spatial}C"
        if not isinstance(weight, Constant) or attrs.data_layout != layout or attrs.out_layout not in ("", layout):
            return None
        dtypes = {data.checked_type.dtype, weight.checked_type.dtype, attrs.out_dtype or "float32"}
        if sorted(attrs.kernel_layout) != sorted("OI" + spatial) or dtypes != {"float32"}:
            return None
        if attrs.groups != 1 and not of_groups:
            return None
        shape = (int(d) for d in weight.checked_type.shape)
        begin_end = padding_of(attrs.padding, len(spatial))
        top, bottom = (0, 0) if spatial == "W" else (begin_end[0], begin_end[2])
        left, right = begin_end[len(spatial) - 1], begin_end[-1]
        sizes = {"H": 1, **dict(zip(attrs.kernel_layout, shape, strict=True))}
        return cls(node, sizes, (top, left, bottom, right), shared)

    @property
    def is_of_rows(self) -> bool:
        """Whether the convolution has one spatial axis."""
        return len(_SPATIAL[self.conv.op.name]) == 1

    @property
    def groups(self) -> int:
        """How many parts of the channels have weights of their own."""
        return int(self.conv.attrs.groups)

    @property
    def has_residual(self) -> bool:
        """Whether a tensor like the result is added."""
        return self._residual is not None

    @property
    def strides(self) -> list[int]:
        """Steps from window to window down and across."""
        return [1] * self.is_of_rows + [int(n) for n in self.conv.attrs.strides]

    @property
    def dilation(self) -> list[int]:
        """Steps from element to element of a window down and across."""
        return [1] * self.is_of_rows + [int(n) for n in self.conv.attrs.dilation]

    @property
    def is_everywhere(self) -> bool:
        """Whether there is a window at every position, and of neighbouring elements."""
        return all(n == 1 for n in (*self.strides, *self.dilation))

    def image(self, node: RelayExpr) -> list[Dim]:
        """Return batch, height, width and channels of the data or of a result."""
        batch, *sizes = node.checked_type.shape
        return [batch, *[1] * self.is_of_rows, *sizes]

    def weight(self, layout: str) -> np.ndarray:
        """Return the weight with its axes in an order."""
        have = "H" * self.is_of_rows + self.conv.attrs.kernel_layout
        array: np.ndarray = self.conv.args[1].data.numpy()
        return array.reshape([self.sizes[axis] for axis in have]).transpose([have.index(axis) for axis in layout])

    def weight_image(self) -> Expr:
        """Return the weight as (height, width, input channels, output channels)."""
        weight, layout = self.conv.args[1], self.conv.attrs.kernel_layout
        ordered = "W" * self.is_of_rows or "HW"
        if layout != f"{ordered}IO":
            weight = build("layout_transform", weight, layout, f"{ordered}IO")
        return build("expand_dims", weight, axis=0) if self.is_of_rows else weight

    def replaced(self, end: Call, make: Make) -> Expr:
        """Return what stands for the layer: what `make` returns for images, with the shape that the last call has."""
        data, bias, residual = self._parts(end)
        if not self.is_of_rows:
            return make(data, [*bias, *residual])
        data, *residual = (build("expand_dims", each, axis=1) for each in (data, *residual))
        return build("squeeze", make(data, [*bias, *residual]), axis=[1])

    def _parts(self, end: Call) -> tuple[Expr, list[Expr], list[Expr]]:
        """Return the data, and the bias and the residual where there are any, from the last call, rewritten."""
        residual: list[Expr] = []
        for depth, argument in enumerate(self._path):
            if depth == self._residual:
                residual.append(end.args[1 - argument])
            end = end.args[argument]
        bias: list[Expr] = [] if self.bias is None else [const(self.bias.astype("float32"))]
        return end.args[0], bias, residual

    def extend(self, users: dict[RelayExpr, list[RelayExpr]], taken: set[RelayExpr]) -> Call:
        """Take in the calls that follow, as long as nothing else uses what is between; return the last one.

        What another layer has `taken` in, such as the sum of two of them, stays with it.
        """
        end: Any = self.conv
        while len(users.get(end, ())) == 1:
            (call,) = users[end]
            if not (isinstance(call, Call) and isinstance(call.op, Op)) or call in taken or not self._takes(call, end):
                break
            taken.add(call)
            self._path.insert(0, next(i for i, arg in enumerate(call.args) if arg.same_as(end)))
            if self._residual is not None:
                self._residual += 1
            end = call
        return self._activated(end, users, taken)

    def _activated(self, end: Call, users: dict[RelayExpr, list[RelayExpr]], taken: set[RelayExpr]) -> Call:
        """Take in the function of each number by itself that follows; return its last call."""
        found = activation_after(end, users, taken)
        if found is None:
            return end
        taken.update(found.calls)
        self.activation = found.program
        self._path[:0] = found.path
        if self._residual is not None:
            self._residual += len(found.path)
        return found.end

    def _takes(self, call: Call, end: Expr) -> bool:
        name = call.op.name
        if name == "add" and self.low is None and self.high is None:
            return self._takes_added(_other(call, end), end)
        if self.high is not None:
            return False
        if name == "nn.relu" and self.low is None:
            self.low = 0.0
            return True
        if name == "clip" and self.low is None:
            self.low, self.high = float(call.attrs.a_min), float(call.attrs.a_max)
            return True
        limit = number_of(_other(call, end)) if name in ("maximum", "minimum") else None
        if limit is None or (name == "maximum" and self.low is not None):
            return False
        if name == "maximum":
            self.low = limit
        else:
            self.high = limit
        return True

    def _takes_added(self, other: Expr, end: Expr) -> bool:
        if self._residual is not None or other.same_as(end):
            return False
        shape, made, channels = other.checked_type.shape, end.checked_type.shape, self.sizes["O"]
        is_short = len(shape) <= len(made) and all(d == 1 for d in shape[:-1])
        is_vector = is_short and (not shape or shape[-1] in (1, channels))
        if isinstance(other, Constant) and is_vector:
            bias = np.broadcast_to(other.data.numpy().reshape(-1), (channels,))
            self.bias = bias if self.bias is None else self.bias + bias
            return True
        if len(shape) != len(made) or not all(dims.equal(a, b) is True for a, b in zip(shape, made, strict=True)):
            return False
        self._residual = -1
        return True


def layers_of(function: Function) -> Iterator[ConvLayer]:
    """Yield the layers of a typed function, of which the convolution is known alone."""
    shared = SharedConstants()
    for node in post_order(function):
        layer = ConvLayer.of(node, shared)
        if layer is not None:
            yield layer


def rewrite_layers(function: Function, choose: Callable[[ConvLayer], Make | None], of_groups: bool = False) -> Function:
    """Return a typed function in which layers are other calls.

    Parameters
    ----------
    choose : callable
        Takes a layer, of which only the convolution is known yet, and returns None, or what makes the call: a callable
        that takes the data and what is added, when all layers are whole.
    of_groups : bool
        Whether it also takes layers of several groups.
    """
    users: dict[Any, list[Any]] = {}
    chosen = []
    shared = SharedConstants()
    for node in post_order(function):
        for part in children(node):
            users.setdefault(part, []).append(node)
        layer = ConvLayer.of(node, shared, of_groups)
        make = None if layer is None else choose(layer)
        if layer is not None and make is not None:
            chosen.append((layer, make))
    taken: set[Any] = set()
    ends = {layer.extend(users, taken): (layer, make) for layer, make in chosen}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(original, Call) and original in ends:
            layer, make = ends[original]
            node = layer.replaced(cast("Call", node), make)
            type_of(node)
            return node
        return with_type_of(node, original)

    return rewrite(function, {}, replace) if ends else function


def _other(call: Call, end: Expr) -> Expr:
    return call.args[1] if call.args[0].same_as(end) else call.args[0]
