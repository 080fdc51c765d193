"""``_test_type_solver`` of ``tvm.relay.analysis``: unification and type relations, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import tvm_ffi

from vmkit.errors import TypeCheckError
from vmkit.relay.ir import TensorType, Type, TypeRelation
from vmkit.relay.ir.type_solver import TypeSolver
from vmkit.relay.op import entry

from .op import RELATIONS

__all__ = ["CPP_FUNCTIONS", "Solver", "register_relations"]

_PREFIX = "tvm.relay.type_relation."


class Solver:
    """Solves relations between types; its methods are called by name, as ``solver("Solve")()``."""

    def __init__(self) -> None:
        self._solver = TypeSolver()
        self._open: list[TypeRelation] = []
        self._steps: dict[str, Callable[..., Any]] = {
            "AddConstraint": self._open.append,
            "Resolve": self._solver.apply,
            "Solve": self._solve,
            "Unify": self._unify,
        }

    def __call__(self, name: str) -> Callable[..., Any]:
        """Return a step: ``AddConstraint(relation)``, ``Solve()``, ``Unify(a, b)`` or ``Resolve(type)``."""
        return self._steps[name]

    def _unify(self, a: Type, b: Type) -> Type:
        return self._solver.apply(self._solver.unify(a, b))

    def _solve(self) -> bool:
        """Apply relations until none of them says more; return whether none is open."""
        while any(self._apply(relation) for relation in list(self._open)):
            pass
        return not self._open

    def _apply(self, relation: TypeRelation) -> bool:
        name = relation.func.name.removeprefix(_PREFIX)
        types = [self._solver.apply(t) for t in relation.args]
        if name == "Identity":
            for other in types[1:]:
                self._solver.unify(types[0], other)
        else:
            inputs = types[: relation.num_inputs]
            if not all(isinstance(t, TensorType) for t in inputs):
                return False
            self._solver.unify(entry(RELATIONS[name]).relation(relation.attrs, *inputs), types[-1])
        self._open.remove(relation)
        return True


def register_relations() -> None:
    """Let ``tvm.ir.EnvFunc.get("tvm.relay.type_relation.Broadcast")`` and its like find the relations by name."""
    for name in RELATIONS:

        def refuse(*_: Any, name: str = name) -> None:
            raise TypeCheckError(f"the relation {name} is applied by type inference, and not called by itself")

        tvm_ffi.register_global_func(_PREFIX + name, refuse, override=True)


CPP_FUNCTIONS = SimpleNamespace(_test_type_solver=Solver)
"""What there is of the functions that ``tvm.relay.analysis`` had from C++."""
