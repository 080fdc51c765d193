"""A detector like YOLO: boxes of three scales, decoded, and the best of them by non-maximum suppression."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

from ..family import Tensors, family
from .images import randomized

_CLASSES = 4


def _block(channels: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.SiLU())


class _Split(nn.Module):
    """Half of the channels through two blocks, all pieces joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.inner = nn.Sequential(_block(half, half), _block(half, half))
        self.join = nn.Conv2d(3 * half, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return self.join(torch.cat([a, b, b + self.inner(b)], 1))


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_block(3, 8, 2), _block(8, 16, 2))
        self.stages = nn.ModuleList(nn.Sequential(_block(a, 2 * a, 2), _Split(2 * a)) for a in (16, 32, 64))
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, k // 2) for k in (5, 9))
        self.wide = nn.Conv2d(3 * 128, 128, 1)
        self.merges = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in ((128 + 64, 64), (64 + 32, 32)))
        self.heads = nn.ModuleList(nn.Conv2d(a, 4 + _CLASSES, 1) for a in (32, 64, 128))
        self.raise_ = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, maps = self.stem(images), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        x = self.wide(torch.cat([x, *(pool(x) for pool in self.pools)], 1))
        maps[-1] = x
        for i, merge in enumerate(self.merges):
            x = merge(torch.cat([self.raise_(x), maps[1 - i]], 1))
            maps[1 - i] = x
        found = [self.decoded(h(m), s) for h, m, s in zip(self.heads, maps, (8, 16, 32), strict=True)]
        boxes, scores = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        return boxes, scores.transpose(1, 2)

    @staticmethod
    def decoded(raw: torch.Tensor, stride: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes (batch, places, 4) as centre and size, and scores (batch, places, classes)."""
        height, width = raw.shape[-2:]
        y = torch.arange(height, dtype=raw.dtype, device=raw.device)
        x = torch.arange(width, dtype=raw.dtype, device=raw.device)
        grid = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], -1).reshape(1, -1, 2)
        flat = raw.flatten(2).transpose(1, 2)
        centre = (flat[..., :2].sigmoid() * 2 - 0.5 + grid) * stride
        size = (flat[..., 2:4].sigmoid() * 2) ** 2 * stride * 2
        return torch.cat([centre, size], -1), flat[..., 4:].sigmoid()


def _suppressed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the best boxes picked: torch has no operator for it, torchvision has."""
    constants = {"most": np.int64([8]), "overlap": np.float32([0.5]), "least": np.float32([0.5]), "column": np.int64(2)}
    graph = model.graph
    graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    chosen = ["boxes", "scores", "most", "overlap", "least"]
    graph.node.append(helper.make_node("NonMaxSuppression", chosen, ["selected"], name="nms", center_point_box=1))
    graph.node.append(helper.make_node("Gather", ["selected", "column"], ["place"], name="place", axis=1))
    graph.output.append(helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, ["found", 3]))
    graph.output.append(helper.make_tensor_value_info("place", onnx.TensorProto.INT64, ["found"]))
    return model


def _image(batch: int, height: int, width: int) -> Tensors:
    return {"images": torch.rand(batch, 3, height, width)}


@family(
    inputs=_image,
    axes={"images": {0: "batch", 2: "height", 3: "width"}},
    sizes=tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 64, 96), (1, 32, 32), (3, 96, 64))),
    outputs=("boxes", "scores"),
    finish=_suppressed,
)
def detector() -> nn.Module:
    return randomized(_Detector())
