"""What the operators for one direction of a recurrent layer have in common: how their operands must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ...relay.ir import Dim, dims
from ...relay.ir.types import TensorType, TupleType, Type
from ...relay.op.attrs import Attrs
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.layout import require_rank
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["Layer"]


@dataclass(frozen=True)
class Layer:
    """The operands of a layer's operator: data, weight, states and vectors in order, and lengths, which may be absent.

    Attributes
    ----------
    name : str
        The kind of layer, for messages and the kernel.
    gates : int
        How many gates there are, in the weight (blocks, hidden, gates, lanes) and in the data (steps, batch, gates *
        hidden). The last of the blocks ends with the hidden units, and shares some with the block before.
    states : sequence of str
        The states, each (batch, hidden).
    vectors : mapping of str to int
        How many times the hidden size each is long.
    functions : int
        How many functions the gates have.
    has_lengths : bool
        Whether lengths may follow.
    """

    name: str
    gates: int
    states: Sequence[str]
    vectors: Mapping[str, int]
    functions: int
    has_lengths: bool = True

    @property
    def weights(self) -> Mapping[str, tuple[int, str]]:
        """The rank and the data type of each operand between the data and the states."""
        return {"weight": (4, "float32")}

    @property
    def names(self) -> list[str]:
        """The operands, without the lengths."""
        return ["data", *self.weights, *self.states, *self.vectors]

    def hidden_of(self, weights: Sequence[TensorType]) -> int:
        """Return how many hidden units weights are for; TypeCheckError where their shapes do not fit."""
        blocks, hidden, have, lanes = weights[0].shape
        are_known = all(isinstance(d, int) for d in (blocks, hidden, lanes))
        if not are_known or have != self.gates or not 0 < lanes <= hidden or blocks != -(-hidden // lanes):
            raise TypeCheckError(f"weight must be (blocks, hidden, {self.gates}, lanes), not {weights[0]}")
        return int(hidden)

    def type(self, attrs: Attrs, operands: Sequence[Type]) -> TupleType:
        """Return a layer's type: the hidden states of all steps (steps, batch, hidden), and the last of each state."""
        from ...kernels.gate_functions import gate_functions

        try:
            gate_functions(attrs.activations, self.functions)
        except ValueError as error:
            raise TypeCheckError(f"nn.contrib_{self.name}: {error}") from None
        names = [*self.names, *["lengths"] * self.has_lengths][: max(len(operands), len(self.names))]
        if len(operands) != len(names):
            raise TypeCheckError(f"nn.contrib_{self.name} takes {', '.join(names)}, not {len(operands)} operands")
        tensors = {name: require_tensor(ty, name) for name, ty in zip(names, operands, strict=True)}
        ranks = {"data": 3, **{name: rank for name, (rank, _) in self.weights.items()}, **dict.fromkeys(self.states, 2)}
        for name, tensor in tensors.items():
            require_rank(tensor, ranks.get(name, 1), name)
            own = self.weights[name][1] if name in self.weights else "float32"
            wanted = ("int32", "int64") if name == "lengths" else (own,)
            if tensor.dtype not in wanted:
                raise TypeCheckError(f"{name} must be {' or '.join(wanted)}, not {tensor.dtype}")
        hidden = self.hidden_of([tensors[name] for name in self.weights])
        for name, axis, want in self._sizes({n: t.shape for n, t in tensors.items()}, hidden):
            size = tensors[name].shape[axis]
            if dims.equal(size, want) is False:
                raise TypeCheckError(f"dimension {axis} of {name} is {size}, expected {want}")
        steps, batch, _ = tensors["data"].shape
        last = TensorType([batch, hidden], "float32")
        return TupleType([TensorType([steps, batch, hidden], "float32"), *[last] * len(self.states)])

    def known(self, context: LowerContext, attrs: Attrs, operands: Sequence[relax.Expr]) -> dict[str, Any]:
        """Return what the kernels of all layers want to know when they are compiled."""
        lengths = operands[len(self.names) :]
        batch = operands[0].ty.shape[1]
        return {
            "hidden": self._hidden(operands),
            "lanes": int(operands[1].ty.shape[3]),
            "functions": attrs.activations,
            "is_reverse": attrs.is_reverse,
            "clip": attrs.clip,
            "lengths": str(lengths[0].ty.dtype) if lengths else None,
            "batch": int(batch) if isinstance(batch, tirx.IntImm) else None,
        }

    def call(
        self, context: LowerContext, write: partial[tirx.PrimFunc], operands: Sequence[relax.Expr]
    ) -> tuple[relax.Expr, ...]:
        """Return the values of the kernel that a function of a layer's shape writes.

        What :meth:`type` could not know is checked at run time.
        """
        shapes = {n: context.shape(each) for n, each in zip([*self.names, "lengths"], operands, strict=False)}
        hidden = self._hidden(operands)
        for name, axis, want in self._sizes(shapes, hidden):
            message = f"nn.contrib_{self.name}: dimension {axis} of {name} is {{actual}}, expected {{expected}}"
            context.require_equal(shapes[name][axis], want, message)
        steps, batch, _ = shapes["data"]
        results = [[steps, batch, hidden], *[[batch, hidden]] * len(self.states)]
        value = call_kernel(context, write, self.name, operands, *results)
        return tuple(context.emit(relax.TupleGetItem(value, i)) for i in range(len(results)))

    def _hidden(self, operands: Sequence[relax.Expr]) -> int:
        weights = operands[1 : 1 + len(self.weights)]
        return self.hidden_of([TensorType([int(d) for d in w.ty.shape], str(w.ty.dtype)) for w in weights])

    def _sizes(self, shapes: Mapping[str, Sequence[Dim]], hidden: int) -> list[tuple[str, int, Dim]]:
        """Return which dimensions of the operands are to have which sizes."""
        batch = shapes["data"][1]
        sizes: list[tuple[str, int, Dim]] = [("data", 2, self.gates * hidden)]
        sizes += [(name, 0, times * hidden) for name, times in self.vectors.items()]
        sizes += [(name, axis, size) for name in self.states for axis, size in enumerate((batch, hidden))]
        return sizes + [("lengths", 0, batch)] * ("lengths" in shapes)
