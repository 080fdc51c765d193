"""What a node of an exported program is called with, and what converters use of TVM's importer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from tvm import relax

if TYPE_CHECKING:
    from torch import fx

__all__ = ["Converter", "Importing", "arguments_of", "cast_to"]


class Importing(Protocol):
    """What converters use of TVM's importer."""

    block_builder: relax.BlockBuilder
    env: dict[fx.Node, Any]


Converter: TypeAlias = "Callable[[Importing, fx.Node], object]"


def arguments_of(node: fx.Node) -> list[Any]:
    """Return the arguments of a node in the order of its operator's schema, with the defaults of those left out."""
    schema = cast("Any", node.target)._schema.arguments
    return [*node.args, *(node.kwargs.get(a.name, a.default_value) for a in schema[len(node.args) :])]


def cast_to(importer: Importing, value: relax.Expr, dtype: str) -> relax.Expr:
    """Return a tensor in a data type."""
    return value if str(value.ty.dtype) == dtype else importer.block_builder.emit(relax.op.astype(value, dtype))
