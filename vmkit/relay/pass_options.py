"""Options of Relay's passes in a ``PassContext``.

TVM's ``PassContext`` takes the options that TVM's own passes have registered, and no others. Those of Relay's passes
travel in one of TVM's that nothing reads any more; see ``PASSENGER_OPTION``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import tvm

from .._tvm import PASSENGER_OPTION

__all__ = ["FILL_SPAN", "RELAY_OPTIONS", "packed_options", "relay_option", "unpacked_options"]

Option = TypeVar("Option")

FILL_SPAN = "relay.frontend.fill_span"
"""Whether nodes say which node of a model they come from, and kernels of which nodes they are."""

RELAY_OPTIONS: Mapping[str, type] = {
    FILL_SPAN: bool,
    "relay.FuseOps.link_params": bool,
    "relay.ToMixedPrecision.keep_orig_output_dtype": bool,
}
"""The options, each with the type of its values."""


def packed_options(options: Mapping[str, Any]) -> list[list[tvm.ir.DictAttrs]]:
    """Return options as the value of the option of TVM's that they travel in: lists of lists of nodes."""
    return [[tvm.ir.make_node("ir.DictAttrs", **options)]]


def unpacked_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of Relay's passes in the ``config`` of a ``PassContext``."""
    carried = [
        node for nodes in config.get(PASSENGER_OPTION, ()) for node in nodes if isinstance(node, tvm.ir.DictAttrs)
    ]
    return {str(name): value for node in carried for name, value in node.items()}


def relay_option(name: str, default: Option) -> Option:
    """Return the value of an option in the ``PassContext`` entered in this thread, or what it is by default."""
    if name not in RELAY_OPTIONS:
        raise KeyError(name)
    carried = unpacked_options(tvm.transform.PassContext.current().config)
    return cast("Option", carried.get(name, default))
