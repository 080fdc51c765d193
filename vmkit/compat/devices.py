"""``tvm.device`` by the name of a target: ``tvm.device("llvm")`` is the CPU."""

from __future__ import annotations

import tvm
from tvm.runtime import Device

__all__ = ["device"]

_own_device = tvm.runtime.device
_KINDS = {"llvm": "cpu", "stackvm": "cpu", "c": "cpu", "hybrid": "cpu", "gpu": "cuda", "nvptx": "cuda", "cl": "opencl"}


def device(dev_type: str | int | tvm.target.Target, dev_id: int | None = None) -> Device:
    """Return a device by its kind or number, or by a target, which may be text: on a command line, or as it prints."""
    if isinstance(dev_type, str) and dev_type.lstrip().startswith("{"):
        dev_type = tvm.target.Target(dev_type)
    if isinstance(dev_type, tvm.target.Target):
        dev_type = dev_type.kind.name
    if isinstance(dev_type, str):
        dev_type = dev_type.split()[0]
        dev_type = _KINDS.get(dev_type, dev_type)
    return _own_device(dev_type, dev_id)
