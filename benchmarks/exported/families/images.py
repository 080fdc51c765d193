"""Convolutional networks: ResNet, MobileNet, EfficientNet, U-Net."""

from __future__ import annotations

from itertools import pairwise

import torch
import transformers
from torch import nn

from ..family import Tensors, family
from ..wrapped import Wrapped

_AXES = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
_SIZES = tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 64, 96), (1, 32, 32), (3, 80, 64)))


def _image(batch: int, height: int, width: int) -> Tensors:
    return {"pixel_values": torch.randn(batch, 3, height, width)}


def randomized(module: nn.Module) -> nn.Module:
    """Return the module with statistics of normalizations as after training, so that folding them is seen."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean = 0.1 * torch.randn(each.num_features)
            each.running_var = torch.rand(each.num_features) + 0.5
            nn.init.uniform_(each.weight, 0.8, 1.2)
    return module


@family(inputs=_image, axes=_AXES, sizes=_SIZES)
def resnet() -> nn.Module:
    """ResNet-50's blocks, fewer of them."""
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[32, 64, 128, 256], depths=[1, 2, 1, 1])
    return Wrapped(randomized(transformers.ResNetForImageClassification(config)), ["pixel_values"])


@family(inputs=_image, axes=_AXES, sizes=_SIZES)
def mobilenet_v2() -> nn.Module:
    config = transformers.MobileNetV2Config(depth_multiplier=0.35, image_size=64)
    return Wrapped(randomized(transformers.MobileNetV2ForImageClassification(config)), ["pixel_values"])


@family(inputs=_image, axes=_AXES, sizes=_SIZES)
def efficientnet() -> nn.Module:
    config = transformers.EfficientNetConfig(
        width_coefficient=0.35, depth_coefficient=0.35, image_size=64, hidden_dim=448, num_hidden_layers=16
    )
    return Wrapped(randomized(transformers.EfficientNetForImageClassification(config)), ["pixel_values"])


class _Excited(nn.Module):
    """Channels scaled by what all positions say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


class _Bottleneck(nn.Module):
    """A block of MobileNet V3."""

    def __init__(self, channels: int, inner: int, out: int, size: int, stride: int, excited: bool, hard: bool) -> None:
        super().__init__()
        gate = nn.Hardswish if hard else nn.ReLU
        self.adds = stride == 1 and channels == out
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), gate(),
            nn.Conv2d(inner, inner, size, stride, size // 2, groups=inner, bias=False), nn.BatchNorm2d(inner), gate(),
            _Excited(inner) if excited else nn.Identity(),
            nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.adds else self.body(x)


@family(inputs=_image, axes=_AXES, sizes=_SIZES)
def mobilenet_v3() -> nn.Module:
    """MobileNet V3 small, by its paper."""
    rows = (
        (16, 16, 16, 3, 2, True, False), (16, 72, 24, 3, 2, False, False), (24, 88, 24, 3, 1, False, False),
        (24, 96, 40, 5, 2, True, True), (40, 240, 40, 5, 1, True, True), (40, 120, 48, 5, 1, True, True),
        (48, 288, 96, 5, 2, True, True), (96, 576, 96, 5, 1, True, True),
    )  # fmt: skip
    return randomized(
        nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
            *(_Bottleneck(*row) for row in rows),
            nn.Conv2d(96, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(576, 256), nn.Hardswish(), nn.Dropout(), nn.Linear(256, 100),
        )
    )  # fmt: skip


def _pair(channels: int, out: int) -> nn.Sequential:
    rows = [(channels, out), (out, out)]
    return nn.Sequential(*(m for a, b in rows for m in (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())))


class _UNet(nn.Module):
    """Down and up again, with what was there before beside; up by transposed convolutions, or interpolation."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32), transposed: bool = True) -> None:
        super().__init__()
        self.first = _pair(3, widths[0])
        self.downs = nn.ModuleList(_pair(a, b) for a, b in pairwise(widths))
        pairs = [(b, a) for a, b in pairwise(widths)][::-1]
        self.raises = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 2, stride=2) if transposed else nn.Conv2d(a, b, 1) for a, b in pairs
        )
        self.ups = nn.ModuleList(_pair(2 * b, b) for _, b in pairs)
        self.last = nn.Conv2d(widths[0], 2, 1)
        self.transposed = transposed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.first(x)]
        for down in self.downs:
            kept.append(down(nn.functional.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for rise, up in zip(self.raises, self.ups, strict=True):
            side = kept.pop()
            if not self.transposed:
                x = nn.functional.interpolate(x, size=side.shape[-2:], mode="bilinear", align_corners=False)
            x = up(torch.cat([rise(x), side], 1))
        return self.last(x)


@family(inputs=_image, axes=_AXES, sizes=_SIZES)
def unet() -> nn.Module:
    return randomized(_UNet())


@family(
    inputs=_image,
    axes=_AXES,
    sizes=tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 33, 50), (1, 31, 32), (2, 64, 21))),
)
def unet_interpolated() -> nn.Module:
    """Sides of any size: what comes from below is interpolated to the size of what was there before."""
    return randomized(_UNet(transposed=False))
