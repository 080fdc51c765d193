"""A tensor type ``tensor_t`` and the functions that go with it, by their names without data type and shape.

A function is made when first asked for, with all that it calls; so a module has those that it uses, where Relay gave
it all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar
from typing import Any as AnyValue

from tvm.ir import GlobalVar

from ...errors import ModelError, suggest
from ..ir import (
    Constructor,
    Function,
    GlobalTypeVar,
    Type,
    TypeCall,
    TypeData,
    Var,
    define_type,
    find_constructor,
    type_definitions,
)

if TYPE_CHECKING:
    from .prelude import Prelude

__all__ = ["Family"]


class Family(ABC):
    """A type ``tensor_t`` and functions that are made when first asked for; subclasses say what they are.

    Parameters
    ----------
    prelude : Prelude
        The prelude of the module that gets the functions.
    dtype : str
        The element type of the tensors.
    """

    # Function, without data type and shape -> the method that makes it.
    MAKERS: ClassVar[Mapping[str, str]] = {}
    # Whether the shape of the tensors is part of their type.
    has_static_shape: ClassVar[bool] = False

    def __init__(self, prelude: Prelude, dtype: str) -> None:
        self.prelude = prelude
        self.dtype = dtype
        self.list, self.cons, self.nil = prelude.get_type("List")
        self.define_tensor_adt()

    # -- names and what they name

    @abstractmethod
    def get_name(self, canonical: str) -> str:
        """Return the name of a function, a constructor or the type ``tensor_t``."""

    @abstractmethod
    def constructors(self) -> list[tuple[str, Sequence[Type]]]:
        """Return canonical names and fields of the constructors of ``tensor_t``."""

    @property
    def tensor_type_var(self) -> GlobalTypeVar:
        """The type ``tensor_t``."""
        return GlobalTypeVar(self.get_name("tensor_t"))

    def get_type(self, canonical: str = "tensor_t") -> GlobalTypeVar:
        """Return the type ``tensor_t``."""
        if canonical != "tensor_t":
            raise ModelError(f"tensor arrays have the type 'tensor_t', not {canonical!r}")
        return self.tensor_type_var

    def get_ctor(self, canonical: str) -> Constructor:
        """Return a constructor of ``tensor_t``; ModelError when there is none of that name."""
        return find_constructor(self.prelude.mod, self.get_name("tensor_t"), self.get_name(canonical))

    def get_global_var(self, canonical: str) -> GlobalVar:
        """Return a function, which is made if the module does not have it; ModelError when none has that name."""
        found = self.prelude.find_global(self.get_name(canonical))
        if found is not None:
            return found
        if canonical not in self.MAKERS:
            raise ModelError(f"tensor arrays have no function {canonical!r}{suggest(canonical, self.MAKERS)}")
        getattr(self, self.MAKERS[canonical])()
        found = self.prelude.find_global(self.get_name(canonical))
        if found is None:
            raise ModelError(f"{self.get_name('tensor_t')}, of scalars, has no function {canonical!r}")
        return found

    def register(self) -> None:
        """Make all functions."""
        for maker in dict.fromkeys(self.MAKERS.values()):
            getattr(self, maker)()

    # -- making

    def tensor(self) -> TypeCall:
        """Return the type of a value."""
        return TypeCall(self.tensor_type_var)

    def array(self) -> TypeCall:
        """Return the type of a tensor array."""
        return TypeCall(self.list, [self.tensor()])

    def output(self) -> Family:
        """Return the tensor arrays of what taking a range, joining and splitting give."""
        return self

    def stacked(self) -> Family:
        """Return the tensor arrays of what stacking gives."""
        return self

    def is_defined(self, canonical: str) -> bool:
        """Whether the module has a function already."""
        return self.prelude.find_global(self.get_name(canonical)) is not None

    def define(
        self, name: str, params: Sequence[Var], result: Type, body: Callable[[GlobalVar], AnyValue]
    ) -> GlobalVar:
        """Add a function to the module, or replace it; its body is given the function's own variable."""
        variable = self.prelude.find_global(name) or GlobalVar(name)
        self.prelude.mod[variable] = Function(params, body(variable), result)
        return variable

    def define_tensor_adt(self) -> None:
        """Make the type ``tensor_t``."""
        header = self.tensor_type_var
        if header.name_hint in type_definitions(self.prelude.mod):
            return
        made = [Constructor(self.get_name(name), fields, header) for name, fields in self.constructors()]
        define_type(self.prelude.mod, TypeData(header, [], made))
