"""Steps of decoders with the keys and values so far: GPT-2, Llama, Qwen."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from ..family import Tensors, family
from ..wrapped import Cached, cache_names, caches, ids

_LAYERS, _WORDS = 2, 1000
_PAST = cache_names(_LAYERS)
_OUTPUTS = ("logits", *cache_names(_LAYERS, prefix="present"))
_SIZES = tuple({"batch": b, "sequence": s, "past": p} for b, s, p in ((2, 3, 5), (1, 1, 9), (3, 4, 1), (2, 6, 0)))
_AXES: dict[str, dict[int, str]] = {
    "input_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "total"},
    **{name: {0: "batch", 2: "past"} for name in _PAST},
}
_NAMES = ("input_ids", "attention_mask")


def _step(heads: int, width: int) -> Any:
    def inputs(batch: int, sequence: int, past: int) -> Tensors:
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        mask[1:, :1] = 0  # padded on the left, as sequences that grow are
        return {
            "input_ids": ids(batch, sequence, _WORDS),
            "attention_mask": mask,
            **caches(_PAST, batch, heads, past, width),
        }

    return inputs


@family(inputs=_step(4, 16), axes=_AXES, sizes=_SIZES, outputs=_OUTPUTS)
def gpt2() -> torch.nn.Module:
    config = transformers.GPT2Config(vocab_size=_WORDS, n_embd=64, n_layer=_LAYERS, n_head=4, n_positions=64)
    return Cached(transformers.GPT2LMHeadModel(config), _NAMES)


@family(inputs=_step(4, 16), axes=_AXES, sizes=_SIZES, outputs=_OUTPUTS)
def gpt2_eager() -> torch.nn.Module:
    """GPT-2 with attention written out."""
    config = transformers.GPT2Config(
        vocab_size=_WORDS, n_embd=64, n_layer=_LAYERS, n_head=4, n_positions=64, attn_implementation="eager"
    )
    return Cached(transformers.GPT2LMHeadModel(config), _NAMES)


_SMALL = {
    "vocab_size": _WORDS, "hidden_size": 64, "num_hidden_layers": _LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 64,
}  # fmt: skip


@family(inputs=_step(2, 16), axes=_AXES, sizes=_SIZES, outputs=_OUTPUTS)
def llama() -> torch.nn.Module:
    """Rotated positions, RMS norms, keys and values that heads share."""
    return Cached(transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SMALL)), _NAMES)


@family(inputs=_step(2, 16), axes=_AXES, sizes=_SIZES, outputs=_OUTPUTS)
def qwen() -> torch.nn.Module:
    """Qwen 3: queries and keys are normalized too."""
    return Cached(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_SMALL, head_dim=16)), _NAMES)
