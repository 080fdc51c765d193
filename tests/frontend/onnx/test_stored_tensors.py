"""Tensors that are not simply in the file: external data, which is vetted before it is read, and sparse tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vmkit
from tests.frontend.onnx.programs import array, model, node
from vmkit.errors import ModelError

X = {"x": (["n", 4], "float32")}
WEIGHT = array(3, 4)


def external(folder: Path, entries: dict[str, str], data: bytes = b"", dims: tuple[int, ...] = (3, 4)) -> Path:
    """Write a model whose weight is in another file, as `entries` say; return its path."""
    proto = model([node("Gemm", "x w", "y", transB=1)], X, "y", {"w": WEIGHT})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.ClearField("dims")
    tensor.dims.extend(dims)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    folder.mkdir(exist_ok=True)
    (folder / "w.bin").write_bytes(data or WEIGHT.tobytes())
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def results(path: Any, x: np.ndarray) -> np.ndarray:
    return vmkit.VirtualMachine(vmkit.compile(path, target="llvm")).run(x).numpy()


def refused(path: Any) -> str:
    with pytest.raises(ModelError) as caught:
        vmkit.relay.frontend.from_onnx(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("entries", "before"),
    [
        ({"location": "w.bin"}, 0),
        ({"location": "./w.bin", "offset": "0", "length": "48"}, 0),
        ({"location": "w.bin", "offset": "13"}, 13),
        ({"location": "w.bin", "offset": "4096", "length": "48"}, 4096),
    ],
)
def test_external_data_at_any_offset(tmp_path: Path, entries: dict[str, str], before: int) -> None:
    path = external(tmp_path, entries, bytes(before) + WEIGHT.tobytes() + bytes(7))
    x = array(2, 4)
    np.testing.assert_allclose(results(path, x), x @ WEIGHT.T, rtol=1e-4, atol=1e-6)


def test_external_data_of_an_attribute(tmp_path: Path) -> None:
    proto = model(
        [node("Constant", "", "c", value=numpy_helper.from_array(WEIGHT[0], "c")), node("Add", "x c", "y")], X, "y"
    )
    onnx.save(
        proto, tmp_path / "m.onnx", save_as_external_data=True, location="all", size_threshold=0, convert_attribute=True
    )
    x = array(2, 4)
    np.testing.assert_allclose(results(tmp_path / "m.onnx", x), x + WEIGHT[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({}, "'w': it names no file ('location')"),
        ({"location": "none.bin"}, "'w': there is no file 'none.bin' in the model's folder"),
        ({"location": "../secret"}, "the location '../secret' is not a path below the model's folder"),
        ({"location": "/etc/passwd"}, "the location '/etc/passwd' is not a path below the model's folder"),
        ({"location": "C:\\secret"}, "is not a path below the model's folder"),
        ({"location": "link"}, "the location 'link' leads out of the model's folder"),
        ({"location": "w.bin", "offset": "-8"}, "its offset is '-8', expected a number of bytes"),
        ({"location": "w.bin", "offset": "9" * 30}, "expected a number of bytes"),
        ({"location": "w.bin", "offset": "1"}, "w.bin has 48 bytes, but FLOAT[3, 4] takes those from 1 to 49"),
        ({"location": "w.bin", "length": "47"}, "its length is 47 bytes, but FLOAT[3, 4] takes 48"),
        ({"location": "w.bin", "compression": "zip"}, "its entry 'compression' is not known"),
    ],
)
def test_external_data_that_is_refused(tmp_path: Path, entries: dict[str, str], reason: str) -> None:
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    path = external(tmp_path / "model", entries)
    (path.parent / "link").symlink_to(tmp_path / "secret")
    message = refused(path)
    assert message.startswith("m.onnx: external data that cannot be read:\n  'w': ")
    assert reason in message


def test_external_data_of_impossible_shapes(tmp_path: Path) -> None:
    assert "it has the shape [-3, 4]" in refused(external(tmp_path, {"location": "w.bin"}, dims=(-3, 4)))
    message = refused(external(tmp_path, {"location": "w.bin"}, dims=(1 << 40, 1 << 40)))
    assert "w.bin has 48 bytes, but FLOAT[1099511627776, 1099511627776] takes those" in message


def test_external_data_without_a_folder(tmp_path: Path) -> None:
    path = external(tmp_path, {"location": "w.bin"})
    assert "the model came without a folder; give the path of the file" in refused(path.read_bytes())


def sparse(values: np.ndarray, indices: Any, shape: tuple[int, ...]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, "w"), numpy_helper.from_array(np.asarray(indices, "int64"), "i"), shape
    )


@pytest.mark.parametrize("indices", [[1, 4, 11], [[0, 1], [1, 0], [2, 3]]])
def test_sparse_initializers_and_constants(indices: Any) -> None:
    tensor = sparse(np.float32([3, 5, 7]), indices, (3, 4))
    dense = np.zeros((3, 4), "float32")
    dense[[0, 1, 2], [1, 0, 3]] = 3, 5, 7
    x = array(2, 4)
    proto = model([node("Gemm", "x w", "y", transB=1)], X, "y")
    proto.graph.sparse_initializer.append(tensor)
    np.testing.assert_allclose(results(proto, x), x @ dense.T, rtol=1e-4, atol=1e-6)
    nodes = [node("Constant", "", "w", sparse_value=tensor), node("Gemm", "x w", "y", transB=1)]
    np.testing.assert_allclose(results(model(nodes, X, "y"), x), x @ dense.T, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (sparse(np.float32([1]), [12], (3, 4)), "has indices that are out of its shape [3, 4]"),
        (sparse(np.float32([1]), [[0, -1]], (3, 4)), "has indices that are out of its shape [3, 4]"),
        (sparse(np.float32([1, 2]), [0], (3, 4)), "expected (count,), and int64 (count,) or (count, rank)"),
        (sparse(np.float32([1]), [[0]], (3, 4)), "has indices of shape [1, 1] for the shape [3, 4]"),
        (sparse(np.float32([1]), [0], (1 << 20, 1 << 20)), "has the shape [1048576, 1048576]"),
    ],
)
def test_sparse_tensors_that_are_refused(tensor: onnx.SparseTensorProto, reason: str) -> None:
    proto = model([node("Gemm", "x w", "y", transB=1)], X, "y")
    proto.graph.sparse_initializer.append(tensor)
    assert reason in refused(proto)
