"""Recurrent and looping models: a tagger of sequences of different lengths, a search over beams."""

from __future__ import annotations

import torch
from torch import nn

from ..family import Tensors, family

_WORDS = 50


class _Tagger(nn.Module):
    """A bidirectional LSTM over packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, 16)
        self.layers = nn.LSTM(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(48, 7)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(words), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = self.layers(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])
        return self.tags(padded)


def _sentences(batch: int, length: int) -> Tensors:
    lengths = torch.randint(1, length + 1, (batch,))
    lengths[batch // 2] = length
    return {"words": torch.randint(0, _WORDS, (batch, length)), "lengths": lengths}


@family(
    inputs=_sentences,
    axes={"words": {0: "batch", 1: "length"}, "lengths": {0: "batch"}},
    sizes=tuple({"batch": b, "length": n} for b, n in ((3, 7), (1, 4), (5, 16))),
    without={"dynamo": "torch.export does not trace packed sequences"},
)
def tagger() -> nn.Module:
    return _Tagger()


class _Beams(nn.Module):
    """The best sequences that a recurrent model of language goes on with."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, 16)
        self.turn = nn.Linear(32, 16)
        self.words = nn.Linear(16, _WORDS)
        self.width = width

    def forward(self, state: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = state.size(0)
        states = state.unsqueeze(1).expand(batch, self.width, 16)
        scores = torch.full([batch, self.width], -1e4, dtype=torch.float32)
        scores[:, 0] = 0.0
        text = torch.zeros([batch, self.width, 1], dtype=torch.int64)
        for _ in range(int(steps)):
            last = self.embedding(text[:, :, -1])
            states = torch.tanh(self.turn(torch.cat([states, last], 2)))
            sums = scores.unsqueeze(2) + torch.log_softmax(self.words(states), 2)
            scores, best = torch.topk(sums.reshape(batch, self.width * 50), self.width)
            beams = torch.div(best, 50, rounding_mode="floor")
            words = best - beams * 50
            states = torch.gather(states, 1, beams.unsqueeze(2).expand(batch, self.width, 16))
            text = torch.gather(text, 1, beams.unsqueeze(2).expand(batch, self.width, text.size(2)))
            text = torch.cat([text, words.unsqueeze(2)], 2)
        return text, scores


def _start(batch: int, steps: int) -> Tensors:
    return {"state": torch.randn(batch, 16), "steps": torch.tensor(steps)}


@family(
    inputs=_start,
    axes={"state": {0: "batch"}, "steps": {}},
    sizes=tuple({"batch": b, "steps": n} for b, n in ((2, 4), (1, 1), (3, 9))),
    outputs=("text", "scores"),
    script=True,
    without={"dynamo": "torch.export does not trace a loop whose number of turns is data"},
)
def beam_search() -> nn.Module:
    return _Beams()
