"""Which variables are still needed, before and after each Let of a function in A-normal form.

Going backwards, what a value uses is needed before it, and what it binds is not (A. W. Appel, "Modern Compiler
Implementation in ML", chapter 10). There are no loops but recursion, so one walk suffices.
"""

from __future__ import annotations

from dataclasses import field

from ..._dataclasses import dataclass
from ...errors import ModelError
from ...stack import on_deep_stack
from ..ir import Function, If, Let, Match, RelayExpr, Var, children, free_vars, pattern_vars

__all__ = ["Liveness", "live_variables"]

Variables = frozenset[Var]


@dataclass(frozen=True, eq=False)
class Liveness:
    """The variables that are needed around each Let.

    Attributes
    ----------
    before, after : dict of Let to frozenset of Var
        Those needed when its value is computed, and those needed next: where it is an If or Match, in the branches.
    """

    before: dict[Let, Variables] = field(default_factory=dict)
    after: dict[Let, Variables] = field(default_factory=dict)


def live_variables(function: Function) -> Liveness:
    """Return which variables are needed around the Lets of a function.

    Functions within it are values, whose free variables they need, and are not looked into.

    Raises
    ------
    ModelError
        When the function is not in A-normal form; :func:`ToANormalForm` brings it there.
    """
    found = Liveness()
    on_deep_stack(_needed, function.body, frozenset(), found)
    return found


def _needed(expr: RelayExpr, after: Variables, found: Liveness) -> Variables:
    """Return the variables needed before an expression, after which some are needed; note those around its Lets."""
    chain: list[Let] = []
    while isinstance(expr, Let):
        chain.append(expr)
        expr = expr.body
    live = after | _uses(expr)
    for let in reversed(chain):
        value, rest = let.value, live - {let.var}
        match value:
            case If():
                branches = [_needed(branch, rest, found) for branch in (value.true_branch, value.false_branch)]
                used, found.after[let] = _uses(value.cond), frozenset().union(*branches)
            case Match():
                clauses = [_needed(c.rhs, rest, found) - frozenset(pattern_vars(c.lhs)) for c in value.clauses]
                used, found.after[let] = _uses(value.data), frozenset().union(*clauses)
            case _:
                used, found.after[let] = _uses(value), live
        live = used | (found.after[let] - {let.var})
        found.before[let] = live
    return live


def _uses(expr: RelayExpr) -> Variables:
    """Return the variables that an operand, or a value made of operands, uses."""
    if isinstance(expr, Var):
        return frozenset([expr])
    if isinstance(expr, Function):
        return frozenset(free_vars(expr))
    if isinstance(expr, Let | If | Match):
        raise ModelError(f"a {type(expr).__name__} stands in an expression: bring the function to A-normal form first")
    return frozenset().union(*map(_uses, children(expr)))
