"""A-normal form: every value has a name, and the order of evaluation is written down.

C. Flanagan et al., "The essence of compiling with continuations", PLDI 1993.
"""

from __future__ import annotations

from typing import cast

from ..ir import Function, RelayExpr
from .normal_form import normalized
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["ToANormalForm", "ToANormalFormExpr", "to_a_normal_form"]


@relay_pass(opt_level=1)
def ToANormalForm() -> ModuleTransform:
    """Return the pass that binds every value by a Let; see :func:`to_a_normal_form`."""
    return per_function(lambda function: cast("Function", to_a_normal_form(function)))


def to_a_normal_form(expr: RelayExpr) -> RelayExpr:
    """Return an expression (or function) in which operands are variables, or names of globals and operators.

    What is used in several places is bound once, before all of them; a branch has its own bindings.
    """
    return normalized(expr, lambda _: True, bind_results=True)


def ToANormalFormExpr(expr: RelayExpr) -> RelayExpr:
    """Return one expression in A-normal form; see :func:`to_a_normal_form`."""
    return to_a_normal_form(expr)
