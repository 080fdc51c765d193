"""``--dump-offloads``: which operators of a model each code generator gets."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..._dataclasses import dataclass

if TYPE_CHECKING:
    import tvm

__all__ = ["dump_operation_offloads", "offloads"]

_GENERIC = "generic"
_WIDTH = 15
# A line of Relay's text that calls an operator: what it is called, after the name of its value.
_OPERATOR = re.compile(r"(?:%\w+ = )?([a-z][\w.]*)\(")
_COMMENT = re.compile(r" ?/\*.*?\*/")
_CALL = re.compile(r"(?:%\w+ = )?@(\w+)\(")


@dataclass(frozen=True)
class _Line:
    """A line of the table: where it goes, what it says, and whether it is an operator."""

    target: str
    text: str
    is_operator: bool


def dump_operation_offloads(mod: tvm.IRModule, where: str) -> None:
    """Write a table of the operators of a program that was cut for code generators.

    Parameters
    ----------
    mod : tvm.IRModule
        A Relay module; functions with the attribute ``Compiler`` go to that code generator, all else to the compiler.
    where : str
        A file, or ``"-"`` for the standard output.
    """
    text = offloads(mod)
    if where == "-":
        sys.stdout.write(text)
    else:
        Path(where).write_text(text, encoding="utf-8")


def offloads(mod: tvm.IRModule) -> str:
    """Return a table of the operators of a Relay program that was cut for code generators."""
    lines = list(_lines(mod))
    counts = Counter(line.target for line in lines if line.is_operator)
    rows = [f"{target}: {count}" for target, count in counts.items()]
    table = [
        "Total number of operators and distribution by targets",
        f"Total: {counts.total()}",
        *rows,
        "",
        *(f"{line.target:<{_WIDTH}}{'<-' if line.target else '  '}     {line.text}" for line in lines),
    ]
    return "\n".join(table) + "\n"


def _lines(mod: tvm.IRModule) -> Iterator[_Line]:
    """Yield the lines of ``main``, with those of each function of a code generator in the place of its call."""
    for text in _body(mod, "main"):
        called = _CALL.match(text)
        function = _function(mod, called[1]) if called else None
        generator = function.attrs.get("Compiler") if function is not None and function.attrs is not None else None
        if called is None or generator is None:
            yield _Line(_GENERIC if _OPERATOR.match(text) else "", text, bool(_OPERATOR.match(text)))
            continue
        for inner in _body(mod, called[1]):
            is_operator = bool(_OPERATOR.match(inner))
            yield _Line(str(generator) if is_operator else "", inner, is_operator)


def _function(mod: tvm.IRModule, name: str) -> tvm.ir.BaseFunc | None:
    return next((function for gvar, function in mod.functions.items() if gvar.name_hint == name), None)


def _body(mod: tvm.IRModule, name: str) -> list[str]:
    """Return the lines inside a function's braces, as the text format has them."""
    import tvm

    from vmkit.relay.text import astext

    alone = tvm.IRModule({"main": _function(mod, name)})
    text = astext(alone, show_meta_data=False)
    start, end = text.index("{"), text.rindex("}")
    lines = _COMMENT.sub("", text[start + 1 : end]).splitlines()
    return [line.strip().rstrip(";") for line in lines if line.strip(" {}")]
