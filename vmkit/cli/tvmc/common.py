"""``tvm.driver.tvmc.common``: what several commands do with their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..arguments import shapes_of as merged_shapes
from ..files import arrays_of
from .exceptions import TVMCException, TVMCImportError
from .shape_parser import parse_shape_string
from .tracker import tracker_host_port_from_cli

__all__ = [
    "TVMCException",
    "TVMCImportError",
    "parse_shape_string",
    "require_input_file",
    "shapes_of",
    "tracker_host_port_from_cli",
    "weights_of",
]


def require_input_file(path: str) -> None:
    """Raise TVMCException where a model's file is not there."""
    if not Path(path).is_file():
        raise TVMCException(f"Input file '{path}' doesn't exist, is a broken symbolic link, or a directory.")


def shapes_of(args: argparse.Namespace) -> Mapping[str, Sequence[Any]] | None:
    """Return the shapes of ``--input-shapes`` by the names of the inputs."""
    return merged_shapes(args)


def weights_of(path: str | Path | None) -> dict[str, Any]:
    """Return arrays by name out of a file: ``.npz``, or what ``relay.save_param_dict`` wrote."""
    if path is None:
        return {}
    if Path(path).suffix == ".npz":
        return dict(arrays_of(Path(path)))
    from vmkit.values.param_dict import load_param_dict

    return dict(load_param_dict(Path(path).read_bytes()))
