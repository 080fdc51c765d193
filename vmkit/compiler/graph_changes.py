"""Changes that a caller may ask for before a model is compiled: other layouts, numbers of lower precision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import tvm

from .._dataclasses import dataclass
from ..errors import ModelError, OptionError, suggest
from ..relay import transform
from ..relay.ir import Function
from ..relay.op.mixed_precision import MIXED_PRECISION_ALWAYS, conversions

__all__ = [
    "LAYOUT_OPERATORS",
    "MIXED_PRECISION_OPERATORS",
    "MixedPrecision",
    "accumulating",
    "in_lower_precision",
    "with_layouts",
    "with_mixed_precision",
]

LAYOUT_OPERATORS = ("nn.conv2d", "nn.conv2d_transpose", "qnn.conv2d")
"""The operators whose layouts change where none are named."""

MIXED_PRECISION_OPERATORS = ("nn.conv2d", "nn.dense")
"""The operators that are told what to add up in where none are named."""


# Layouts of data without blocks: a block is the small letter of an axis behind its size.
_LAYOUTS = ("NCHW", "NHWC", "HWNC", "NCW", "NWC", "NCDHW", "NDHWC")


@dataclass(frozen=True)
class MixedPrecision:
    """What is computed in lower precision, and how.

    Parameters
    ----------
    operators
        The operators whose products are added up in `accumulator`. The others take part as they do by themselves.
    dtype
        The data type to compute in.
    accumulator
        The data type to add up in.
    """

    operators: Sequence[str] = MIXED_PRECISION_OPERATORS
    dtype: str = "float16"
    accumulator: str = "float16"


def with_layouts(
    mod: tvm.IRModule, layouts: Sequence[str], operators: Sequence[str] = LAYOUT_OPERATORS
) -> tvm.IRModule:
    """Return a Relay module whose operators have other layouts.

    Parameters
    ----------
    mod : tvm.IRModule
    layouts : list of str
        One for all operators, or one for each: of the data, as ``"NHWC"``, or of data and kernel, as ``"NHWC:HWIO"``.
    operators : list of str

    Raises
    ------
    OptionError
        If there are as many layouts as neither one nor the operators, or one of them does not exist.
    """
    if len(layouts) not in (1, len(operators)):
        raise OptionError(f"one layout for all operators or one for each, not {len(layouts)} for {len(operators)}")
    each = list(layouts) * (len(operators) // len(layouts))
    desired = {name: _data_and_kernel(layout) for name, layout in zip(operators, each, strict=True)}
    _require_relay(mod, "layouts")
    passes = [transform.InferType(), transform.RemoveUnusedFunctions(), transform.ConvertLayout(desired)]
    return _after([*passes, transform.FoldConstant()], mod)


def _data_and_kernel(layout: str) -> list[str]:
    data, colon, kernel = layout.partition(":")
    if sorted(letter for letter in data if letter.isupper()) not in map(sorted, _LAYOUTS):
        raise OptionError(
            f"there is no layout {data!r} of data{suggest(data, _LAYOUTS)}; there are such as NHWC, NCHW4c"
        )
    return [data, kernel if colon else "default"]


def with_mixed_precision(mod: tvm.IRModule, wanted: MixedPrecision) -> tvm.IRModule:
    """Return a Relay module in which some operators are computed in lower precision.

    Raises
    ------
    OptionError
        If an operator or a data type does not exist.
    """
    with accumulating(wanted.operators, wanted.accumulator):
        return in_lower_precision(mod, wanted.dtype)


def accumulating(operators: Sequence[str], dtype: str) -> AbstractContextManager[None]:
    """Return a scope in which operators that are computed in lower precision add up in a data type of their own.

    Raises
    ------
    OptionError
        When it is entered, if an operator does not exist.
    """

    def always(call: object, mixed: str) -> Sequence[int | str]:
        return [MIXED_PRECISION_ALWAYS, dtype, mixed]

    return conversions(dict.fromkeys(operators, always))


def in_lower_precision(mod: tvm.IRModule, dtype: str) -> tvm.IRModule:
    """Return a Relay module that computes in another data type where that pays; see :func:`accumulating`."""
    _require_relay(mod, "mixed precision")
    return _after([transform.InferType(), transform.ToMixedPrecision(dtype, missing_op_mode=2)], mod)


def _after(passes: Sequence[tvm.transform.Pass], mod: tvm.IRModule) -> tvm.IRModule:
    # Not as one: whoever asks for a change has it at every level of optimisation.
    for each in passes:
        mod = each(mod)
    return mod


def _require_relay(mod: tvm.IRModule, what: str) -> None:
    if not any(isinstance(function, Function) for function in mod.functions.values()):
        raise ModelError(f"{what} can be changed in Relay programs and in models that become one; this one is Relax")
