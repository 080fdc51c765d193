"""Make functions of the groups of operators that a code generator takes as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm

from ...errors import ModelError
from ..analysis.infer_type import typed
from ..ir import Function
from ..transform.registry import ModuleTransform, on_functions, relay_pass
from .patterns import DFPattern
from .rewriting import partition

__all__ = ["MergeComposite"]


@relay_pass(opt_level=0)
def MergeComposite(pattern_table: Sequence[tuple[Any, ...]]) -> ModuleTransform:
    """Return the pass that makes calls of functions of what patterns describe.

    The functions have the attributes ``Composite``, the name in the table, and ``PartitionedFromPattern``, the
    operators that they are made of.

    Parameters
    ----------
    pattern_table : list of (str, DFPattern) or (str, DFPattern, callable)
        Names, patterns, and predicates that take what a pattern describes, with its type, and say whether it is taken.
        Rows come in turn: what one has taken is not there for those after it.

    Examples
    --------
    >>> import tvm
    >>> from vmkit import relay
    >>> from vmkit.relay.dataflow_pattern import is_op, wildcard
    >>> x = relay.var("x", shape=(2,))
    >>> table = [("npu.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())))]
    >>> mod = tvm.IRModule({"main": relay.Function([x], relay.nn.relu(x + x))})
    >>> str(relay.transform.MergeComposite(table)(mod)["main"].body.op.attrs["Composite"])
    'npu.add_relu'
    """
    rows = [_row(row) for row in pattern_table]

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = typed(mod)
        for name, pattern, check in rows:
            mod = on_functions(mod, _merging(name, pattern, check))
        return mod

    return on_module


def _row(row: tuple[Any, ...]) -> tuple[str, DFPattern, Callable[..., Any]]:
    if len(row) not in (2, 3) or not isinstance(row[1], DFPattern):
        raise ModelError(f"a row of a pattern table is a name, a pattern and perhaps a predicate, not {row!r}")
    return str(row[0]), row[1], row[2] if len(row) == 3 and row[2] is not None else lambda _: True


def _merging(name: str, pattern: DFPattern, check: Callable[..., Any]) -> Callable[[Function], Function]:
    def merged(function: Function) -> Function:
        made: Any = partition(pattern, function, {"Composite": name}, lambda expr: bool(check(expr)))
        return made

    return merged
