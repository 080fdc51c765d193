"""C that other code generators wrote (:class:`vmkit.byoc.CSource`) as a file of a model, and the calls of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from .._dataclasses import dataclass
from ..byoc.c_module import ARRAY, CODE_BEGINS
from ..byoc.region import Region

__all__ = ["ForeignCode"]


@dataclass(frozen=True)
class ForeignCode:
    """The functions of a model that other code generators wrote.

    Attributes
    ----------
    prefix : str
        What the names of the model's functions begin with.
    sources : mapping of str to (Region, str)
        What each function is for, and its C, as :meth:`vmkit.byoc.CSource.source` returned it.
    """

    prefix: str
    sources: Mapping[str, tuple[Region, str]] = field(default_factory=dict)

    def file(self) -> str:
        """Return the file of the functions, each with one around it that other files see."""
        parts = [CODE_BEGINS]
        for symbol, (_, source) in self.sources.items():
            parts += [
                source,
                f"{self._head(symbol)};",
                f"{self._head(symbol)} {{\n  return {symbol}_run(values);\n}}\n",
            ]
        return "\n".join(parts)

    @property
    def failure(self) -> str:
        """What the entry returns, in words."""
        return "Returns 0, or -1 if C of another code generator fails." if self.sources else "Returns 0."

    def declarations(self) -> list[str]:
        """Return what a file declares that calls the functions."""
        return ["", ARRAY, *(f"{self._head(symbol)};" for symbol in self.sources)] if self.sources else []

    def _head(self, symbol: str) -> str:
        return f"int {self.prefix}_{symbol}(const vmkit_array* values)"

    def call(self, symbol: str, args: Sequence[tuple[str, Sequence[int]]]) -> Iterator[str]:
        """Yield the lines of a call, which leaves the entry where the function fails.

        Parameters
        ----------
        args : sequence of (str, sequence of int)
            Where the elements of each tensor are, and its shape.
        """
        yield "{"
        for place, (_, shape) in enumerate(args):
            yield f"  static const int64_t shape{place}[] = {{{', '.join(map(str, shape)) or '1'}}};"
        yield f"  vmkit_array values[{len(args)}];"
        for place, (address, shape) in enumerate(args):
            yield f"  values[{place}].data = (void*){address};"
            yield f"  values[{place}].ndim = {len(shape)};"
            yield f"  values[{place}].shape = shape{place};"
        yield f"  if ({self.prefix}_{symbol}(values) != 0) {{"
        yield "    return -1;"
        yield "  }"
        yield "}"
