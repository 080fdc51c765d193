"""Parallel two-dimensional convolutions of the same data become one with all their channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Call, Expr, Tuple
from ..op.registry import build
from .known_type import type_of
from .parallel_branches import Combination, combined, same_but_axis, slices
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["CombineParallelConv2D"]


@relay_pass(opt_level=4, name="CombineParallelConv2d")
def CombineParallelConv2D(min_num_branches: int = 3) -> ModuleTransform:
    """Return the pass that combines convolutions of the same data, and elementwise operators after them.

    Parameters
    ----------
    min_num_branches : int
        From how many branches on.
    """
    return per_function(lambda function: combined(function, _Convolutions(), min_num_branches))


class _Convolutions(Combination):
    name = "nn.conv2d"

    def may_begin(self, call: Call) -> bool:
        attrs = call.attrs
        layouts_are_plain = {attrs.data_layout, attrs.out_layout or attrs.data_layout} <= {"NCHW", "NHWC"}
        return (
            attrs.groups == 1
            and layouts_are_plain
            and attrs.out_layout in ("", attrs.data_layout)
            and sorted(attrs.kernel_layout) == sorted("OIHW")
            and isinstance(type_of(call.args[1]).shape[_output_axis(call)], int)
        )

    def may_join(self, one: Call, other: Call) -> bool:
        names = [f.name for f in one.attrs.declared if f.name not in ("channels", "kernel_size")]
        alike = all(_plain(getattr(one.attrs, n)) == _plain(getattr(other.attrs, n)) for n in names)
        return alike and same_but_axis(one.args[1], other.args[1], _output_axis(one))

    def begun(self, firsts: Sequence[Call]) -> Expr:
        one = firsts[0]
        axis = _output_axis(one)
        weight = build("concatenate", Tuple([c.args[1] for c in firsts]), axis=axis)
        values = {f.name: getattr(one.attrs, f.name) for f in one.attrs.declared}
        values["channels"] = sum(type_of(c.args[1]).shape[axis] for c in firsts)
        return Call(one.op, [one.args[0], weight], type(one.attrs)(**values))

    def operand(self, operands: Sequence[Expr], calls: Sequence[Call]) -> Expr | None:
        rank = len(type_of(calls[0]).shape)
        axes = [len(type_of(o).shape) - rank + _channel_axis(calls[0], rank) for o in operands]
        axis = axes[0]
        if axis < 0 or any(a != axis for a in axes):
            return None
        for operand, call in zip(operands, calls, strict=True):
            channels = type_of(call).shape[_channel_axis(call, rank)]
            if type_of(operand).shape[axis] != channels or not same_but_axis(operands[0], operand, axis):
                return None
        return build("concatenate", Tuple(list(operands)), axis=axis)

    def parts(self, whole: Expr, calls: Sequence[Call]) -> list[Expr]:
        return slices(whole, calls, all_axes=False)


def _plain(value: Any) -> Any:  # noqa: ANN401 - the value of any attribute
    return list(value) if hasattr(value, "__iter__") and not isinstance(value, str) else value


def _output_axis(call: Call) -> int:
    return call.attrs.kernel_layout.index("O")


def _channel_axis(call: Call, rank: int) -> int:
    """Return the axis of the channels in the result of a convolution, or of what follows one elementwise."""
    while call.op.name != "nn.conv2d":
        call = next(a for a in call.args if isinstance(a, Call) and len(type_of(a).shape) == rank)
    return call.attrs.data_layout.index("C")
