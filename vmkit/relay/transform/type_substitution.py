"""Types with other types in the place of type variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import Type, TypeVar
from ..type_functor import TypeMutator

__all__ = ["TypeSubstitution"]


class TypeSubstitution(TypeMutator):
    """Puts types in the place of type variables; those that are not named stay.

    Parameters
    ----------
    types : mapping of TypeVar to Type
        What stands in the place of which.
    """

    def __init__(self, types: Mapping[Any, Type]) -> None:
        self.types = types

    def visit_type_var(self, ty: TypeVar) -> Type:
        return self.types.get(ty, ty)
