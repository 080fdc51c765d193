"""Operators that are nothing but a mark."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.ir import Type

from .registry import OpPattern, operator


@operator("annotation.stop_fusion", "data", level=10, pattern=OpPattern.OPAQUE)
class StopFusion:
    """The data; operators before and after it are not fused into one kernel in Relay."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        return data

    @staticmethod
    def lower(context: Any, attrs: None, data: relax.Expr) -> Any:
        return data
