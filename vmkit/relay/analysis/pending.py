"""Steps of type inference that wait until the types they start from are known."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tvm_ffi

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ..ir import dims
from ..ir.dim import Any as AnyDim
from ..ir.expr import Call, TupleGetItem
from ..ir.type_solver import TypeSolver
from ..ir.types import IncompleteType, TensorType, TupleType, Type, brief_type_text
from ..op.attrs import Attrs
from ..op.registry import OpEntry, entry
from ..op.storage import check_element_types

__all__ = ["Pending", "Projection", "Relation", "apply_relation", "described"]


@dataclass(eq=False)
class Pending(abc.ABC):
    """A step that waits.

    Attributes
    ----------
    expr : Expr
        The expression whose type it finds.
    inputs : sequence of Type
        The types it starts from.
    result : Type
        The type it finds: a hole until then.
    where : str
        The function that the expression stands in.
    """

    expr: Any
    inputs: Sequence[Type]
    result: Type
    where: str

    def is_ready(self, solver: TypeSolver) -> bool:
        """Say whether enough is known; what follows from the rest is filled in first."""
        return all(solver.is_known(t) for t in self.inputs)

    @abc.abstractmethod
    def conclude(self, solver: TypeSolver) -> Type:
        """Return the type; TypeCheckError where the inputs do not allow one."""

    @abc.abstractmethod
    def missing(self, solver: TypeSolver) -> str:
        """Return what is not known."""


class Relation(Pending):
    """The type relation of an operator."""

    @property
    def made(self) -> OpEntry:
        return entry(self.expr.op)

    def is_ready(self, solver: TypeSolver) -> bool:
        infer_inputs = self.made.infer_inputs
        if infer_inputs is not None and not super().is_ready(solver):
            call: Call = self.expr
            for position, ty in infer_inputs(call.attrs, *(solver.apply(t) for t in self.inputs)).items():
                solver.unify(self.inputs[position], ty)
        return super().is_ready(solver)

    def conclude(self, solver: TypeSolver) -> Type:
        types = [solver.apply(t) for t in self.inputs]
        try:
            return apply_relation(self.made, self.expr.attrs, types)
        except TypeCheckError as error:
            raise TypeCheckError(described(self.made.name, types, error)) from None

    def missing(self, solver: TypeSolver) -> str:
        names = [n for n, t in zip(self.made.inputs, self.inputs, strict=False) if not solver.is_known(t)]
        return f"the type of {', '.join(names) or 'an input'} of {self.made.name}"


class Projection(Pending):
    """A field taken of a tuple, of which only the outermost level has to be known."""

    def is_ready(self, solver: TypeSolver) -> bool:
        return not isinstance(solver.resolve(self.inputs[0]), IncompleteType)

    def conclude(self, solver: TypeSolver) -> Type:
        item: TupleGetItem = self.expr
        ty = solver.resolve(self.inputs[0])
        if not isinstance(ty, TupleType):
            raise TypeCheckError(f"a field is taken of {brief_type_text(solver.apply(ty))}, which is no tuple")
        if not 0 <= item.index < len(ty.fields):
            text = brief_type_text(solver.apply(ty))
            raise TypeCheckError(f"field {item.index} is taken of {text}, which has {len(ty.fields)}")
        return ty.fields[item.index]

    def missing(self, solver: TypeSolver) -> str:
        return f"the type of the tuple of which field {self.expr.index} is taken"


def apply_relation(made: OpEntry, attrs: Attrs | None, types: Sequence[Type]) -> Type:
    """Return the type of an operator's result for types of its inputs."""
    if not made.is_variadic and len(types) != len(made.inputs):
        expected = f"{len(made.inputs)} arguments ({', '.join(made.inputs)})"
        raise TypeCheckError(f"it takes {expected}, got {len(types)}")
    return _related(made, _Same((attrs, *types)))


class _Same:
    """Objects as a key: equal to the same objects alone. Most types cannot be hashed, being equal by what they say."""

    __slots__ = ("_addresses", "objects")

    def __init__(self, objects: tuple[Any, ...]) -> None:
        self.objects = objects  # while they are held, nothing else has their addresses
        self._addresses = tuple([0 if each is None else each.__chandle__() for each in objects])

    def __hash__(self) -> int:
        return hash(self._addresses)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._addresses == other._addresses


@lru_cache(1 << 14)
def _related(made: OpEntry, key: _Same) -> Type:
    """Return the type of a result, for attributes and types of inputs: what a pass leaves alone is found again."""
    attrs, *types = key.objects
    result = _in_short(made.relation(attrs, *types))
    check_element_types(made.name, attrs, types, result)
    return _one_of_equal(tvm_ffi.StructuralKey(result))  # type: ignore[call-arg] # as in vmkit.relax.size_names


def _in_short(ty: Type) -> Type:
    """Return a type of which sizes that are too long to compute with are left to the run; others as they are."""
    if isinstance(ty, TensorType) and any(map(dims.has_too_many_choices, ty.shape)):
        return TensorType([AnyDim() if dims.has_too_many_choices(d) else d for d in ty.shape], ty.dtype)
    if isinstance(ty, TupleType):
        fields = [_in_short(field) for field in ty.fields]
        if any(short is not field for short, field in zip(fields, ty.fields, strict=True)):
            return TupleType(fields)
    return ty


@lru_cache(1 << 12)
def _one_of_equal(key: tvm_ffi.StructuralKey) -> Type:
    """Return the same type for all that are equal, so that what follows from it is found again."""
    found: Type = key.key
    return found


def described(name: str, types: Sequence[Type], error: TypeCheckError) -> str:
    """Return the text of an error of an operator's relation, with what the operator was given."""
    return f"{name}({', '.join(brief_type_text(t) for t in types)}): {error}"
