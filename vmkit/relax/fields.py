"""Fewer instructions between kernels: what is taken out of a tuple that was just made is what was put in.

Kernels of several results give a tuple of them. It would hold all of them as long as one is read, also those that
nobody reads, such as what a kernel sorts in.
"""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import ir, relax

from .._dataclasses import dataclass
from .rewrite import function_pass, nested_bindings, on_bindings, variables_in, with_branches

__all__ = ["fields_of_tuples"]


def fields_of_tuples() -> tvm.transform.Pass:
    """Return the pass, to be run when calls write into tensors, by which nobody takes what is known out of a tuple."""
    return function_pass("FieldsOfTuples", lambda function: _changed(function.body))


def _changed(body: relax.SeqExpr) -> relax.SeqExpr | None:
    tuples = {b.var: b.value for b in nested_bindings(body) if isinstance(b.value, relax.Tuple)}
    taken = {b.value.tuple_value for b in nested_bindings(body) if isinstance(b.value, relax.TupleGetItem)}
    if not taken & tuples.keys():
        return None
    made = _Fields(tuples, frozenset()).sequence(body)
    counts = Counter(variables_in(made))
    dead = frozenset(var for var in taken & tuples.keys() if counts[var] == 1)
    return _Fields({}, dead).sequence(made)


@dataclass(frozen=True)
class _Fields:
    """What is to change.

    Attributes
    ----------
    tuples
        Tuples of which the fields are known, by the variables that they are bound to.
    dead
        Variables of tuples that nobody reads.
    """

    tuples: dict[ir.Var, relax.Tuple]
    dead: frozenset[ir.Var]

    def sequence(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        """Return a sequence in which fields are read themselves, without the dead tuples."""
        return on_bindings(sequence, self.bindings)

    def bindings(self, binding: relax.Binding) -> list[relax.Binding]:
        """Return what becomes of a binding."""
        value = binding.value
        if binding.var in self.dead:
            return []
        if isinstance(value, relax.TupleGetItem) and isinstance(binding, relax.VarBinding):
            whole = self.tuples.get(value.tuple_value)
            field = None if whole is None else whole.fields[value.index]
            return [relax.VarBinding(binding.var, field)] if isinstance(field, ir.Var) else [binding]
        return [with_branches(binding, self.sequence)]
