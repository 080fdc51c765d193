"""``tvm.driver.tvmc.transform``: what is changed in a model before it is compiled."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..arguments import add_graph_changes
from .exceptions import TVMCException, reported

if TYPE_CHECKING:
    import tvm

__all__ = [
    "MixedPrecision",
    "apply_graph_transforms",
    "convert_graph_layout",
    "convert_to_mixed_precision",
    "generate_transform_args",
    "parse_graph_transform_args",
]

_DEFAULTS: dict[str, Any] = {
    "desired_layout": None,
    "desired_layout_ops": None,
    "mixed_precision": False,
    "mixed_precision_ops": None,
    "mixed_precision_calculation_type": "float16",
    "mixed_precision_acc_type": "float16",
}


def generate_transform_args(parser: argparse._ActionsContainer) -> None:
    """Add the options of layouts and of precision."""
    add_graph_changes(parser)


def parse_graph_transform_args(args: argparse.Namespace | Mapping[str, Any]) -> dict[str, Any]:
    """Return what arguments say of changes to a model, all of which have a value."""
    given = args if isinstance(args, Mapping) else vars(args)
    return {name: given.get(name, default) for name, default in _DEFAULTS.items()}


class MixedPrecision:
    """A scope in which some operators add up in a data type of their own when a model is converted.

    Parameters
    ----------
    ops : list of str
        Names of operators.
    acc_type : str
        What they add up in.
    """

    def __init__(self, ops: Sequence[str], acc_type: str) -> None:
        self.ops, self.acc_type = list(ops), acc_type
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> MixedPrecision:
        from vmkit.compiler.graph_changes import accumulating

        scope = accumulating(self.ops, self.acc_type)
        with reported():
            scope.__enter__()
        self._entered.append(scope)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)


def convert_to_mixed_precision(
    mod: tvm.IRModule,
    ops: Sequence[str] | None = None,
    calculation_type: str = "float16",
    acc_type: str = "float16",
) -> tvm.IRModule:
    """Return a model that computes in a data type of lower precision where that pays.

    Parameters
    ----------
    mod : tvm.IRModule
        A Relay module.
    ops : list of str, optional
        The operators that add up in `acc_type`; convolutions and dense layers by default.
    calculation_type, acc_type : str
        The data types to compute in, and to add up in.
    """
    from vmkit.compiler.graph_changes import MIXED_PRECISION_OPERATORS, in_lower_precision

    with reported(), MixedPrecision(ops or list(MIXED_PRECISION_OPERATORS), acc_type):
        return in_lower_precision(mod, calculation_type)


def convert_graph_layout(
    mod: tvm.IRModule, desired_layouts: str | Sequence[str], ops: Sequence[str] | None = None
) -> tvm.IRModule:
    """Return a model whose operators have other layouts.

    Parameters
    ----------
    mod : tvm.IRModule
        A Relay module.
    desired_layouts : str or list of str
        Of the data, as ``"NHWC"``, or of data and kernel, as ``"NHWC:HWIO"``: one, or one for each operator.
    ops : list of str, optional
        The operators; convolutions by default.

    Raises
    ------
    TVMCException
        For a layout or an operator that does not exist, and for another number of layouts.
    """
    from vmkit.compiler.graph_changes import LAYOUT_OPERATORS, with_layouts

    layouts = [desired_layouts] if isinstance(desired_layouts, str) else list(desired_layouts)
    if ops is None and len(layouts) > 1:
        raise TVMCException(
            f"--desired-layout has {len(layouts)} layouts; --desired-layout-ops says of which operators"
        )
    with reported():
        return with_layouts(mod, layouts, ops or LAYOUT_OPERATORS)


def apply_graph_transforms(
    mod: tvm.IRModule, args: Mapping[str, Any] | None, params: Mapping[str, Any] | None = None
) -> tvm.IRModule:
    """Return a model with the changes that :func:`parse_graph_transform_args` found; its `params` stay as they are.

    Raises
    ------
    TVMCException
        For what cannot be done, and for options of a change that is not asked for.
    """
    given = _DEFAULTS | dict(args or {})
    if given["desired_layout"]:
        mod = convert_graph_layout(mod, given["desired_layout"], given["desired_layout_ops"])
    elif given["desired_layout_ops"]:
        raise TVMCException("--desired-layout-ops names operators, but --desired-layout gives no layout")
    if given["mixed_precision"]:
        mod = convert_to_mixed_precision(
            mod,
            given["mixed_precision_ops"],
            given["mixed_precision_calculation_type"],
            given["mixed_precision_acc_type"],
        )
    elif given["mixed_precision_ops"]:
        raise TVMCException("--mixed-precision-ops names operators, but --mixed-precision is not given")
    return mod
