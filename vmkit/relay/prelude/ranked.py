"""Tensor arrays of tensors of any shape, up to rank 6; a value of their ``tensor_t`` tells its rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import ClassVar

from ..ir import Any, Call, Clause, Expr, Match, TensorType, Type, Var
from ..op import build
from .expressions import INDEX, unwrapped
from .names import ranked_name
from .tensor_array import TensorArrays

__all__ = ["TensorArrayOps"]

_MAX_RANK = 6


def _unstack_maker(rank: int) -> Callable[[TensorArrayOps], None]:
    def define(self: TensorArrayOps) -> None:
        name = f"tensor_array_unstack_tensor{rank}"
        if not self.is_defined(name):
            self.make_unstack(
                self.get_name(name),
                self.get_name(f"{name}_helper"),
                self.tensor_of(rank),
                self.get_ctor(f"tensor{rank - 1}"),
                self.array(),
            )

    define.__doc__ = f"Make ``{f'tensor_array_unstack_tensor{rank}'}(tensor)``: the slices of a tensor as an array."
    return define


class TensorArrayOps(TensorArrays):
    """Tensor arrays of an element type: ``tensor_float32_t`` and functions over lists of it.

    Examples
    --------
    >>> import tvm
    >>> from vmkit.relay.prelude import Prelude, TensorArrayOps
    >>> arrays = TensorArrayOps(Prelude(tvm.IRModule()), "float32")
    >>> arrays.get_global_var("tensor_array_stack").name_hint
    'tensor_array_stack_float32'
    """

    MAKERS: ClassVar[Mapping[str, str]] = {
        **TensorArrays.MAKERS,
        **{
            f"tensor_array_unstack_tensor{rank}{suffix}": f"define_tensor_array_unstack_tensor{rank}"
            for rank in range(1, _MAX_RANK + 1)
            for suffix in ("", "_helper")
        },
    }

    define_tensor_array_unstack_tensor1 = _unstack_maker(1)
    define_tensor_array_unstack_tensor2 = _unstack_maker(2)
    define_tensor_array_unstack_tensor3 = _unstack_maker(3)
    define_tensor_array_unstack_tensor4 = _unstack_maker(4)
    define_tensor_array_unstack_tensor5 = _unstack_maker(5)
    define_tensor_array_unstack_tensor6 = _unstack_maker(6)

    def get_name(self, canonical: str) -> str:
        """Return the name of a function, a constructor or the type ``tensor_t``."""
        return ranked_name(canonical, self.dtype)

    def constructors(self) -> list[tuple[str, Sequence[Type]]]:
        """Return the constructors: one for an empty place, one for each rank."""
        ranks = range(_MAX_RANK + 1)
        return [("tensor_nil", []), *((f"tensor{rank}", [self.tensor_of(rank)]) for rank in ranks)]

    def tensor_of(self, rank: int) -> TensorType:
        """Return the type of a tensor of a rank."""
        return TensorType([Any() for _ in range(rank)], self.dtype)

    def define_tensor_take(self) -> None:
        """Make ``tensor_take(tensor, lower, upper)``: a range of the first axis."""
        lower, upper = Var("lower", INDEX), Var("upper", INDEX)

        def part(rank: int, tensor: Var) -> Call:
            axis = {} if rank == 1 else {"axis": 0}
            return self._wrapped(rank, build("take", tensor, build("arange", lower, upper, dtype="int32"), **axis))

        self._define_by_rank("tensor_take", "tensor", [lower, upper], range(1, _MAX_RANK + 1), part)

    def define_tensor_expand_dims(self) -> None:
        """Make ``tensor_expand_dims(x)``, which puts an axis of length 1 first."""
        self._define_by_rank(
            "tensor_expand_dims",
            "x",
            [],
            range(_MAX_RANK),
            lambda rank, tensor: self._wrapped(rank + 1, build("expand_dims", tensor, 0, 1)),
        )

    def define_tensor_concatenate(self) -> None:
        """Make ``tensor_concatenate(x, y)``, which joins two tensors of a rank along the first axis."""
        other = Var("y", self.tensor())

        def joined(rank: int, left: Var) -> Match:
            constructor = self.get_ctor(f"tensor{rank}")
            clause = unwrapped(
                constructor,
                f"t{rank}2",
                lambda right: constructor(build("concatenate", [left, right], axis=0)),
            )
            return Match(other, [clause], False)

        self._define_by_rank("tensor_concatenate", "x", [other], range(1, _MAX_RANK + 1), joined)

    def _wrapped(self, rank: int, tensor: Expr) -> Call:
        return self.get_ctor(f"tensor{rank}")(tensor)

    def _define_by_rank(
        self,
        canonical: str,
        name: str,
        others: list[Var],
        ranks: Iterable[int],
        result: Callable[[int, Var], AnyValue],
    ) -> None:
        if self.is_defined(canonical):
            return
        value = Var(name, self.tensor())

        def clause(rank: int) -> Clause:
            return unwrapped(self.get_ctor(f"tensor{rank}"), f"t{rank}", lambda tensor: result(rank, tensor))

        self.define(
            self.get_name(canonical),
            [value, *others],
            self.tensor(),
            lambda _: Match(value, [clause(rank) for rank in ranks], False),
        )
