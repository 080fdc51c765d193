"""``tvm.topi.testing`` without scipy, of which its references for convolutions use one thing."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import tvm.topi

__all__ = ["import_topi_testing"]


def _valid(data: np.ndarray, kernel: np.ndarray, mode: str = "valid") -> np.ndarray:
    """Return a convolution over all axes, where the kernel lies within the data."""
    if mode != "valid":
        raise ImportError(f"a convolution in the mode {mode!r} needs scipy: pip install scipy")
    windows = np.lib.stride_tricks.sliding_window_view(data, kernel.shape)
    axes = tuple(range(-kernel.ndim, 0))
    return np.tensordot(windows, np.flip(kernel), axes=(axes, tuple(range(kernel.ndim))))


def _later(name: str) -> ModuleType:
    if name == "testing":
        return importlib.import_module("tvm.topi.testing")
    raise AttributeError(f"module 'tvm.topi' has no attribute {name!r}")


def import_topi_testing() -> None:
    """Give ``tvm.topi.testing``, which scripts reach by ``tvm.topi``, also where scipy is not installed."""
    if find_spec("scipy") is not None or "tvm.topi.testing" in sys.modules:
        # scipy takes long to import, so that is left to the first use.
        vars(tvm.topi).setdefault("__getattr__", _later)
        return
    scipy, signal = ModuleType("scipy"), ModuleType("scipy.signal")
    vars(signal).update(convolve=_valid, convolve2d=_valid)
    vars(scipy)["signal"] = signal
    sys.modules.update({"scipy": scipy, "scipy.signal": signal})
    try:
        importlib.import_module("tvm.topi.testing")
    finally:
        # Nobody else shall take the stand-in for scipy.
        del sys.modules["scipy"], sys.modules["scipy.signal"]
