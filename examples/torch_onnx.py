"""A PyTorch module, exported to ONNX with named dimensions and compiled once for every batch and size of image.

The names that the exporter gives to dimensions are those of the executable's signature, and of its messages. Needs
torch (``pip install '.[exported]'``).
"""

from __future__ import annotations

import io

import numpy as np
import onnx
import torch
from torch import nn

import vmkit

SIZES = ((2, 32, 48), (1, 16, 16), (3, 40, 24))


class Outlines(nn.Module):
    """One channel as large as the image: half as large inside, and up again beside what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        before = self.first(images).relu()
        inside = self.up(self.down(before).relu())
        return self.last(torch.cat([before, inside], 1)).sigmoid()


def exported(model: nn.Module) -> bytes:
    """Return the model as an ONNX file holds it."""
    file = io.BytesIO()
    axes = {0: "batch", 2: "height", 3: "width"}
    torch.onnx.export(
        model,
        (torch.rand(2, 3, 32, 48),),
        file,
        input_names=["images"],
        output_names=["outlines"],
        dynamic_axes={"images": axes, "outlines": axes},
        dynamo=False,
    )
    return file.getvalue()


def main() -> None:
    """Export at one size, compile, and compare with PyTorch at several."""
    torch.manual_seed(0)
    model = Outlines().eval()
    executable = vmkit.compile(onnx.load_from_string(exported(model)))
    print(executable.signature)

    machine = vmkit.VirtualMachine(executable, "cpu")
    for batch, height, width in SIZES:
        images = torch.rand(batch, 3, height, width)
        outlines = machine.run(images.numpy()).numpy()
        with torch.inference_mode():
            expected = model(images).numpy()
        np.testing.assert_allclose(outlines, expected, rtol=1e-4, atol=1e-5)
        print(f"{batch} images of {height}x{width}: {outlines.shape}")


if __name__ == "__main__":
    main()
