"""Lists of attributes are read from the file they lie in, whatever their elements are, or left to the parser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper

import vmkit
from vmkit.frontend.onnx import repeated_fields
from vmkit.frontend.onnx.load import parts_of, read_model
from vmkit.frontend.onnx.long_lists import LongNumbers, LongTexts, long_list

rng = np.random.default_rng(5)


def stored(path: Path, name: str, values: list[object], extra: bytes = b"") -> object:
    """Return what is read of a list in a file, where something else may follow."""
    proto = AttributeProto()
    getattr(proto, name).extend(values)
    content = b"before" + proto.SerializeToString() + extra
    path.write_bytes(content)
    kinds = {"ints": AttributeProto.INTS, "floats": AttributeProto.FLOATS, "strings": AttributeProto.STRINGS}
    return long_list(path, 6, len(content) - 6, kinds[name])


@pytest.mark.parametrize("chunk", [16, 61, 1 << 20])
def test_elements_are_read_across_the_ends_of_chunks(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_fields, "_CHUNK", chunk)
    file = tmp_path / "list"
    small, large = rng.integers(-300, 300, 999).tolist(), [0, -1, 1 << 40, -(1 << 63), (1 << 63) - 1, 127, 128]
    for values, dtype in ((small, "int32"), (large, "int64")):
        found = stored(file, "ints", values)
        assert isinstance(found, LongNumbers) and len(found) == len(values)
        assert list(found) == values and np.asarray(found).dtype == dtype
        assert found[1] == values[1] and list(found[-2:]) == values[-2:]
    floats = np.float32([0, -0.0, np.nan, np.inf, 1e-45, *rng.standard_normal(500)])
    np.testing.assert_array_equal(np.asarray(stored(file, "floats", floats.tolist())), floats)
    texts = [(b"LEAF", b"BRANCH_LEQ", b"", "é".encode())[k] for k in rng.integers(0, 4, 400)]
    found = stored(file, "strings", texts)
    assert isinstance(found, LongTexts) and len(found.known) == 4
    assert list(found) == [text.decode() for text in texts] and found[3] == texts[3].decode()


def test_a_text_that_holds_a_key_behind_which_a_chunk_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key within it seems to begin the text that is cut."""
    monkeypatch.setattr(repeated_fields, "_CHUNK", 16)
    assert stored(tmp_path / "list", "strings", [b"LEAF", b"LEAF", b"aJ" + b"b" * 40]) is None


@pytest.mark.parametrize(
    ("name", "values", "extra"),
    [
        ("ints", [1, 2], b"\x08\x01"),  # another field
        ("ints", [1, 2], b"\x40"),  # no number
        ("ints", [1, 2], b"\x40" + b"\xff" * 11 + b"\x01"),  # more bytes than a number has
        ("ints", [1, 2], b"\x42\x02\x03\x04"),  # numbers in one field
        ("floats", [1, 2], b"\x3d\x00\x00"),
        ("floats", [1, 2], b"\x15\x00\x00\x00\x00"),
        ("strings", [b"a", b"b"], b"\x4a\x05abcd"),
        ("strings", [b"a", b"b"], b"\x12\x01a"),
        ("strings", [b"aJb", b"J"], b""),  # the key in a text
        ("strings", [b"x" * 200], b""),
        ("strings", [str(k).encode() for k in range(100)], b""),  # many different ones
    ],
)
def test_what_is_anything_else_is_left_to_the_parser(
    name: str, values: list[object], extra: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chunk in (16, 1 << 20):
        monkeypatch.setattr(repeated_fields, "_CHUNK", chunk)
        assert stored(tmp_path / "list", name, values, extra) is None


def forest(trees: int, turned: bool = False) -> onnx.ModelProto:
    """Return trees of seven nodes of three classes; nodes in another order if `turned`."""
    modes = ["BRANCH_LEQ"] * 3 + ["LEAF"] * 4
    columns = {
        "nodes_treeids": np.repeat(np.arange(trees), 7),
        "nodes_nodeids": np.tile(np.arange(7), trees),
        "nodes_featureids": rng.integers(0, 5, 7 * trees),
        "nodes_truenodeids": np.tile([1, 3, 5, 0, 0, 0, 0], trees),
        "nodes_falsenodeids": np.tile([2, 4, 6, 0, 0, 0, 0], trees),
        "nodes_values": rng.standard_normal(7 * trees).astype("float32"),
        "nodes_modes": np.tile(modes, trees),
        "nodes_hitrates": np.ones(7 * trees, "float32"),
    }
    order = rng.permutation(7 * trees) if turned else np.arange(7 * trees)
    leaves = {
        "class_treeids": np.repeat(np.arange(trees), 4),
        "class_nodeids": np.tile([3, 4, 5, 6], trees),
        "class_ids": rng.integers(0, 3, 4 * trees),
        "class_weights": rng.standard_normal(4 * trees).astype("float32"),
    }
    attributes = {name: column[order].tolist() for name, column in columns.items()}
    attributes |= {name: column.tolist() for name, column in leaves.items()}
    made = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", classlabels_int64s=[4, 5, 6],
        **attributes,
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 5])
    results = [
        helper.make_tensor_value_info("label", onnx.TensorProto.INT64, None),
        helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, None),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([made], "g", [x], results), opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("turned", [False, True])
def test_trees_from_a_file_are_those_of_the_message(turned: bool, tmp_path: Path) -> None:
    proto, file = forest(9000, turned), tmp_path / "forest.onnx"
    onnx.save(proto, file)
    loaded = read_model(file)
    assert len(loaded.lists) == 12 and loaded.model.ByteSize() < 1000
    assert all(isinstance(each, LongTexts) or not hasattr(each, "_array") for each in loaded.lists.values())
    x = rng.standard_normal((9, 5)).astype("float32")
    labels, scores = vmkit.VirtualMachine(vmkit.compile(str(file)), "cpu").run(x)
    wanted, of_message = vmkit.VirtualMachine(vmkit.compile(proto), "cpu").run(x)
    np.testing.assert_array_equal(labels.numpy(), wanted.numpy())
    np.testing.assert_array_equal(scores.numpy(), of_message.numpy())


def test_lists_in_a_file_are_part_of_what_a_model_consists_of(tmp_path: Path) -> None:
    proto, found = forest(3000), []
    for name in ("one", "same", "other"):
        if name == "other":
            next(a for a in proto.graph.node[0].attribute if a.name == "nodes_featureids").ints[-1] ^= 1
        onnx.save(proto, tmp_path / name)
        found.append([bytes(part) for part in parts_of(read_model(tmp_path / name))])
    assert found[0] == found[1] != found[2]


def test_long_attributes_that_are_no_such_lists_are_the_parsers(tmp_path: Path) -> None:
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["y"], domain="ai.onnx.ml")
    node.attribute.add().s = b"s" * (1 << 16)  # without a name, and a type
    node.attribute.append(helper.make_attribute("text", "s" * (1 << 16)))
    node.attribute.append(helper.make_attribute("nodes_modes", [f"{k:040}" for k in range(2000)]))
    node.attribute.append(helper.make_attribute("nodes_values", [0.5] * (1 << 14)))
    of_another = helper.make_node("Constant", [], ["y"], value_ints=[1] * (1 << 16))
    proto = helper.make_model(helper.make_graph([node, of_another], "g", [], []))
    onnx.save(proto, tmp_path / "model.onnx")
    loaded = read_model(tmp_path / "model.onnx")
    assert list(loaded.lists) == [("y", "nodes_values")]
    node.attribute[3].ClearField("floats")
    assert list(loaded.model.graph.node) == [node, of_another]
