"""The metadata section of a text: what ``meta[key][index]`` stands for, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi

from ...errors import ModelError, suggest
from .lexer import Token

if TYPE_CHECKING:
    from ..json import NodeReader
    from .cursor import Cursor

__all__ = ["OMITTED", "MetaNodes", "MetaSection", "MetaTable"]

MetaNodes = Mapping[str, Sequence[Any]]

OMITTED = """/* For debugging purposes the metadata section has been omitted.
 * If you would like to see the full metadata section you can set the 
 * option to `True` when invoking `astext`. 
 */"""  # noqa: W291 - Relay's own words


class MetaTable:
    """The nodes of the metadata section of a text that is parsed; each is read when it is first asked for.

    `given` has further nodes, by key; they are counted after those of the section.
    """

    def __init__(self, cursor: Cursor, section: Token | None, given: MetaNodes) -> None:
        self._cursor = cursor
        self._section = section
        self._given = given
        self._reader: NodeReader | None = None
        self._indices: dict[str, list[int]] = {}
        if section is not None:
            self._open(section)

    def _open(self, section: Token) -> None:
        from ..json import NodeReader  # most texts have no such section

        begin = section.end - len(section.value)
        try:
            self._reader = NodeReader(json.loads(section.value))
            self._indices = self._reader.index_table()
        except json.JSONDecodeError as error:
            self._cursor.fail(begin + error.pos, f"the metadata section is not valid JSON: {error.msg}")
        except RecursionError:
            self._cursor.fail(section, "the metadata section is nested too deeply")
        except ModelError as error:
            self._cursor.fail(section, f"the metadata section is malformed: {error}")

    def find(self, token: Token, expected: type | tuple[type, ...], what: str) -> Any:
        """Return the node that a reference means, which must be of the expected class.

        Raises
        ------
        ParseError
            When the section has no such node, or it is not what is needed there.
        """
        node = self.read(token)
        if not isinstance(node, expected):
            key, index = token.value
            self._cursor.fail(token, f"meta[{key}][{index}] is a {type(node).__name__}; expected {what}")
        return node

    def read(self, token: Token) -> Any:
        """Return the node that a reference means."""
        key, index = token.value
        entries, given = self._indices.get(key, []), self._given.get(key, ())
        count = len(entries) + len(given)
        if count == 0:
            known = [*self._indices, *self._given]
            hint = suggest(key, known) if known else "; the text has no metadata section"
            self._cursor.fail(token, f"no entry in the metadata for '{key}'{hint}")
        if index >= count:
            self._cursor.fail(token, f"the metadata holds {count} of '{key}', so index {index} is out of bounds")
        if self._reader is None or index >= len(entries):
            return given[index - len(entries)]
        try:
            return self._reader.read(entries[index])
        except ModelError as error:
            self._cursor.fail(token, f"the metadata of '{key}' is malformed: {error}")


class MetaSection:
    """The nodes that a text being printed refers to."""

    def __init__(self) -> None:
        self._nodes: dict[str, list[Any]] = {}
        self._references: dict[Any, str] = {}

    def reference(self, node: tvm_ffi.Object | Mapping[Any, Any] | str) -> str:
        """Return ``meta[key][index]`` for a node; the same for the same node."""
        if node not in self._references:
            from ..json import type_key

            key = type_key(node)
            entries = self._nodes.setdefault(key, [])
            self._references[node] = f"meta[{key}][{len(entries)}]"
            entries.append(node)
        return self._references[node]

    def text(self, show_meta_data: bool) -> str:
        """Return what ends the text; empty when nothing was referred to."""
        if not self._nodes:
            return ""
        if not show_meta_data:
            return f"\n{OMITTED}"
        from ..json import NodeWriter

        document = NodeWriter().document({key: self._nodes[key] for key in sorted(self._nodes)})
        return f"\n#[metadata]\n{json.dumps(document, indent=2)}"
