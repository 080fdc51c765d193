"""``tvm.relay.backend``: what its submodules hold is found by import."""

from __future__ import annotations

from . import interpreter, te_compiler, vm

__all__ = ["interpreter", "te_compiler", "vm"]
