"""Emulated tiles (AMX), on which the kernels for a matrix unit run where a machine has none."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from vmkit.kernels.builder import T
from vmkit.kernels.packed_product import amx, loops

__all__ = ["emulate_tiles"]

ROWS, BYTES = 16, 64


def emulate_tiles(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Let kernels written from now on, which run on one core, call emulated instructions; return how often each ran."""
    tiles, counts = np.zeros((8, ROWS, BYTES), "uint8"), Counter[str]()
    # Before a kernel has set a tile it holds what makes every sum wrong.
    tiles[:] = 0xFF

    def load(tile: int, element: ctypes.c_void_p, stride: int) -> None:
        for row in range(ROWS):
            tiles[tile, row] = _memory(element, row * stride)

    def store(tile: int, element: ctypes.c_void_p, stride: int) -> None:
        for row in range(ROWS):
            _memory(element, row * stride)[:] = tiles[tile, row]

    def zero(tile: int) -> None:
        tiles[tile] = 0

    def dot_bfloat16(sums: int, data: int, weight: int) -> None:
        a, b = (_float32(tiles[each].view("uint16")) for each in (data, weight))
        with np.errstate(all="ignore"):  # rows beyond the last are anything, and not kept
            tiles[sums].view("float32")[:] += a @ _inputs_by_outputs(b, 2)

    def dot_integers(sums: int, data: int, weight: int) -> None:
        a, b = tiles[data].astype("int32"), tiles[weight].view("int8").astype("int32")
        tiles[sums].view("int32")[:] += a @ _inputs_by_outputs(b, 4)

    instructions: dict[str, Callable[..., None]] = {
        "ldtilecfg": lambda config: None,
        "tilerelease": lambda: None,
        "tilezero": zero,
        "tileloadd64": load,
        "tilestored64": store,
        "tdpbf16ps": dot_bfloat16,
        "tdpbusd": dot_integers,
    }

    def run(name: str, *operands: Any) -> None:
        counts[name] += 1
        instructions[name](*operands)

    tvm.register_global_func("tests.tile_instruction", run, override=True)
    patch.setattr(amx, "evaluate", lambda *call: T.evaluate(T.call_packed("tests.tile_instruction", *call)))
    patch.setattr(loops, "ask_permission", lambda: None)
    return counts


def _memory(element: ctypes.c_void_p, offset: int) -> np.ndarray:
    assert element.value is not None
    return np.frombuffer((ctypes.c_uint8 * BYTES).from_address(element.value + offset), "uint8")


def _float32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("uint32") << 16).view("float32")


def _inputs_by_outputs(tile: np.ndarray, group: int) -> np.ndarray:
    """Return a weight's tile, each row of which has some inputs of every output, as a matrix."""
    return tile.reshape(ROWS, -1, group).transpose(0, 2, 1).reshape(ROWS * group, -1)
