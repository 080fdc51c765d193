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
    """

    name: str
    gates: int
    states: Sequence[str]
    vectors: Mapping[str, int]
    functions: int

    @property
    def names(self) -> list[str]:
        """The operands, without the lengths."""
        return ["data", "weight", *self.states, *self.vectors]

    def type(self, attrs: Attrs, operands: Sequence[Type]) -> TupleType:
        """Return a layer's type: the hidden states of all steps (steps, batch, hidden), and the last of each state."""
        from ...kernels.gate_functions import gate_functions

        try:
            gate_functions(attrs.activations, self.functions)
        except ValueError as error:
            raise TypeCheckError(f"nn.contrib_{self.name}: {error}") from None
        names = [*self.names, "lengths"][: max(len(operands), len(self.names))]
        if len(operands) != len(names):
            raise TypeCheckError(f"nn.contrib_{self.name} takes {', '.join(names)}, not {len(operands)} operands")
        tensors = {name: require_tensor(ty, name) for name, ty in zip(names, operands, strict=True)}
        ranks = {"data": 3, "weight": 4, **dict.fromkeys(self.states, 2)}
        for name, tensor in tensors.items():
            require_rank(tensor, ranks.get(name, 1), name)
            wanted = ("int32", "int64") if name == "lengths" else ("float32",)
            if tensor.dtype not in wanted:
                raise TypeCheckError(f"{name} must be {' or '.join(wanted)}, not {tensor.dtype}")
        blocks, hidden, have, lanes = tensors["weight"].shape
        are_known = all(isinstance(d, int) for d in (blocks, hidden, lanes))
        if not are_known or have != self.gates or not 0 < lanes <= hidden or blocks != -(-hidden // lanes):
            raise TypeCheckError(f"weight must be (blocks, hidden, {self.gates}, lanes), not {tensors['weight']}")
        for name, axis, want in self._sizes([t.shape for t in tensors.values()]):
            size = tensors[name].shape[axis]
            if dims.equal(size, want) is False:
                raise TypeCheckError(f"dimension {axis} of {name} is {size}, expected {want}")
        steps, batch, _ = tensors["data"].shape
        last = TensorType([batch, hidden], "float32")
        return TupleType([TensorType([steps, batch, hidden], "float32"), *[last] * len(self.states)])

    def known(self, context: LowerContext, attrs: Attrs, operands: Sequence[relax.Expr]) -> dict[str, Any]:
        """Return what the kernels of all layers want to know when they are compiled."""
        _, hidden, _, lanes = context.shape(operands[1])
        lengths = operands[len(self.names) :]
        return {
            "hidden": hidden,
            "lanes": lanes,
            "functions": attrs.activations,
            "is_reverse": attrs.is_reverse,
            "clip": attrs.clip,
            "lengths": str(lengths[0].ty.dtype) if lengths else None,
        }

    def call(
        self, context: LowerContext, write: partial[tirx.PrimFunc], operands: Sequence[relax.Expr]
    ) -> tuple[relax.Expr, ...]:
        """Return the values of the kernel that a function of a layer's shape writes.

        What :meth:`type` could not know is checked at run time.
        """
        shapes = [context.shape(each) for each in operands]
        by_name = dict(zip([*self.names, "lengths"], shapes, strict=False))
        for name, axis, want in self._sizes(shapes):
            message = f"nn.contrib_{self.name}: dimension {axis} of {name} is {{actual}}, expected {{expected}}"
            context.require_equal(by_name[name][axis], want, message)
        steps, batch, _ = by_name["data"]
        hidden = by_name["weight"][1]
        results = [[steps, batch, hidden], *[[batch, hidden]] * len(self.states)]
        value = call_kernel(context, write, self.name, operands, *results)
        return tuple(context.emit(relax.TupleGetItem(value, i)) for i in range(len(results)))

    def _sizes(self, shapes: Sequence[Sequence[Dim]]) -> list[tuple[str, int, Dim]]:
        """Return which dimensions of the operands are to have which sizes."""
        batch, hidden = shapes[0][1], shapes[1][1]
        sizes = [("data", 2, self.gates * hidden)]
        sizes += [(name, 0, times * hidden) for name, times in self.vectors.items()]
        sizes += [(name, axis, size) for name in self.states for axis, size in enumerate((batch, hidden))]
        return sizes + [("lengths", 0, batch)] * (len(shapes) > len(self.names))
