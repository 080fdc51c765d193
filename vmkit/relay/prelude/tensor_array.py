"""What tensor arrays have in common: lists of values of a tensor type ``tensor_t``, and functions over them.

A function is made when first asked for, with all that it calls; so a module has those that it uses, where Relay gave
it all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar
from typing import Any as AnyValue

from tvm.ir import GlobalVar

from ...errors import ModelError, suggest
from ..ir import (
    Any,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalTypeVar,
    If,
    Match,
    PatternConstructor,
    PatternVar,
    PatternWildcard,
    TensorType,
    Type,
    TypeCall,
    TypeData,
    Var,
    const,
    define_type,
    find_constructor,
    scalar_type,
    type_definitions,
)
from ..op import build

if TYPE_CHECKING:
    from .prelude import Prelude

__all__ = ["TensorArrays", "first_dim", "unwrapped"]

INDEX = scalar_type("int32")


def unwrapped(constructor: Constructor, name: str, result: Callable[[Var], AnyValue]) -> Clause:
    """Return the clause for a constructor of one field, with a result that is made of the field."""
    field = Var(name)
    return Clause(PatternConstructor(constructor, [PatternVar(field)]), result(field))


def first_dim(tensor: Expr) -> Expr:
    """Return the length of the first axis, at run time."""
    return build("take", build("shape_of", tensor), const(0))


def is_equal(left: Expr, right: Expr) -> Expr:
    """Return whether two numbers are equal."""
    return build("equal", left, right)


def following(index: Expr) -> Expr:
    """Return the next index."""
    return build("add", index, const(1))


def preceding(index: Expr) -> Expr:
    """Return the index before."""
    return build("subtract", index, const(1))


def element(vector: Expr, index: Expr) -> Expr:
    """Return an element of a vector."""
    return build("take", vector, index)


class TensorArrays(ABC):
    """Functions over lists of ``tensor_t``; subclasses say what a ``tensor_t`` is.

    Parameters
    ----------
    prelude : Prelude
        The prelude of the module that gets the functions.
    dtype : str
        The element type of the tensors.
    """

    # Function, without data type and shape -> the method that makes it.
    MAKERS: ClassVar[dict[str, str]] = {
        "tensor_array": "define_tensor_array",
        "tensor_array_read": "define_tensor_array_read",
        "tensor_array_write": "define_tensor_array_write",
        "tensor_array_scatter": "define_tensor_array_scatter",
        "tensor_array_scatter_helper": "define_tensor_array_scatter",
        "tensor_array_split": "define_tensor_array_split",
        "ta_split_helper": "define_tensor_array_split",
        "tensor_array_concat": "define_tensor_array_concat",
        "tensor_array_stack": "define_tensor_array_stack",
        "tensor_array_gather": "define_tensor_array_gather",
        "tensor_array_gather_helper": "define_tensor_array_gather",
        "tensor_take": "define_tensor_take",
        "tensor_concatenate": "define_tensor_concatenate",
        "tensor_expand_dims": "define_tensor_expand_dims",
    }

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
    def constructors(self) -> list[tuple[str, list[Type]]]:
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

    def output(self) -> TensorArrays:
        """Return the tensor arrays of what taking a range, joining and splitting give."""
        return self

    def stacked(self) -> TensorArrays:
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

    @abstractmethod
    def define_tensor_take(self) -> None:
        """Make ``tensor_take(tensor, lower, upper)``: a range of the first axis."""

    @abstractmethod
    def define_tensor_concatenate(self) -> None:
        """Make ``tensor_concatenate(x, y)``, which joins two tensors along the first axis."""

    @abstractmethod
    def define_tensor_expand_dims(self) -> None:
        """Make ``tensor_expand_dims(x)``, which puts an axis of length 1 first."""

    def define_tensor_array(self) -> None:
        """Make ``tensor_array(n)``: n empty places."""
        if self.is_defined("tensor_array"):
            return
        n = Var("x", INDEX)
        self.define(
            self.get_name("tensor_array"),
            [n],
            self.array(),
            lambda again: If(
                is_equal(n, const(0)), self.nil(), self.cons(self.get_ctor("tensor_nil")(), again(preceding(n)))
            ),
        )

    def define_tensor_array_read(self) -> None:
        """Make ``tensor_array_read(array, n)``: the element at an index."""
        if self.is_defined("tensor_array_read"):
            return
        array, n = Var("tensor_array", self.array()), Var("x", INDEX)
        self.define(self.get_name("tensor_array_read"), [array, n], self.tensor(), lambda _: self.prelude.nth(array, n))

    def define_tensor_array_write(self) -> None:
        """Make ``tensor_array_write(array, n, v)``: an array with another element at an index."""
        if self.is_defined("tensor_array_write"):
            return
        array, n, v = Var("tensor_array", self.array()), Var("x", INDEX), Var("v", self.tensor())
        self.define(
            self.get_name("tensor_array_write"),
            [array, n, v],
            self.array(),
            lambda _: self.prelude.update(array, n, v),
        )

    def define_tensor_array_scatter(self) -> None:
        """Make ``tensor_array_scatter(array, indices, values)``: an array with other elements at some indices."""
        if not self.is_defined("tensor_array_scatter"):
            self.make_scatter(self.get_name, [Any()], first_dim)

    def make_scatter(
        self, name: Callable[[str], str], indices_shape: Sequence[AnyValue], count: Callable[[Expr], Expr]
    ) -> None:
        """Make the function, under the names that `name` gives; `count` gives the number of indices."""
        read, write = self.get_global_var("tensor_array_read"), self.get_global_var("tensor_array_write")
        indices_type = TensorType(indices_shape, "int32")
        array, current, limit = Var("ta", self.array()), Var("current", INDEX), Var("limit", INDEX)
        indices, values = Var("indices_", indices_type), Var("values_", self.array())

        def body(again: GlobalVar) -> If:
            written = write(array, element(indices, current), read(values, current))
            return If(is_equal(current, limit), array, again(written, following(current), limit, indices, values))

        params = [array, current, limit, indices, values]
        helper = self.define(name("tensor_array_scatter_helper"), params, self.array(), body)
        array, indices, values = (
            Var("tensor_array", self.array()),
            Var("indices", indices_type),
            Var("values", self.array()),
        )
        self.define(
            name("tensor_array_scatter"),
            [array, indices, values],
            self.array(),
            lambda _: helper(array, const(0), count(indices), indices, values),
        )

    def define_tensor_array_split(self) -> None:
        """Make ``tensor_array_split(array, value, lengths)``: an array filled with parts of a tensor."""
        if not self.is_defined("tensor_array_split"):
            self.make_split(self, [Any()], first_dim)

    def make_split(
        self, values: TensorArrays, lengths_shape: Sequence[AnyValue], count: Callable[[Expr], Expr]
    ) -> None:
        """Make the function for values of a type; `count` gives the number of lengths."""
        write, take = self.output().get_global_var("tensor_array_write"), values.get_global_var("tensor_take")
        array_type, lengths_type = self.output().array(), TensorType(lengths_shape, "int32")
        array, value = Var("tensor_array", array_type), Var("value1", values.tensor())
        offset, current, limit = Var("offset1", INDEX), Var("current1", INDEX), Var("limit1", INDEX)
        lengths = Var("lengths", lengths_type)

        def body(again: GlobalVar) -> If:
            end = build("add", offset, element(lengths, current))
            rest = again(array, value, end, following(current), limit, lengths)
            part = take(value, offset, build("add", element(lengths, current), offset))
            return If(is_equal(current, limit), array, write(rest, current, part))

        params = [array, value, offset, current, limit, lengths]
        helper = self.define(self.get_name("ta_split_helper"), params, array_type, body)
        array, value, lengths = (
            Var("tensor_array", array_type),
            Var("value", values.tensor()),
            Var("lengths", lengths_type),
        )
        self.define(
            self.get_name("tensor_array_split"),
            [array, value, lengths],
            array_type,
            lambda _: helper(array, value, const(0), const(0), count(lengths), lengths),
        )

    def define_tensor_array_concat(self) -> None:
        """Make ``tensor_array_concat(array)``: the elements joined along the first axis."""
        if self.is_defined("tensor_array_concat"):
            return
        joined = self.output().get_global_var("tensor_concatenate")
        array, head, tail = Var("tensor_array", self.output().array()), Var("hd"), Var("tl")

        def body(again: GlobalVar) -> Match:
            several = Clause(PatternWildcard(), joined(head, again(tail)))
            one = Clause(PatternConstructor(self.nil), head)
            pattern = PatternConstructor(self.cons, [PatternVar(head), PatternVar(tail)])
            none = Clause(PatternConstructor(self.nil), self.output().get_ctor("tensor_nil")())
            return Match(array, [none, Clause(pattern, Match(tail, [one, several], False))], False)

        self.define(self.get_name("tensor_array_concat"), [array], self.output().tensor(), body)

    def define_tensor_array_stack(self) -> None:
        """Make ``tensor_array_stack(array)``: the elements, of one shape, along a new first axis."""
        if self.is_defined("tensor_array_stack"):
            return
        expand = self.get_global_var("tensor_expand_dims")
        array = Var("tensor_array", self.array())
        expanded = self.prelude.map(expand, array)
        self.define(
            self.get_name("tensor_array_stack"),
            [array],
            self.stacked().tensor(),
            lambda _: self.joined_all(expanded),
        )

    def joined_all(self, expanded: Expr) -> Expr:
        """Return the elements of an array joined along the first axis."""
        joined = self.stacked().get_global_var("tensor_concatenate")
        return self.prelude.foldl(joined, self.prelude.hd(expanded), self.prelude.tl(expanded))

    def define_tensor_array_gather(self) -> None:
        """Make ``tensor_array_gather(array, indices)``: some elements along a new first axis."""
        if self.is_defined("tensor_array_gather"):
            return
        stack, read = self.get_global_var("tensor_array_stack"), self.get_global_var("tensor_array_read")
        result, indices_type = self.stacked().tensor(), TensorType([Any()], "int32")
        array, found = Var("ta", self.array()), Var("accu", self.array())
        current, limit, indices = Var("current", INDEX), Var("limit", INDEX), Var("indices_", indices_type)

        def body(again: GlobalVar) -> If:
            more = self.cons(read(array, element(indices, preceding(current))), found)
            return If(is_equal(current, const(0)), stack(found), again(array, more, preceding(current), limit, indices))

        params = [array, found, current, limit, indices]
        helper = self.define(self.get_name("tensor_array_gather_helper"), params, result, body)
        array, indices = Var("tensor_array", self.array()), Var("indices", indices_type)
        limit = first_dim(indices)
        self.define(
            self.get_name("tensor_array_gather"),
            [array, indices],
            result,
            lambda _: helper(array, self.nil(), limit, limit, indices),
        )

    def make_unstack(
        self, name: str, helper_name: str, tensor_type: TensorType, wrapped: Callable[[Expr], Expr], result: Type
    ) -> None:
        """Make a function that gives the slices of a tensor along its first axis, each wrapped, as an array."""
        tensor, up, i = Var("t", tensor_type), Var("up", INDEX), Var("i", INDEX)
        # Relay indexed vectors without an axis, which is the same.
        axis = {} if len(tensor_type.shape) == 1 and not self.has_static_shape else {"axis": 0}

        def body(again: GlobalVar) -> If:
            part = wrapped(build("take", tensor, i, **axis))
            return If(is_equal(i, up), self.nil(), self.cons(part, again(following(i), up, tensor)))

        helper = self.define(helper_name, [i, up, tensor], result, body)
        whole = Var("tensor", tensor_type)
        self.define(name, [whole], result, lambda _: helper(const(0), first_dim(whole), whole))
