"""Functions over tensor arrays, which are lists of values of a tensor type ``tensor_t``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import ClassVar

from tvm.ir import GlobalVar

from ..ir import (
    Any,
    Clause,
    Expr,
    If,
    Match,
    PatternConstructor,
    PatternVar,
    PatternWildcard,
    TensorType,
    Type,
    Var,
    const,
)
from ..op import build
from .expressions import INDEX, element, first_dim, following, is_equal, preceding
from .family import Family

__all__ = ["TensorArrays"]


class TensorArrays(Family):
    """Functions over lists of ``tensor_t``; subclasses say how its values are taken apart."""

    # Function, without data type and shape -> the method that makes it.
    MAKERS: ClassVar[Mapping[str, str]] = {
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
        count = first_dim(indices)
        self.define(
            self.get_name("tensor_array_gather"),
            [array, indices],
            result,
            lambda _: helper(array, self.nil(), count, count, indices),
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
