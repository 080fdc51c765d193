"""Operators that compute with reals between dequantizations and quantisations."""

from __future__ import annotations

from collections import Counter

import tvm

from ..ir import Call, Function, GlobalVar, Op, RelayExpr, children, is_call, post_order

__all__ = ["list_fake_quantized_op_freqs"]


def list_fake_quantized_op_freqs(mod: tvm.IRModule) -> dict[str, int]:
    """Return how often each operator lies between dequantizations and a quantisation in ``main``.

    A call below two quantisations counts for each of them.

    Parameters
    ----------
    mod : tvm.IRModule
        The module; it needs no types.

    Returns
    -------
    dict of str to int
        The numbers of calls by the names of operators.

    Examples
    --------
    >>> from vmkit import relay
    >>> x = relay.qnn.dequantize(relay.var("x", shape=(2,), dtype="int8"), relay.const(0.5), relay.const(0))
    >>> q = relay.qnn.quantize(relay.nn.relu(x), relay.const(0.5), relay.const(0))
    >>> list_fake_quantized_op_freqs(tvm.IRModule({"main": relay.Function(relay.analysis.free_vars(q), q)}))
    {'nn.relu': 1}
    """
    counts: Counter[str] = Counter()
    for node in post_order(mod["main"]):
        if is_call(node, "qnn.quantize"):
            counts.update(_between(node))
    return dict(counts)


def _between(end: Call) -> list[str]:
    """Return the names of the operators that are called between dequantizations and a call."""
    names: list[str] = []
    seen: set[RelayExpr] = set()
    waiting: list[RelayExpr] = [end]
    while waiting:
        node = waiting.pop()
        if node in seen or isinstance(node, Function | GlobalVar | Op) or is_call(node, "qnn.dequantize"):
            continue
        seen.add(node)
        if is_call(node, "qnn.quantize"):
            waiting.append(node.args[0])
            continue
        if isinstance(node, Call) and isinstance(node.op, Op):
            names.append(node.op.name)
        waiting += children(node)
    return names
