"""Tables of patterns by the names of code generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ....errors import ModelError, suggest

__all__ = ["PatternRow", "PatternTable", "get_pattern_table", "pattern_tables", "register_pattern_table"]

PatternRow: TypeAlias = tuple[Any, ...]
"""A name such as ``"npu.conv2d_relu"``, a pattern, and perhaps a predicate of what the pattern describes."""

PatternTable: TypeAlias = Callable[[], Sequence[PatternRow]]

_TABLES: dict[str, PatternTable] = {}


def register_pattern_table(
    compiler: str, table: PatternTable | None = None
) -> Callable[[PatternTable], PatternTable] | PatternTable:
    """Register the function that returns the table of patterns of a code generator; may be used as a decorator.

    Parameters
    ----------
    compiler : str
        The name of the code generator; one that has a table gets another.
    table : callable, optional
        Returns the rows of ``relay.transform.MergeComposite``.

    Examples
    --------
    >>> from vmkit.relay.dataflow_pattern import is_op, wildcard
    >>> @register_pattern_table("some_npu")
    ... def table():
    ...     return [("some_npu.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())))]
    >>> [name for name, _ in get_pattern_table("some_npu")]
    ['some_npu.add_relu']
    """

    def register(made: PatternTable) -> PatternTable:
        _TABLES[compiler] = made
        return made

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Sequence[PatternRow]:
    """Return the rows of a code generator's table; ModelError with close names when it has none."""
    if compiler not in _TABLES:
        raise ModelError(f"no pattern table is registered for {compiler!r}{suggest(compiler, _TABLES)}")
    return _TABLES[compiler]()


def pattern_tables() -> list[str]:
    """Return the names of the code generators that have a table."""
    return sorted(_TABLES)
