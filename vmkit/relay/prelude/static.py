"""Tensor arrays of tensors of one shape, whose dimensions may be unknown: nothing is found out at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar
from typing import Any as AnyValue

from ..ir import Any, Expr, Match, TensorType, Type, TypeCall, Var, const
from ..op import build
from .expressions import INDEX, first_dim, unwrapped
from .names import static_name
from .tensor_array import TensorArrays

if TYPE_CHECKING:
    from .prelude import Prelude

__all__ = ["StaticTensorArrayOps"]


class StaticTensorArrayOps(TensorArrays):
    """Tensor arrays of an element type and a shape: ``static_tensor_float32_2_3_t`` and functions over lists of it.

    For scalars there are no functions that take ranges, join, split, or give the slices of a tensor.

    Parameters
    ----------
    prelude : Prelude
        The prelude of the module that gets the functions.
    dtype : str
        The element type.
    shape : sequence of int or Any
        The shape of the tensors.
    batch_dim : int, optional
        1 where arrays that are stacked have one element.

    Examples
    --------
    >>> import tvm
    >>> from vmkit import relay
    >>> from vmkit.relay.prelude import Prelude, StaticTensorArrayOps
    >>> arrays = StaticTensorArrayOps(Prelude(tvm.IRModule()), "float32", (relay.Any(), 3))
    >>> arrays.get_global_var("tensor_array_read").name_hint
    'tensor_array_read_float32_any_3'
    """

    has_static_shape: ClassVar[bool] = True
    MAKERS: ClassVar[Mapping[str, str]] = {
        **TensorArrays.MAKERS,
        "tensor_array_unstack": "define_tensor_array_unstack",
        "tensor_array_unstack_helper": "define_tensor_array_unstack",
        "tensor_get_data": "define_tensor_get_data",
    }

    def __init__(self, prelude: Prelude, dtype: str, shape: Sequence[AnyValue], batch_dim: int | None = None) -> None:
        self.shape = tuple(shape)
        self.batch_dim = batch_dim
        super().__init__(prelude, dtype)

    def get_name(self, canonical: str, extra_shapes: Mapping[str, Sequence[AnyValue]] | None = None) -> str:
        """Return the name of a function, a constructor or the type ``tensor_t``."""
        return static_name(canonical, self.dtype, self.shape, self.batch_dim, extra_shapes)

    def constructors(self) -> list[tuple[str, Sequence[Type]]]:
        """Return the constructors: one for an empty place, one for a tensor."""
        return [("tensor_nil", []), ("tensor_constructor", [self.tensor_type()])]

    def tensor_type(self) -> TensorType:
        """Return the type of the tensors."""
        return TensorType(self.shape, self.dtype)

    def of_shape(self, shape: Sequence[AnyValue]) -> StaticTensorArrayOps:
        """Return the tensor arrays of another shape."""
        return StaticTensorArrayOps(self.prelude, self.dtype, shape, self.batch_dim)

    def output(self) -> StaticTensorArrayOps:
        """Return the tensor arrays of what taking a range, joining and splitting give."""
        return self.of_shape((Any(), *self.shape[1:]))

    def stacked(self) -> StaticTensorArrayOps:
        """Return the tensor arrays of what stacking gives."""
        # Stacking joins again and again, so the new axis has no one length, unless there is nothing to join.
        return self.of_shape((1 if self.batch_dim == 1 else Any(), *self.shape))

    def define_tensor_take(self) -> None:
        """Make ``tensor_take(tensor, lower, upper)``: a range of the first axis."""
        if not self.shape or self.is_defined("tensor_take"):
            return
        lower, upper = Var("lower", INDEX), Var("upper", INDEX)
        self._define_unwrapping(
            "tensor_take",
            Var("tensor", self.tensor()),
            [lower, upper],
            self.output().tensor(),
            lambda tensor: self.output().get_ctor("tensor_constructor")(
                build("take", tensor, build("arange", lower, upper, dtype="int32"), axis=0)
            ),
        )

    def define_tensor_concatenate(self) -> None:
        """Make ``tensor_concatenate(x, y)``, which joins two tensors along the first axis."""
        if not self.shape or self.is_defined("tensor_concatenate"):
            return
        other = Var("y", self.tensor())
        wrap, constructor = self.output().get_ctor("tensor_constructor"), self.get_ctor("tensor_constructor")

        def joined(left: Var) -> Match:
            clause = unwrapped(constructor, "t2", lambda right: wrap(build("concatenate", [left, right], axis=0)))
            return Match(other, [clause], False)

        value = Var("x", self.tensor())
        self._define_unwrapping("tensor_concatenate", value, [other], self.output().tensor(), joined)

    def define_tensor_expand_dims(self) -> None:
        """Make ``tensor_expand_dims(x)``, which puts an axis of length 1 first."""
        if self.is_defined("tensor_expand_dims"):
            return
        self._define_unwrapping(
            "tensor_expand_dims",
            Var("x", self.tensor()),
            [],
            self.stacked().tensor(),
            lambda tensor: self.stacked().get_ctor("tensor_constructor")(build("expand_dims", tensor, 0, 1)),
        )

    def define_tensor_get_data(self) -> None:
        """Make ``tensor_get_data(tensor)``: the tensor in a ``tensor_t``."""
        if self.is_defined("tensor_get_data"):
            return
        value = Var("tensor", self.tensor())
        self._define_unwrapping("tensor_get_data", value, [], self.tensor_type(), lambda tensor: tensor)

    def define_tensor_array_unstack(self) -> None:
        """Make ``tensor_array_unstack(tensor)``: the slices of a tensor along its first axis, as an array."""
        if not self.shape or self.is_defined("tensor_array_unstack"):
            return
        slices = self.of_shape(self.shape[1:])
        self.make_unstack(
            self.get_name("tensor_array_unstack"),
            self.get_name("tensor_array_unstack_helper"),
            self.tensor_type(),
            slices.get_ctor("tensor_constructor"),
            slices.array(),
        )

    def define_tensor_array_scatter(
        self, indices_shape: Sequence[AnyValue] | None = None, force_update: bool = False
    ) -> None:
        """Make ``tensor_array_scatter(array, indices, values)``: an array with other elements at some indices.

        Parameters
        ----------
        indices_shape : sequence of int or Any, optional
            The shape of the indices, which the function's name then tells.
        force_update : bool
            Whether a function that is there is made anew.
        """
        extra = None if indices_shape is None else {"indices": tuple(indices_shape)}
        name = self.get_name("tensor_array_scatter", extra)
        if self.prelude.find_global(name) is not None and not force_update:
            return
        self.make_scatter(
            lambda canonical: self.get_name(canonical, extra),
            [Any()] if indices_shape is None else indices_shape,
            _counter(indices_shape),
        )

    def define_tensor_array_split(
        self,
        value_shape: Sequence[AnyValue] | None = None,
        lengths_shape: Sequence[AnyValue] | None = None,
        force_update: bool = False,
    ) -> None:
        """Make ``tensor_array_split(array, value, lengths)``: an array filled with parts of a tensor.

        Parameters
        ----------
        value_shape : sequence of int or Any, optional
            The shape of the tensor; by default that of the array's tensors.
        lengths_shape : sequence of int or Any, optional
            The shape of the lengths of the parts.
        force_update : bool
            Whether a function that is there is made anew.
        """
        if not self.shape or (self.is_defined("tensor_array_split") and not force_update):
            return
        self.make_split(
            self if value_shape is None else self.of_shape(value_shape),
            [Any()] if lengths_shape is None else lengths_shape,
            _counter(lengths_shape),
        )

    def define_tensor_array_concat(self) -> None:
        """Make ``tensor_array_concat(array)``: the elements joined along the first axis."""
        if self.shape:
            super().define_tensor_array_concat()

    def joined_all(self, expanded: Expr) -> Expr:
        """Return the elements of an array joined along the first axis."""
        if self.batch_dim == 1:
            return self.prelude.id(self.prelude.hd(expanded))
        return super().joined_all(expanded)

    def _define_unwrapping(
        self, canonical: str, value: Var, others: list[Var], result: Type | TypeCall, body: Callable[..., Expr]
    ) -> None:
        clause = unwrapped(self.get_ctor("tensor_constructor"), "t", body)
        self.define(self.get_name(canonical), [value, *others], result, lambda _: Match(value, [clause], False))


def _counter(shape: Sequence[AnyValue] | None) -> AnyValue:
    """Return a function that gives the number of elements of a vector: known here, or at run time."""
    if shape is None or isinstance(shape[0], Any):
        return first_dim
    return lambda _: const(int(shape[0]))
