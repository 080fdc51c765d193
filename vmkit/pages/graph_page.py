"""A model's graph as a page: search, scopes that open and close, shapes and attributes at a click."""

from __future__ import annotations

import os
from pathlib import Path

from ..compiler.models import to_module
from ..errors import ModelError
from ..relay.ir import Function
from .graph import Graph
from .html import page
from .of_onnx import of_onnx
from .of_relay import of_relay

__all__ = ["graph_of", "graph_page"]


def graph_of(model: object) -> Graph:
    """Return the graph of a model of any form that :func:`vmkit.compile` takes.

    ONNX models are drawn as they are, all others as the Relay program that they become.

    Raises
    ------
    ModelError
        If the model cannot be read, or is Relax.
    """
    path = Path(model) if isinstance(model, str | os.PathLike) else None
    if hasattr(model, "SerializeToString") or (path is not None and path.suffix == ".onnx" and path.is_file()):
        return of_onnx(model)
    mod, params = to_module(model)
    if not any(isinstance(function, Function) for function in mod.functions.values()):
        raise ModelError("graphs are drawn of ONNX models and Relay programs, and this one is Relax")
    return of_relay(mod, path.name if path is not None else "the module", params)


def graph_page(model: object) -> str:
    """Return a page with the picture of a model, as HTML that needs no other file and no network.

    It stays usable with a thousand nodes: scopes, which exporters write into names, and chains without a branch are
    drawn as one node each until they are opened.

    Parameters
    ----------
    model
        As :func:`graph_of` takes it, or a :class:`Graph`.

    Raises
    ------
    ModelError
        If the model cannot be read.
    """
    graph = (model if isinstance(model, Graph) else graph_of(model)).with_scopes()
    return page("graph", f"{graph.title} - vmkit", graph.to_json(), ("dagre.min.js", "cytoscape.min.js"))
