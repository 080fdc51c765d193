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


def test_a_part_of_a_weight_is_refused(tmp_path: Path) -> None:
    made = dense()
    made.graph.initializer[0].segment.begin = 8
    with pytest.raises(ModelError, match="initializer 'w': its data does not fill"):
        from_onnx(saved(made, tmp_path))


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def field(number: int, content: bytes | int) -> bytes:
    """Return a field of a protocol buffer: of a length and so many bytes, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


DIMS = field(1, 64) + field(1, 64)
BYTES = LARGE.tobytes()
AS_ONE = DIMS + field(2, TensorProto.FLOAT) + field(8, b"w") + field(9, BYTES)
IN_ORDER = {
    "as written": (AS_ONE, True),
    "data first": (field(9, BYTES) + field(8, b"w") + field(2, TensorProto.FLOAT) + DIMS, True),
    "numbers of dims packed": (AS_ONE.replace(DIMS, field(1, bytes([64, 64]))), True),
    "a field that is not known": (AS_ONE + field(1000, b"later"), True),
    "another name before": (field(8, b"other") + AS_ONE, True),
    "another type before": (field(2, TensorProto.INT8) + AS_ONE, True),
    "numbers of its type, too": (AS_ONE + field(4, bytes(16)), True),
    "data twice": (field(9, bytes(len(BYTES))) + AS_ONE, False),
    "a longer varint than need be": (AS_ONE.replace(field(2, 1), b"\x10\x81\x80\x00"), True),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_fields_in_any_order_are_what_the_parser_takes_them_for(tmp_path: Path, name: str) -> None:
    written, is_left = IN_ORDER[name]
    path = saved(model([node("MatMul", "x w", "y")], {"x": (("n", 64), "float32")}, "y"), tmp_path)
    path.write_bytes(path.read_bytes() + field(7, field(5, written)))  # graphs of one model are merged
    loaded = read_model(path)
    assert list(loaded.weights) == (["w"] if is_left else [])
    parsed = onnx.load(path)
    np.testing.assert_array_equal(numpy_helper.to_array(parsed.graph.initializer[0]), LARGE)
    x = array(3, 64, seed=1)
    np.testing.assert_array_equal(Compiled(str(path))(x=x)[0], Compiled(parsed)(x=x)[0])


HUGE = varint(1 << 62)
MALFORMED = {
    "a length beyond the end": varint(9 << 3 | 2) + varint(1 << 30) + BYTES,
    "a length of 63 bits": varint(9 << 3 | 2) + HUGE + BYTES,
    "a varint without end": AS_ONE + b"\x08" + b"\xff" * 12,
    "a field of no number": AS_ONE + b"\x02\x01\x00",
    "a wire type that there is not": AS_ONE + b"\x0f",
    "numbers cut off": AS_ONE + varint(5 << 3 | 5) + b"\0",
    "a name that is no text": DIMS + field(2, 1) + field(8, b"\xff\xfe") + field(9, BYTES),
    "more elements than any memory has": field(1, 1 << 62) + field(1, 1 << 62) + AS_ONE[len(DIMS) :],
    "a negative dimension": varint(1 << 3) + b"\xff" * 9 + b"\x01" + AS_ONE,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_bytes_that_are_no_weight_are_refused(tmp_path: Path, name: str) -> None:
    path = saved(model([node("MatMul", "x w", "y")], {"x": (("n", 64), "float32")}, "y"), tmp_path)
    path.write_bytes(path.read_bytes() + field(7, field(5, MALFORMED[name])))
    with pytest.raises(ModelError, match=r"model\.onnx"):
        from_onnx(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells what an address belongs to")
def test_a_weight_lies_in_the_pages_of_its_file(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path)
    weight = read_model(path).weights["w"].array()
    maps = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    address = weight.ctypes.data
    (held,) = (m for m in maps if int(m[0].split("-")[0], 16) <= address < int(m[0].split("-")[1], 16))
    assert held[5] == str(path) and not weight.flags.writeable


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
