"""Tables of a few bits, of which rows are gathered."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import int4, uint4

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import array, check
from tests.frontend.onnx.quantized import integers

FEEDS = [{"i": np.array(rows)} for rows in ([[0, 3], [-1, 5]], [[7, -8]])]
INDICES = {"i": (["n", 2], "int64")}


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_bytes_that_hold_several_numbers(bits: int, has_zeros: bool) -> None:
    blocks, in_byte = 3, 8 // bits
    constants = {
        "d": integers(8, 48 // in_byte), "s": np.abs(array(8, blocks)), "z": integers(8, -(-blocks // in_byte)),
    }  # fmt: skip
    names = "d i s z" if has_zeros else "d i s"
    node = ms("GatherBlockQuantized", names, "y", block_size=16, **({} if bits == 4 else {"bits": bits}))
    check(microsoft([node], INDICES, "y", {n: v for n, v in constants.items() if n in names.split()}), *FEEDS)


@pytest.mark.sweep
@pytest.mark.parametrize(("gather_axis", "quantize_axis"), [(0, 1), (1, 0), (0, 0), (1, 1), (-1, -2)])
@pytest.mark.parametrize("dtype", [int4, uint4])
def test_numbers_of_four_bits_along_any_axes(dtype: type, gather_axis: int, quantize_axis: int) -> None:
    scales = np.abs(array(2, 32) if quantize_axis in (0, -2) else array(32, 2))
    zeros = np.arange(scales.size).reshape(scales.shape) % 7
    constants = {
        "d": np.clip(integers(32, 32, dtype="int8") // 8, 0, 7).astype(dtype), "s": scales, "z": zeros.astype(dtype)
    }  # fmt: skip
    axes = {"gather_axis": gather_axis, "quantize_axis": quantize_axis, "block_size": 16}
    nodes = [ms("GatherBlockQuantized", "d i s", "y", **axes), ms("GatherBlockQuantized", "d i s z", "w", **axes)]
    check(microsoft(nodes, INDICES, "y w", constants, opset=21), *FEEDS)


def test_an_index_of_no_row_gives_zeros() -> None:
    constants = {"d": integers(8, 64), "s": np.abs(array(8, 1))}
    proto = microsoft([ms("GatherBlockQuantized", "d i s", "y")], INDICES, "y", constants)
    check(proto, {"i": np.array([[8, 0], [-9, 2]])})
