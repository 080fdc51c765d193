"""Read nodes of a document, each once, without recursion."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError, UnsupportedOperatorError, VMKitError, suggest
from ..op.attrs import ATTRS_CLASSES
from .attrs import AttrsKind
from .kinds import PLAIN_KINDS, Kind, Node
from .records import RECORDS
from .sizes import SIZE_KINDS
from .slots import Item, decoded_tensor
from .upgrades import upgraded
from .variables import same_variables

__all__ = ["NodeReader"]

_KINDS: dict[str, Kind] = {**PLAIN_KINDS, **SIZE_KINDS, **RECORDS}
_ATTRS = AttrsKind()
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")


class NodeReader:
    """Reads nodes of a document; each becomes one object, however often it is referred to.

    Parameters
    ----------
    document : mapping
        What ``json.loads`` gives.
    """

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise ModelError("a document of TVM's JSON is an object with a list of 'nodes'")
        self._raw: list[Any] = list(document["nodes"])
        self._root: Any = document.get("root")
        tensors = document.get("b64ndarrays")
        self._tensors: list[Any] = list(tensors) if isinstance(tensors, list) else []
        self._decoded: dict[int, Any] = {}
        attrs = document.get("attrs")
        version = attrs.get("tvm_version") if isinstance(attrs, dict) else None
        self.version = version if isinstance(version, str) else "of an unknown version"
        found = _VERSION.match(self.version)
        self._version = (int(found[1]), int(found[2])) if found else None
        self._nodes: dict[int, Node] = {}
        self._made: dict[int, Any] = {0: None}
        self.current = 0
        self._global_vars: dict[str, GlobalVar] = {}
        self._variables: dict[int, int] | None = None
        self._terms: dict[int, int] = {}

    def is_older_than(self, major: int, minor: int) -> bool:
        """Say whether an older release than ``major.minor`` wrote the document."""
        return self._version is not None and self._version < (major, minor)

    def root_index(self) -> int:
        """Return the index of the root."""
        return self._index(self._root, "the root")

    def index_table(self) -> dict[str, list[int]]:
        """Return the indices of the nodes of a metadata document, by key."""
        try:
            return self._index_table(self.node(self.root_index()))
        except ModelError as error:
            raise ModelError(f"the root is not a map of lists: {error}") from None

    def _index_table(self, table: Node) -> dict[str, list[int]]:
        keys, lists = table.get("keys", []), table.get("data", [])
        if not isinstance(keys, list) or not isinstance(lists, list) or len(keys) != len(lists):
            raise ModelError("it has other keys than values")
        indices: dict[str, list[int]] = {}
        for key, index in zip(keys, lists, strict=True):
            entries = self.node(self._index(index, "the root")).get("data", [])
            if not isinstance(key, str) or not isinstance(entries, list):
                raise ModelError(f"{str(key)[:40]!r} names no list")
            indices[key] = [self._index(i, f"the list of {key!r}") for i in entries]
        return indices

    def read(self, index: int) -> Item:
        """Return the object that a node stands for.

        Raises
        ------
        ModelError
            When the node, or one it refers to, is malformed or of a kind that is not known.
        """
        stack, entered = [index], set()
        while stack:
            current = stack[-1]
            if current in self._made:
                stack.pop()
                continue
            if current in entered:
                # All that it refers to lay above it on the stack, and was made.
                self._made[stack.pop()] = self._make(current)
                continue
            entered.add(current)
            waiting = [i for i in self._references(current) if i not in self._made]
            for i in waiting:
                # What was entered and is not made yet waits for this one.
                if i in entered:
                    raise ModelError(f"node {i} ({self._key(i)}) refers to itself, through node {current}")
            stack += waiting
        return self._made[index]

    def _make(self, index: int) -> Item:
        node = self.node(index)
        self.current = index
        try:
            return self._kind(node).make(node, self)
        except UnsupportedOperatorError:
            raise
        except (VMKitError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            raise self._fault(index, error) from None

    def _references(self, index: int) -> list[int]:
        node = self.node(index)
        self.current = index
        where = f"node {index} ({self._key(index)})"
        try:
            found = list(self._kind(node).references(node, self))
        except UnsupportedOperatorError:
            raise
        except (VMKitError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise self._fault(index, error) from None
        return [self._index(i, where) for i in found]

    def _fault(self, index: int, error: Exception) -> ModelError:
        if isinstance(error, VMKitError):
            reason = str(error)
        elif isinstance(error, KeyError):
            reason = f"has no field {error}"
        else:
            reason = f"is malformed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return ModelError(f"node {index} ({self._key(index)}): {reason}")

    def _key(self, index: int) -> str:
        node = self._raw[index] if 0 <= index < len(self._raw) else None
        return str(node.get("type_key"))[:60] if isinstance(node, dict) else "none"

    def _kind(self, node: Node) -> Kind:
        key = node.get("type_key")
        if not isinstance(key, str):
            raise ModelError("has no type key")
        if key in _KINDS:
            return _KINDS[key]
        if key.startswith("relay.attrs.") or key in ATTRS_CLASSES:
            return _ATTRS
        raise ModelError(f"nodes of kind {key!r} are not supported{suggest(key, _KINDS)}")

    def _index(self, value: Item, where: str) -> int:
        if isinstance(value, str) and value.isdecimal() and len(value) < 12:
            value = int(value)
        if type(value) is not int or not 0 <= value < len(self._raw):
            raise ModelError(f"{where} refers to {str(value)[:40]!r}; there is no such node")
        return value

    # What kinds of nodes ask for.

    def node(self, index: int) -> Node:
        """Return a node as TVM 0.14 would have written it."""
        if index not in self._nodes:
            raw = self._raw[index]
            if not isinstance(raw, dict):
                raise ModelError(f"node {index} is no object")
            try:
                self._nodes[index] = upgraded(raw, self)
            except (VMKitError, LookupError, TypeError, ValueError, AttributeError) as error:
                raise self._fault(index, error) from None
        return self._nodes[index]

    def referred(self, text: str) -> Node:
        """Return the node that a field refers to, as it was written."""
        node = self._raw[self._index(text, "a field")]
        if not isinstance(node, dict):
            raise ModelError(f"refers to node {text}, which is no object")
        return node

    def made(self, text: str) -> Item:
        """Return the object of a node that was made before."""
        return self._made[int(text)]

    def add(self, node: Node) -> str:
        """Add a node, and return its index as text."""
        self._raw.append(node)
        return str(len(self._raw) - 1)

    def add_tensor(self, text: str) -> str:
        """Add a tensor in base64 beside the nodes, and return its index as text."""
        self._tensors.append(text)
        return str(len(self._tensors) - 1)

    def tensor(self, index: int) -> tvm.runtime.Tensor:
        """Return one of the tensors beside the nodes."""
        if not 0 <= index < len(self._tensors):
            raise ModelError(f"refers to tensor {index}; the document has {len(self._tensors)}")
        if index not in self._decoded:
            self._decoded[index] = decoded_tensor(self._tensors[index])
        return self._decoded[index]

    def global_var(self, name: str) -> GlobalVar:
        """Return the one global variable of a name."""
        return self._global_vars.setdefault(name, GlobalVar(name))

    def variable(self) -> int:
        """Return the index of the node that the variable which is being made is read from."""
        if self._variables is None:
            self._variables = same_variables(self._raw)
        return self._variables.get(self.current, self.current)

    def operator_names(self) -> Iterable[str]:
        """Yield the names of all operators of the document, as Relay 0.14 called them."""
        for index in range(len(self._raw)):
            node = self._raw[index]
            if isinstance(node, dict) and node.get("type_key") in ("Op", "relay.Op"):
                name = self.node(index).get("repr_str")
                if isinstance(name, str) and not name.startswith("tir."):
                    yield name

    def count_terms(self, operands: Iterable[Any]) -> int:
        """Return how many terms the operation on sizes that is being made has, as a tree."""
        count = 1 + sum(self._terms.get(int(i), 1) for i in operands)
        self._terms[self.current] = count
        return count
