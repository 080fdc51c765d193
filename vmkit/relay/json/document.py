"""Whole documents: text of JSON to objects, and back."""

from __future__ import annotations

import json
from typing import Any

# Bound here: what a program later puts in the place of TVM's own function must not be called by this one.
from tvm.ir import load_json as _load_current

from ...errors import ModelError
from .reader import NodeReader
from .writer import NodeWriter

__all__ = ["is_relay_document", "load_json", "save_json"]


def load_json(json_str: str) -> Any:
    """Return what a document of TVM's JSON holds.

    Parameters
    ----------
    json_str : str
        What ``tvm.ir.save_json`` of TVM 0.6 to 0.19 wrote: a module, function, expression, type, constant or
        attributes, or an array or map of these, which becomes a list or dict. What today's TVM wrote is read by it.

    Returns
    -------
    object
        The object. Types that the document holds for its expressions are left out:
        ``relay.transform.InferType`` finds them anew.

    Raises
    ------
    ModelError
        When the text is no such document; it names the node and what is wrong with it.
    UnsupportedOperatorError
        Listing the operators that Relay does not have here.

    Examples
    --------
    >>> from vmkit import relay
    >>> print(relay.load_json(relay.save_json(relay.TensorType((relay.Any(), 4)))))
    Tensor[(?, 4), float32]
    """
    document = _parsed(json_str)
    if is_relay_document(document):
        reader = NodeReader(document)
        return reader.read(reader.root_index())
    if isinstance(document, dict) and "root_index" in document:
        return _load_by_tvm(json_str)
    raise ModelError("a document of TVM's JSON is an object with a 'root' and a list of 'nodes'")


def save_json(node: Any) -> str:
    """Return a document as ``tvm.ir.save_json`` of TVM 0.14 wrote it, which every release up to 0.19 reads.

    Parameters
    ----------
    node : object
        A module, function, expression, type, constant or attributes, or a list or dict of these.

    Raises
    ------
    ModelError
        When an object of another class is among them.
    """
    return json.dumps(NodeWriter().document(node), separators=(",", ":"))


def is_relay_document(document: Any) -> bool:
    """Say whether parsed JSON is of the form that TVM had while it had Relay; today's has another."""
    return isinstance(document, dict) and "root" in document and "nodes" in document


def _parsed(text: str) -> Any:
    if not isinstance(text, str):
        raise ModelError(f"a document of TVM's JSON is a str, not {type(text).__name__}")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelError(f"this is not JSON: {error}") from None
    except (RecursionError, ValueError) as error:
        raise ModelError(f"this JSON cannot be read: {error}") from None


def _load_by_tvm(text: str) -> Any:
    try:
        return _load_current(text)
    except Exception as error:  # of many kinds: TVM reports what it cannot make of a node as it comes
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"this is not what tvm.ir.save_json wrote: {reason}") from error
