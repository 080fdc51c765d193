"""Which operators a kernel is for, out of its name."""

from __future__ import annotations

import functools
import re

from ..relay.op.registry import REGISTRY

__all__ = ["operators_in"]


def operators_in(name: str) -> str:
    """Return the operators of Relay that a kernel's name has, in their order; what else it is called without a number.

    >>> operators_in("fused_nn_conv2d1_add1_nn_relu3"), operators_in("log2"), operators_in("packed_gemm14")
    ('nn.conv2d + add + nn.relu', 'log2', 'packed_gemm')
    """
    rest, found = name.removeprefix("fused_"), []
    while rest:
        known = _pattern().match(rest)
        after = "" if known is None else rest[known.end() :]
        # What follows an operator is one, too, or the name is another's, as reshape_tensor is.
        if known is None or (after and _pattern().match(after) is None):
            found.append(re.sub(r"\d+$", "", rest))
            break
        found.append(_names()[known[1]])
        rest = after
    return " + ".join(found)


@functools.cache
def _names() -> dict[str, str]:
    return {each.replace(".", "_"): each for each in REGISTRY}


@functools.cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(_names(), key=len, reverse=True)
    return re.compile(rf"({'|'.join(map(re.escape, longest_first))})\d*(?:_|$)")
