"""A PyTorch module, exported by torch.export and compiled once for every batch and length.

The exported program is compiled as it is, read by TVM's frontend: no file, no ONNX. Needs torch
(``pip install '.[torch]'``).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import vmkit

SIZES = ((2, 7), (1, 1), (3, 40))


class Tagger(nn.Module):
    """Scores of 5 tags for each of a sentence's words, by one layer of attention over those that the mask shows."""

    def __init__(self, words: int = 100, size: int = 32) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(words, size), nn.LayerNorm(size)
        self.parts, self.tags = nn.Linear(size, 3 * size), nn.Linear(size, 5)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        query, key, value = self.parts(self.norm(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / x.shape[-1] ** 0.5
        weights = scores.masked_fill(~mask[:, None, :], -1e9).softmax(-1)
        return self.tags(x + weights @ value).log_softmax(-1)


def sentences(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random words, and a mask that hides some of them."""
    return torch.randint(0, 100, (batch, length)), torch.rand(batch, length) > 0.3


def main() -> None:
    """Export at one size, compile, and compare with PyTorch at several."""
    torch.manual_seed(0)
    model = Tagger().eval()
    axes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=512)}
    program = torch.export.export(model, sentences(2, 7), dynamic_shapes={"ids": axes, "mask": axes})
    executable = vmkit.compile(program)

    machine = vmkit.VirtualMachine(executable, "cpu")
    for batch, length in SIZES:
        ids, mask = sentences(batch, length)
        tags = machine.run(ids.numpy(), mask.numpy()).numpy()
        with torch.inference_mode():
            expected = model(ids, mask).numpy()
        np.testing.assert_allclose(tags, expected, rtol=1e-4, atol=1e-5)
        print(f"{batch} sentences of {length} words: scores {tags.shape}")


if __name__ == "__main__":
    main()
