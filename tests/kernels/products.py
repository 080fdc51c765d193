"""Kernels as the rule for products schedules them for this machine."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import product
from vmkit.target import canonical_target

TARGET = canonical_target("native").primary


def built(function: tirx.PrimFunc) -> Any:
    """Return the library of a kernel, which is ``main`` in it."""
    plain = rules.prepared(function)
    assert plain is not None
    decisions = product.RULE.decide(plain, TARGET)
    assert decisions is not None
    made = rules.scheduled(plain, product.RULE, TARGET, decisions).with_attr("global_symbol", "main")
    return tvm.compile(tvm.IRModule({"main": made}), target=TARGET)
