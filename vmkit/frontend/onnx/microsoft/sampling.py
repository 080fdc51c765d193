"""Sampling: a text goes on with tokens that are drawn."""

from __future__ import annotations

from typing import NoReturn

from ...._dataclasses import dataclass
from ....errors import UnsupportedOperatorError
from ....relay.ir import Expr
from ..context import Context
from ..registry import converter
from .language_model import Generation


@dataclass(frozen=True)
class Drawing(Generation):
    """The attributes of Sampling."""

    custom: int = 0
    filter_value: float = -1e20
    min_tokens_to_keep: int = 0
    presence_penalty: float = 0.0
    temperature: float = 1.0
    top_p: float = 0.0


@converter("Sampling", domain="com.microsoft")
def sampling(ctx: Context, *inputs: Expr | None, options: Drawing) -> NoReturn:
    """What is drawn depends on onnxruntime's random numbers, so there is nothing to agree with."""
    raise UnsupportedOperatorError(
        "it draws tokens at random; export the model with GreedySearch or BeamSearch, or export its decoder alone and "
        "draw tokens from the logits"
    )
