"""Residual networks with pre-activation, over images or over videos.

K. He et al.: Identity mappings in deep residual networks, 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._dataclasses import dataclass
from .. import nn
from ..ir import Expr
from ..op import build
from . import layers

__all__ = ["Residual", "stages"]

_EPSILON = 2e-5
_LARGE = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


def stages(num_layers: int, height: int) -> tuple[list[int], list[int], bool]:
    """Return units and channels of the stages, and whether units are bottlenecks, as Relay chose them.

    Parameters
    ----------
    num_layers : int
        The depth. For small pictures 6 n + 2, or 9 n + 2 from 164 on; otherwise 18, 34, 50, 101, 152, 200 or 269.
    height : int
        The height of a picture: up to 28 it is small, as in CIFAR-10.
    """
    if height > 28:
        if num_layers not in _LARGE:
            raise ValueError(f"num_layers for pictures higher than 28 is one of {list(_LARGE)}, not {num_layers}")
        bottleneck = num_layers >= 50
        return (
            list(_LARGE[num_layers]),
            [64, *((256, 512, 1024, 2048) if bottleneck else (64, 128, 256, 512))],
            bottleneck,
        )
    if num_layers >= 164 and (num_layers - 2) % 9 == 0:
        return [(num_layers - 2) // 9] * 3, [16, 64, 128, 256], True
    if num_layers < 164 and (num_layers - 2) % 6 == 0:
        return [(num_layers - 2) // 6] * 3, [16, 16, 32, 64], False
    raise ValueError(
        f"num_layers for pictures of height 28 or less is 6 n + 2, or 9 n + 2 from 164 on, not {num_layers}"
    )


@dataclass(frozen=True)
class Residual:
    """How a residual network is built in a layout.

    Attributes
    ----------
    conv : callable
        The convolution, of ``layers``.
    layout : str
        The layout of the data: ``N``, ``C`` and the spatial axes.
    """

    conv: Callable[..., Expr]
    layout: str

    def every_axis(self, size: int) -> tuple[int, ...]:
        """Return a size for every spatial axis."""
        return (size,) * (len(self.layout) - 2)

    def normalised(self, data: Expr, name: str, **attributes: Any) -> Expr:
        """Return batch normalisation over the channels."""
        return layers.batch_norm_infer(data, epsilon=_EPSILON, axis=self.layout.index("C"), name=name, **attributes)

    def activated(self, data: Expr, name: str) -> Expr:
        """Return batch normalisation and relu."""
        return nn.relu(self.normalised(data, name))

    def convolved(self, data: Expr, channels: int, kernel: Sequence[int], stride: Sequence[int], name: str) -> Expr:
        """Return a convolution that keeps the size but for the stride."""
        return self.conv(
            data,
            channels=channels,
            kernel_size=tuple(kernel),
            strides=tuple(stride),
            padding=tuple((k - 1) // 2 for k in kernel),
            data_layout=self.layout,
            kernel_layout=layers.conv_kernel_layout(self.layout),
            name=name,
        )

    def unit(
        self, data: Expr, channels: int, stride: Sequence[int], dim_match: bool, name: str, bottle_neck: bool
    ) -> Expr:
        """Return two or three convolutions, to which their input is added; as it is if its shape matches."""
        one, three = self.every_axis(1), self.every_axis(3)
        inner = channels // 4
        plan = (
            [(inner, one, stride), (inner, three, one), (channels, one, one)]
            if bottle_neck
            else [(channels, three, stride), (channels, three, one)]
        )
        body = data
        shortcut = data
        for index, (width, kernel, step) in enumerate(plan, start=1):
            body = self.activated(body, f"{name}_bn{index}")
            if index == 1 and not dim_match:
                shortcut = self.convolved(body, channels, one, stride, f"{name}_sc")
            body = self.convolved(body, width, kernel, step, f"{name}_conv{index}")
        return build("add", body, shortcut)

    def trunk(self, data: Expr, units: Sequence[int], filters: Sequence[int], bottle_neck: bool) -> Expr:
        """Return the stages: each but the first halves every spatial axis."""
        body = data
        for stage, (count, channels) in enumerate(zip(units, filters, strict=True), start=1):
            for index in range(1, count + 1):
                stride = self.every_axis(2 if stage > 1 and index == 1 else 1)
                body = self.unit(body, channels, stride, index > 1, f"stage{stage}_unit{index}", bottle_neck)
        return body

    def classified(self, data: Expr, pool: Callable[..., Expr], num_classes: int) -> Expr:
        """Return class probabilities."""
        body = nn.batch_flatten(pool(self.activated(data, "bn1"), layout=self.layout))
        return nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc1"))
