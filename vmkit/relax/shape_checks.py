"""Casts that only compare sizes, which define nothing and hand nothing on.

They stand where :mod:`vmkit.relay.lower.checks` has put them. What they compare is known once the last of the symbols
is, so those that follow each other are one comparison, and equal ones are made once.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import tvm_ffi
from tvm import ir, relax

from .._tvm.running import array_items
from ..relay.ir.dims import structural_key
from ..relay.lower.checks import is_numbered
from .rewrite import nested_bindings, variables_in

__all__ = ["Check", "Checks", "is_check"]


class Check(NamedTuple):
    """A comparison of sizes; `key` is equal for equal ones."""

    key: tvm_ffi.StructuralKey
    given: tuple[ir.Expr, ...]
    asked: tuple[ir.Expr, ...]


def is_check(binding: relax.Binding) -> bool:
    """Say whether a cast compares sizes of a shape and gives a value to no symbol."""
    if not isinstance(binding, relax.MatchCast) or not isinstance(binding.ty, relax.ShapeType):
        return False
    asked = binding.ty.values
    return asked is not None and not any(isinstance(size, ir.Var) for size in array_items(asked))


class Checks:
    """The checks of a function, by the variables of the casts and of the shapes that are made for them alone.

    Attributes
    ----------
    done : set
        The keys of those that are made at the present place of the function.
    """

    def __init__(self, body: relax.SeqExpr) -> None:
        self.done: set[tvm_ffi.StructuralKey] = set()
        self._found: dict[ir.Var, Check | None] = {}
        bindings = list(nested_bindings(body))
        self._counts: Counter[ir.Var] = Counter()
        if not any(isinstance(binding, relax.MatchCast) for binding in bindings):
            return
        self._counts.update(variables_in(body))
        shapes = {b.var: b.value for b in bindings if isinstance(b.value, relax.ShapeExpr)}
        for binding in bindings:
            value = binding.value
            if not is_check(binding) or self.is_read(binding.var) or self._counts[value] != 2 or value not in shapes:
                continue
            given, asked = (tuple(array_items(each.values)) for each in (shapes[value], binding.ty))
            # Of what is compared at once, a failure is told by its place: each check is two sizes.
            if len(given) == len(asked) and is_numbered(asked):
                self._found[value] = None
                self._found[binding.var] = Check(structural_key(relax.ShapeExpr([*given, *asked])), given, asked)

    def is_read(self, variable: ir.Var) -> bool:
        """Say whether the value of a cast is read."""
        return self._counts[variable] > 1

    def __contains__(self, variable: ir.Var) -> bool:
        return variable in self._found

    def __getitem__(self, variable: ir.Var) -> Check | None:
        """Return the check of a cast; None for the shape that is made for one."""
        return self._found[variable]
