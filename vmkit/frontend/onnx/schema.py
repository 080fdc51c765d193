"""What the installed onnx declares of operators."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

__all__ = ["schema_of"]


@lru_cache(maxsize=4096)
def schema_of(domain: str, op_type: str, version: int) -> Any:
    """Return the schema of an operator as it is in an opset, or None if there is no such operator."""
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
