"""Rows of tables that are packed as ggml packs weights, bit for bit what onnxruntime makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, session
from vmkit.errors import ModelError

ROWS, WIDTH = 5, 512
FLOAT, INT64 = onnx.TensorProto.FLOAT, "int64"
# ggml's number of each: elements and bytes of a block, and where its scales are, which are float16.
FORMATS: dict[int, tuple[int, int, list[int]]] = {
    2: (32, 18, [0]), 6: (32, 22, [0]), 8: (32, 34, [0]), 13: (256, 176, [0, 2]), 14: (256, 210, [208]),
    20: (32, 18, [0]), 23: (256, 136, [0]), 42: (64, 18, [0]),
}  # fmt: skip


def table(elements: int, size: int, scales: list[int]) -> np.ndarray:
    random = np.random.default_rng(elements + size)
    blocks = random.integers(0, 256, (ROWS, WIDTH // elements, size), "uint8")
    for at in scales:
        scale = random.uniform(-1, 1, blocks.shape[:2]).astype("float16")
        blocks[..., at : at + 2] = scale[..., None].view("uint8")
    return blocks.reshape(ROWS, -1)


def packed(kind: int, data: np.ndarray, **attributes: Any) -> onnx.ModelProto:
    node = ms("GatherPacked", "d i", "y", packed_type=kind, K=WIDTH, **attributes)
    return microsoft([node], {"i": (["n", 2], INT64)}, "y", {"d": data}, opset=19)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format(kind: int) -> None:
    proto = packed(kind, table(*FORMATS[kind]), output_dtype=FLOAT)
    compiled, peer = Compiled(proto), session(proto)
    for rows in ([[0, 1]], [[4, 0], [3, 3]]):
        feed = {"i": np.array(rows, INT64)}
        np.testing.assert_array_equal(compiled(**feed)[0], peer.run(None, feed)[0])


@pytest.mark.parametrize(("kind", "dtype"), [(0, "float32"), (1, "float16"), (30, "uint16")])
def test_floats_as_they_are(kind: int, dtype: str) -> None:
    data = np.random.default_rng(0).integers(0, 1 << 14, (ROWS, WIDTH)).astype("uint16")
    data = data if dtype == "uint16" else data.astype(dtype)
    proto = packed(kind, data.view("uint8"), output_dtype=FLOAT)
    feed = {"i": np.array([[0, 4]], INT64)}
    np.testing.assert_array_equal(Compiled(proto)(**feed)[0], session(proto).run(None, feed)[0])


def test_an_index_of_no_row_gives_the_first() -> None:
    proto = packed(2, table(*FORMATS[2]), output_dtype=onnx.TensorProto.FLOAT16)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    feed = {"i": np.array([[-1, ROWS], [0, 2]], INT64)}
    actual = Compiled(proto)(**feed)[0]
    np.testing.assert_array_equal(actual, session(proto).run(None, feed)[0])
    np.testing.assert_array_equal(actual[0], np.stack([actual[1, 0]] * 2))


def test_bfloat16_where_nothing_is_said() -> None:
    proto = packed(2, table(*FORMATS[2]))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    assert Compiled(proto).executable.outputs[0].dtype == "bfloat16"


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ModelError, match=r"packed_type is 16 \(IQ2_XXS\).*pack the table as Q4_0"):
        Compiled(packed(16, np.zeros((1, 2), "uint8")))
    with pytest.raises(ModelError, match="packed_type is 3; supported are 0, 1, 2"):
        Compiled(packed(3, np.zeros((1, 2), "uint8")))
    with pytest.raises(ModelError, match="blocks have 32 elements in 18 bytes"):
        Compiled(packed(2, np.zeros((1, 99), "uint8")))
