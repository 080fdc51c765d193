"""The rules of ``SimplifyExpr``, by what they are about."""

from . import arithmetic, binomial, casts, concrete, layouts, quantized
from .matching import RULES

__all__ = ["RULES", "arithmetic", "binomial", "casts", "concrete", "layouts", "quantized"]
