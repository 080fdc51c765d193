"""``tvm.ir.container`` and ``tvm.container``: TVM's arrays and maps under their old names."""

from __future__ import annotations

from tvm_ffi import Array, Map

__all__ = ["Array", "Map"]
