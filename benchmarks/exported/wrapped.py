"""Models of transformers as modules that take tensors by position and return tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import transformers.integrations.executorch
import transformers.masking_utils
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

__all__ = ["Cached", "Wrapped", "cache_names", "caches", "ids", "masks_for_tracing"]


@contextlib.contextmanager
def masks_for_tracing() -> Iterator[None]:
    """Let transformers make masks by broadcasting: those it makes by vmap the older exporter cannot trace."""
    masks = transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    before = dict(masks._global_mapping)
    without_vmap = transformers.integrations.executorch.sdpa_mask_without_vmap

    def eager(*args: Any, dtype: torch.dtype = torch.float32, **options: Any) -> torch.Tensor:
        options |= {"allow_is_causal_skip": False, "allow_torch_fix": False}
        kept = without_vmap(*args, **options)
        return torch.where(kept, torch.tensor(0.0, dtype=dtype), torch.finfo(dtype).min)

    masks._global_mapping.update({"sdpa": without_vmap, "eager": eager})
    try:
        yield
    finally:
        masks._global_mapping.update(before)


def ids(batch: int, sequence: int, words: int) -> torch.Tensor:
    """Return random ids."""
    return torch.randint(0, words, (batch, sequence))


class Wrapped(torch.nn.Module):
    """A model called by position: inputs of the given names, and the first of its results that are tensors."""

    def __init__(self, model: Any, names: Sequence[str], first: int | None = None, **options: Any) -> None:
        super().__init__()
        self.model, self.names, self.first, self.options = model, tuple(names), first, options

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = dict(zip(self.names, inputs, strict=True))
        result = self.model(**given, **self.options, return_dict=False)
        if isinstance(result, torch.Tensor):
            return result
        found = tuple(r for r in result[: self.first] if isinstance(r, torch.Tensor))
        return found[0] if len(found) == 1 else found


class Cached(torch.nn.Module):
    """A decoder's step: inputs of the given names, then keys and values of each layer; logits and grown ones out.

    Parameters
    ----------
    model : module
        The decoder.
    names : sequence of str
        What is given before the keys and values.
    crossed : bool
        Whether each layer has keys and values of an encoder too, after its own. They do not grow and do not come out.
    """

    def __init__(self, model: Any, names: Sequence[str], crossed: bool = False, **options: Any) -> None:
        super().__init__()
        self.model, self.names, self.crossed, self.options = model, tuple(names), crossed, options

    def forward(self, *inputs: torch.Tensor) -> Any:
        count = len(self.names)
        given: dict[str, Any] = dict(zip(self.names, inputs[:count], strict=True))
        if "encoder_hidden_states" in given:
            given["encoder_outputs"] = (given.pop("encoder_hidden_states"),)
        width = 4 if self.crossed else 2
        past = inputs[count:]
        layers = tuple(past[i : i + width] for i in range(0, len(past), width))
        cache = (EncoderDecoderCache if self.crossed else DynamicCache).from_legacy_cache(layers)
        result = self.model(**given, past_key_values=cache, use_cache=True, **self.options)
        grown = [tensor for layer in result.past_key_values.to_legacy_cache() for tensor in layer[:2]]
        return (result.logits, *grown)


def cache_names(layers: int, crossed: bool = False, prefix: str = "past") -> list[str]:
    """Return the names of keys and values, in the order in which :class:`Cached` takes them."""
    kinds = ("key", "value", "encoder_key", "encoder_value") if crossed else ("key", "value")
    return [f"{prefix}_{kind}_{layer}" for layer in range(layers) for kind in kinds]


def caches(names: Sequence[str], batch: int, heads: int, past: int, width: int, encoded: int = 0) -> dict[str, Any]:
    """Return random keys and values of a length that was reached."""
    return {n: torch.randn(batch, heads, encoded if "encoder" in n else past, width) for n in names}
