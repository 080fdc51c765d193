"""The weights of a model's file stay in the file until they are used, and are what the parser would have given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx.programs import Compiled, array, model, node, tensor
from vmkit.errors import ModelError
from vmkit.frontend.onnx.load import read_model
from vmkit.relay.frontend import from_onnx

LARGE = array(64, 64)
TYPES = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8")


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(proto, str(path))
    return path


def dense() -> onnx.ModelProto:
    return model([node("MatMul", "x w", "y")], {"x": (("n", 64), "float32")}, "y", {"w": LARGE})


def test_large_weights_are_left_in_the_file_and_small_ones_are_not(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "y")]
    made = model(nodes, {"x": (("n", 64), "float32")}, "y", {"w": LARGE, "b": array(64)})
    loaded = read_model(saved(made, tmp_path))
    assert list(loaded.weights) == ["w"]
    assert [len(i.raw_data) for i in loaded.model.graph.initializer] == [0, 256]
    assert loaded.model.graph.node == made.graph.node
    assert loaded.model.opset_import == made.opset_import


@pytest.mark.parametrize("dtype", TYPES)
def test_a_weight_is_what_the_parser_gives(tmp_path: Path, dtype: str) -> None:
    weight = array(40, 120, dtype=dtype)
    made = model([node("Identity", "w", "y")], {}, "y", {"w": weight})
    loaded = read_model(saved(made, tmp_path))
    np.testing.assert_array_equal(loaded.weights["w"].array(), weight)
    assert loaded.weights["w"].array().dtype == weight.dtype


@pytest.mark.parametrize("freeze_params", [True, False])
def test_a_file_and_its_message_give_the_same_results(tmp_path: Path, freeze_params: bool) -> None:
    made, x = dense(), array(3, 64, seed=1)
    (from_file,) = Compiled(str(saved(made, tmp_path)), freeze_params=freeze_params)(x=x)
    (from_message,) = Compiled(made)(x=x)
    np.testing.assert_array_equal(from_file, from_message)


def test_a_link_to_a_file_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "names").mkdir()
    link = tmp_path / "names" / "model.onnx"
    link.symlink_to(saved(dense(), tmp_path / "blobs"))
    np.testing.assert_array_equal(read_model(link).weights["w"].array(), LARGE)


def test_a_weight_of_a_subgraph_with_the_name_of_another_is_its_own(tmp_path: Path) -> None:
    made = model([node("If", "c", "y", then_branch=branch("a"), else_branch=branch("b"))], {"c": ((), "bool")}, "y")
    made.graph.initializer.append(numpy_helper.from_array(LARGE, "unused"))
    loaded = read_model(saved(made, tmp_path))
    assert list(loaded.weights) == ["unused"]
    compiled = Compiled(str(tmp_path / "model.onnx"))
    for name, flag in (("a", True), ("b", False)):
        np.testing.assert_array_equal(compiled(c=np.asarray(flag))[0], array(64, 64, seed=ord(name)))


def branch(name: str) -> onnx.GraphProto:
    nodes = [node("Add", "unused zero", "out")]
    value = numpy_helper.from_array(array(64, 64, seed=ord(name)), "unused")
    zero = tensor(np.float32(0), "zero")
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name="out")], [value, zero])


def test_weights_in_fields_of_their_type_and_of_packed_types_stay_in_the_message(tmp_path: Path) -> None:
    floats = helper.make_tensor("floats", TensorProto.FLOAT, (64, 64), LARGE.ravel().tolist())
    nibbles = helper.make_tensor("nibbles", TensorProto.INT4, (16384,), bytes(8192), raw=True)
    made = model([node("Identity", "floats", "y")], {}, "y")
    made.graph.initializer.extend([floats, nibbles])
    loaded = read_model(saved(made, tmp_path))
    assert loaded.weights == {}
    assert loaded.model == made


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: float) -> None:
    path = saved(dense(), tmp_path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(ModelError, match=r"model\.onnx is no ONNX model, or a truncated one"):
        from_onnx(path)


def test_a_weight_that_does_not_fill_its_shape_is_refused(tmp_path: Path) -> None:
    made = dense()
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-4]
    with pytest.raises(ModelError, match="initializer 'w': its data does not fill"):
        from_onnx(saved(made, tmp_path))


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    made = dense()
    made.graph.initializer.append(made.graph.initializer[0])
    with pytest.raises(ModelError, match="names are defined more than once: 'w'"):
        from_onnx(saved(made, tmp_path))


_MEMORY = """
import json, sys
import onnx.reference
from pathlib import Path
from vmkit.relay.frontend import from_onnx
from vmkit.frontend.onnx import families
def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("VmHWM"))
families.load()
before = most()
from_onnx(sys.argv[1])
print(json.dumps(most() - before))
"""


def test_importing_takes_no_more_than_two_and_a_half_times_the_weights(tmp_path: Path) -> None:
    count, size = 12, 2048
    nodes = [node("MatMul", f"x{i} w{i}", f"x{i + 1}") for i in range(count)]
    weights = {f"w{i}": np.full((size, size), i, "float32") for i in range(count)}
    path = saved(model(nodes, {"x0": (("n", size), "float32")}, f"x{count}", weights), tmp_path)
    done = subprocess.run([sys.executable, "-c", _MEMORY, str(path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) < 2.5 * path.stat().st_size
