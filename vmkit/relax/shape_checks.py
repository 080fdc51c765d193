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
from .aliases import is_call
from .rewrite import bindings_of, nested_bindings, variables_in

__all__ = ["Check", "Checks", "is_check"]


class Check(NamedTuple):
    """A comparison of sizes; `key` is equal for equal ones, `variables` are those of its shape and its cast."""

    key: tvm_ffi.StructuralKey
    given: tuple[ir.Expr, ...]
    asked: tuple[ir.Expr, ...]
    variables: tuple[ir.Var, ir.Var]

    @property
    def number(self) -> int:
        """The number of its message."""
        return int(self.asked[1].value)


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
        self._behind: dict[ir.Var | None, list[Check]] = {}
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
                key = structural_key(relax.ShapeExpr([*given, *asked]))
                self._found[binding.var] = Check(key, given, asked, (value, binding.var))
        if self._found:
            self._follow(body, is_first=True)

    def _follow(self, sequence: relax.SeqExpr, is_first: bool = False) -> None:
        """Note the checks between which and a cast, or the beginning, nothing is done but to forget values."""
        row: list[Check] | None = self._behind.setdefault(None, []) if is_first else None
        for binding in bindings_of(sequence):
            if binding.var in self._found:
                check = self._found[binding.var]
                if check is not None and row is not None:
                    row.append(check)
                continue
            if isinstance(binding.value, relax.If):
                self._follow(binding.value.true_branch)
                self._follow(binding.value.false_branch)
            if isinstance(binding, relax.MatchCast):
                row = self._behind.setdefault(binding.var, [])
            elif not is_call(binding.value, "relax.vm.kill_object"):
                row = None

    def behind(self, cast: ir.Var | None) -> list[Check]:
        """Return the checks that follow a cast, or the beginning of the function, at once."""
        return self._behind.get(cast, [])

    def is_read(self, variable: ir.Var) -> bool:
        """Say whether the value of a cast is read."""
        return self._counts[variable] > 1

    def __contains__(self, variable: ir.Var) -> bool:
        return variable in self._found

    def __getitem__(self, variable: ir.Var) -> Check | None:
        """Return the check of a cast; None for the shape that is made for one."""
        return self._found[variable]
