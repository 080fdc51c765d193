"""What the operators for one direction of a recurrent layer have in common: how their operands must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, TupleType, Type
from ..elementwise import require_tensor
from ..registry import OpPattern
from .layout import require_rank

__all__ = ["call_layer", "layer_type"]


def layer_type(gates: int, operands: Mapping[str, Type], states: Sequence[str]) -> TupleType:
    """Return the type of a layer: the states of all steps (steps, batch, hidden), and the last (batch, hidden) of each.

    Parameters
    ----------
    gates : int
        How many gates there are, in the weight (hidden / lanes, hidden, gates, lanes) and in the data (steps, batch,
        gates * hidden).
    operands : mapping of str to Type
        The data, the weight, then vectors (hidden,) and states (batch, hidden).
    states : sequence of str
        Which of the operands are states.
    """
    tensors = {name: require_tensor(ty, name) for name, ty in operands.items()}
    ranks = {"data": 3, "weight": 4, **dict.fromkeys(states, 2)}
    for name, tensor in tensors.items():
        require_rank(tensor, ranks.get(name, 1), name)
        if tensor.dtype != "float32":
            raise TypeCheckError(f"{name} must be float32, not {tensor.dtype}")
    blocks, hidden, have, lanes = tensors["weight"].shape
    if not all(isinstance(d, int) for d in (blocks, hidden, lanes)) or have != gates or blocks * lanes != hidden:
        raise TypeCheckError(f"weight must be (hidden / lanes, hidden, {gates}, lanes), not {tensors['weight']}")
    steps, batch, width = tensors["data"].shape
    sizes = [("data", width, gates * hidden)]
    for name, tensor in tensors.items():
        if name not in ("data", "weight"):
            sizes += [(name, d, want) for d, want in zip(reversed(tensor.shape), (hidden, batch), strict=False)]
    for name, size, want in sizes:
        if dims.equal(size, want) is False:
            raise TypeCheckError(f"a dimension of {name} is {size} where {want} is expected")
    last = TensorType([batch, hidden], "float32")
    return TupleType([TensorType([steps, batch, hidden], "float32"), *[last] * len(states)])


def call_layer(
    context: Any, kernel: tirx.PrimFunc, kind: str, operands: Sequence[relax.Expr], gates: int, states: int
) -> tuple[relax.Expr, ...]:
    """Return the values of a layer's kernel; the last `states` of its operands are states.

    What :func:`layer_type` could not know is checked at run time.
    """
    data, weight, *others = operands
    steps, batch, width = context.shape(data)
    _, hidden, _, _ = context.shape(weight)
    checks = [(width, gates * hidden)]
    for each in others:
        checks += list(zip(reversed(context.shape(each)), (hidden, batch), strict=False))
    for have, want in checks:
        context.require_equal(
            have, want, f"nn.contrib_{kind}: a dimension is {{actual}} where {{expected}} is expected"
        )
    name = context.builder.add_func(kernel.with_attr("op_pattern", int(OpPattern.OPAQUE)), kind)
    shapes = [[steps, batch, hidden], *[[batch, hidden]] * states]
    types = [relax.TensorType([dims.as_expr(d) for d in shape], "float32") for shape in shapes]
    value = context.emit(relax.call_tir(name, list(operands), types))
    return tuple(context.emit(relax.TupleGetItem(value, i)) for i in range(len(types)))
