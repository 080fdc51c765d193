"""What a node of an exported program is called with, and what converters use of TVM's importer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from tvm import ir, relax, tirx

from ..._dataclasses import dataclass
from ...errors import UnsupportedOperatorError
from ...relax.rewrite import variables_in
from ...relay.lower.checks import RuntimeChecks
from ...relay.lower.read_sizes import ReadSizes

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["WAY", "Converter", "Importing", "Symbols", "arguments_of", "cast_to", "dtype_of", "refused"]

WAY = "a program of torch.export"


class Symbols:
    """The symbols of the values that an importer has, by name: of a program, and of each branch, which has its own."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def of(self, env: Mapping[fx.Node, Any]) -> Mapping[str, tirx.Expr]:
        """Return all symbols, those of values that are new among them."""
        known = self._at(env)
        for value in islice(env.values(), known.seen, None):
            ty = getattr(value, "ty", None)
            for size in ty.shape or () if isinstance(ty, relax.TensorType) else ():
                if not isinstance(size, tirx.IntImm):
                    known.by_name.update((var.name, var) for var in variables_in(size) if isinstance(var, ir.Var))
        known.seen = len(env)
        return known.by_name

    def note(self, env: Mapping[fx.Node, Any], symbol: tirx.Var) -> None:
        """Note a symbol that stands for a number which is read."""
        self.define(env, symbol.name, symbol)

    def define(self, env: Mapping[fx.Node, Any], name: str, value: tirx.Expr) -> None:
        """Note what a name of PyTorch's stands for, a symbol or a size that is computed of others."""
        self._at(env).by_name[name] = value

    def _at(self, env: Mapping[fx.Node, Any]) -> _Known:
        return self._known.setdefault(id(env), _Known(env))


@dataclass
class _Known:
    """The symbols of one table of values, which is kept so that no other one has its id; `seen` of them are noted."""

    env: Mapping[fx.Node, Any]
    by_name: dict[str, tirx.Expr] = field(default_factory=dict)
    seen: int = 0


class Importing(Protocol):
    """What converters use of TVM's importer, and what it is told beside."""

    block_builder: relax.BlockBuilder
    env: dict[fx.Node, Any]
    symbols: Symbols
    checks: RuntimeChecks
    read_sizes: ReadSizes
    convert_map: dict[str, Callable[[fx.Node], Any]]
    loops: dict[ir.GlobalVar, relax.Function]


Converter: TypeAlias = "Callable[[Importing, fx.Node], object]"


def arguments_of(node: fx.Node) -> list[Any]:
    """Return the arguments of a node in the order of its operator's schema, with the defaults of those left out."""
    schema = cast("Any", node.target)._schema.arguments
    return [*node.args, *(node.kwargs.get(a.name, a.default_value) for a in schema[len(node.args) :])]


def dtype_of(value: torch.Tensor | fx.Node) -> str:
    """Return the data type of a tensor of PyTorch's, or of a node's result, by its name in TVM."""
    tensor: Any = value if hasattr(value, "dtype") else value.meta["val"]
    return str(tensor.dtype).removeprefix("torch.")


def cast_to(importer: Importing, value: relax.Expr, dtype: str) -> relax.Expr:
    """Return a tensor in a data type."""
    return value if str(value.ty.dtype) == dtype else importer.block_builder.emit(relax.op.astype(value, dtype))


def refused(node: fx.Node, why: str) -> UnsupportedOperatorError:
    """Return the error that a node is not taken, and why."""
    return UnsupportedOperatorError(f"{WAY}: node {node.name!r} ({node.target}) {why}", [str(node.target)])
