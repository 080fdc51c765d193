"""Exported programs whose inputs have sizes that are multiples of others."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit.errors import VMError

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[torch]'")


class Halved(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, 2, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.conv(x).flatten(2).transpose(1, 2), y[:, 1::2]


def test_sizes_that_are_multiples_of_others() -> None:
    batch, tiles, pairs = (torch.export.Dim(name, min=1, max=20) for name in ("batch", "tiles", "pairs"))
    model = Halved().eval()
    shapes = ({0: batch, 2: 8 * tiles}, {0: batch, 1: 2 * pairs + 1})
    program = torch.export.export(model, (torch.randn(2, 3, 16, 24), torch.randn(2, 9)), dynamic_shapes=shapes)
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu")
    for n, height, columns in ((2, 16, 9), (3, 24, 11), (1, 160, 21)):
        x, y = torch.randn(n, 3, height, 24), torch.randn(n, columns)
        with torch.no_grad():
            expected = model(x, y)
        for result, wanted in zip(machine.run(x.numpy(), y.numpy()), expected, strict=True):
            np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)
    y = np.zeros((2, 9), "float32")
    with pytest.raises(VMError, match=r"\(17 vs. 16\)"):
        machine.run(np.zeros((2, 3, 17, 24), "float32"), y)
    with pytest.raises(VMError, match="not in the range 8 to 160"):
        machine.run(np.zeros((2, 3, 168, 24), "float32"), y)
