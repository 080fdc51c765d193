"""Documents of releases before and after 0.14 hold the same programs; hand-written as those releases wrote them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.relay.json.documents import Document
from vmkit import relay
from vmkit.errors import ModelError, UnsupportedOperatorError
from vmkit.relay.json import NodeReader
from vmkit.values.dltensor import write_dltensor


def tensor(array: Any) -> str:
    return base64.b64encode(write_dltensor(tvm.runtime.tensor(array))).decode()


def tensor_type(d: Document, *shape: int) -> str:
    return d.node("relay.TensorType", shape=d.ints(*shape), dtype="float32", span=0)


def variable(d: Document, name: str, *shape: int) -> str:
    vid = d.node("relay.Id", name_hint=d.string(name))
    return d.node("relay.Var", vid=vid, type_annotation=tensor_type(d, *shape), span=0, _checked_type_=0)


def op(d: Document, name: str) -> str:
    old = d.version is not None and d.version.startswith("0.6")
    return d.add({"type_key": "relay.Op", "global_key": name} if old else {"type_key": "Op", "repr_str": name})


def call(d: Document, name: str, args: list[str], attrs: str = "0", **more: Any) -> str:
    fields = {"op": op(d, name), "args": d.array(*args), "attrs": attrs, "type_args": d.array(), "span": 0, **more}
    return d.node("relay.Call", _checked_type_=0, **fields)


def read(d: Document, root: str) -> Any:
    return relay.load_json(d.text(root))


X = relay.var("x", shape=(2, 3, 4))
Y = relay.var("y", shape=(2, 3, 4))


def same(a: Any, b: Any) -> bool:
    return tvm_ffi.structural_equal(a, b, map_free_vars=True)


def test_a_module_of_0_6() -> None:
    d = Document("0.6.0")
    x = variable(d, "x", 2, 3, 4)
    t = d.node("relay.TypeVar", var=d.node("Variable", dtype="handle", name="T"), kind=0, span=0)
    name = d.node("relay.GlobalVar", name_hint="main", span=0, _checked_type_=0)
    span = d.node("relay.Span", source=d.add({"type_key": "SourceName", "global_key": "a.py"}), lineno=3, col_offset=7)
    attrs = d.node("DictAttrs", __dict__=d.add({
        "type_key": "StrMap",
        "keys": ["Primitive", "name"],
        "data": [int(d.node("UIntImm", dtype="bool", value=1)), int(d.node("StringImm", dtype="handle", value="f"))],
    }))  # fmt: skip
    d.tensors.append(tensor(np.float32(2)))
    body = call(d, "add", [x, d.node("relay.Constant", data=0, span=0)], span=span)
    main = d.node(
        "relay.Function", params=d.array(x), body=body, ret_type=0, type_params=d.array(t), attrs=attrs, span=0
    )
    functions = d.add({"type_key": "Map", "data": [int(name), int(main)]})
    names = d.add({"type_key": "StrMap", "keys": ["main"], "data": [int(name)]})
    module = d.node(
        "relay.Module", functions=functions, type_definitions=d.add({"type_key": "Map"}), global_var_map_=names,
        global_type_var_map_=d.add({"type_key": "StrMap"}),
    )  # fmt: skip
    loaded = read(d, module)
    expected = relay.Function(
        [X], relay.add(X, relay.const(2.0)), type_params=[relay.TypeVar("T")], attrs={"Primitive": True, "name": "f"}
    )
    assert tvm_ffi.structural_equal(loaded, tvm.IRModule({"main": expected}))
    assert loaded["main"].params[0].name_hint == "x"
    assert loaded["main"].type_params[0].name_hint == "T"
    assert (loaded["main"].body.span.line, loaded["main"].body.span.column) == (3, 7)


@pytest.mark.parametrize("version", ["0.6.1", "0.7.0"])
def test_types_before_and_after_0_7(version: str) -> None:
    d = Document(version)
    old = version.startswith("0.6")
    relay_, tir = ("relay.", "") if old else ("", "tir.")
    n = d.node(f"{'' if old else 'tir.'}{'Variable' if old else 'Var'}", dtype="int32", name=d.string("n"))
    one = d.node("IntImm", dtype="int32", value=1)
    size = d.node(f"{tir}Add", dtype="int32", a=n, b=one)
    shape = d.array(d.node(f"{tir}Any", dtype="int32"), n, size)
    tensor = d.node("relay.TensorType", shape=shape, dtype="uint1", span=0)
    fields = d.array(tensor, d.node(f"{relay_}IncompleteType", kind=0, span=0))
    ty = d.node(
        f"{relay_}FuncType", arg_types=d.array(tensor), ret_type=d.node(f"{relay_}TupleType", fields=fields, span=0),
        type_params=d.array(), type_constraints=d.array(), span=0,
    )  # fmt: skip
    assert str(read(d, ty)) == "fn (Tensor[(?, n, n + 1), bool]) -> (Tensor[(?, n, n + 1), bool], _)"


def test_data_types_of_0_6() -> None:
    d = Document("0.6.0")
    var = [d.node("Variable", dtype="handle", name=n) for n in ("Option", "A")]
    name = d.node("relay.GlobalTypeVar", var=var[0], kind=5, span=0)
    a = d.node("relay.TypeVar", var=var[1], kind=0, span=0)
    some = d.node("relay.Constructor", name_hint="Some", inputs=d.array(a), belong_to=name, tag=0, span=0)
    data = d.node("relay.TypeData", header=name, type_vars=d.array(a), constructors=d.array(some), span=0)
    use = d.node("relay.TypeCall", func=name, args=d.array(tensor_type(d, 2)), span=0)
    loaded, ty = read(d, d.array(data, use))
    assert [c.name_hint for c in loaded.constructors] == ["Some"]
    assert str(loaded.constructors[0].inputs[0]) == "A"
    assert str(ty) == "Option[Tensor[(2), float32]]"


BEFORE_0_8: dict[str, tuple[Callable[[Document, str, str], str], Any]] = {
    "nn.batch_matmul transposed its second operand": (
        lambda d, x, y: call(d, "nn.batch_matmul", [x, y]),
        relay.nn.batch_matmul(X, Y, transpose_a=False, transpose_b=True),
    ),
    "nn.pad had its value as attribute": (
        lambda d, x, y: call(d, "nn.pad", [x], d.node(
            "relay.attrs.PadAttrs", pad_value=1.5, pad_mode="constant",
            pad_width=d.array(d.ints(0, 0), d.ints(1, 2), d.ints(0, 0)))),
        relay.nn.pad(X, ((0, 0), (1, 2), (0, 0)), 1.5),
    ),
    "argmax selected the first index": (
        lambda d, x, y: call(d, "argmax", [x], d.node(
            "relay.attrs.ReduceAttrs", axis=d.ints(1), keepdims=1, exclude=0)),
        relay.argmax(X, axis=[1], keepdims=True),
    ),
    "take had no batch dimensions": (
        lambda d, x, y: call(d, "take", [x, y], d.node(
            "relay.attrs.TakeAttrs", axis=d.node("IntImm", dtype="int32", value=1), mode="clip")),
        relay.take(X, Y, axis=1),
    ),
    "reshape said whether it was reversed": (
        lambda d, x, y: call(d, "reshape", [x], d.node("relay.attrs.ReshapeAttrs", newshape=d.ints(6, 4), reverse=0)),
        relay.reshape(X, (6, 4)),
    ),
    "contrib_reverse_reshape had an underscore": (
        lambda d, x, y: call(d, "_contrib_reverse_reshape", [x], d.node(
            "relay.attrs.ReshapeAttrs", newshape=d.ints(6, 4), reverse=1)),
        relay.contrib_reverse_reshape(X, (6, 4)),
    ),
    "topk had k in place": (
        lambda d, x, y: call(d, "topk", [x], d.node(
            "relay.attrs.TopkAttrs", k=2, axis=-1, ret_type="indices", is_ascend=0, dtype="int32")),
        relay.topk(X, k=2, ret_type="indices", dtype="int32"),
    ),
    "ndarray_size was in contrib": (
        lambda d, x, y: call(d, "contrib.ndarray_size", [x], d.node("relay.attrs.NdarraySizeAttrs", dtype="int32")),
        relay.ndarray_size(X),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BEFORE_0_8)
def test_operators_of_0_6(what: str) -> None:
    write, expected = BEFORE_0_8[what]
    d = Document("0.6.0")
    root = write(d, variable(d, "x", 2, 3, 4), variable(d, "y", 2, 3, 4))
    assert same(read(d, root), expected), relay.astext(read(d, root))


@pytest.mark.parametrize(
    ("version", "fields", "expected"),
    [
        ("0.6.0", {"method": "BILINEAR", "align_corners": 1}, {"method": "linear"}),
        (
            "0.6.0",
            {"method": "nearest_neighbor", "align_corners": 0},
            {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        ),
        (
            "0.7.0",
            {"method": "bicubic", "coordinate_transformation_mode": "half_pixel"},
            {"method": "cubic", "coordinate_transformation_mode": "half_pixel"},
        ),
    ],
)
def test_image_resize_became_resize2d(version: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    d = Document(version)
    attrs = d.node("relay.attrs.ResizeAttrs", size=d.ints(8, 8), layout="NCHW", out_dtype="", **fields)
    loaded = read(d, call(d, "image.resize", [variable(d, "x", 1, 3, 4, 4)], attrs))
    assert loaded.op.name == "image.resize2d"
    wanted = {"coordinate_transformation_mode": "align_corners", "rounding_method": "", "layout": "NCHW", **expected}
    assert {name: getattr(loaded.attrs, name) for name in wanted} == wanted


@pytest.mark.parametrize(("name", "reduction"), [("scatter", "update"), ("scatter_add", "add")])
def test_scatter_became_scatter_elements(name: str, reduction: str) -> None:
    d = Document("0.9.0")
    kind = "relay.attrs.ScatterAttrs" if name == "scatter" else "relay.attrs.ScatterAddAttrs"
    attrs = d.node(kind, axis=d.node("IntImm", dtype="int32", value=1))
    loaded = read(d, call(d, name, [variable(d, v, 2, 3, 4) for v in "xyz"], attrs))
    assert loaded.op.name == "scatter_elements"
    assert (loaded.attrs.axis, loaded.attrs.reduction) == (1, reduction)


def test_fields_that_came_later_take_their_defaults() -> None:
    d = Document("0.8.0")
    attrs = d.node(
        "relay.attrs.AvgPool2DAttrs", pool_size=d.ints(2, 2), strides=d.ints(2, 2), padding=d.ints(0, 0, 0, 0),
        layout="NCHW", ceil_mode=0, count_include_pad=0,
    )  # fmt: skip
    x = variable(d, "x", 1, 3, 4, 4)
    loaded = read(d, call(d, "nn.avg_pool2d", [x], attrs))
    assert same(loaded, relay.nn.avg_pool2d(relay.var("x", shape=(1, 3, 4, 4)), (2, 2), (2, 2)))


def later(version: str, **fields: Any) -> Any:
    d = Document(version)
    x = variable(d, "x", 2, 3, 4)
    attrs = d.node("relay.attrs.SoftmaxAttrs", axis=1, **fields)
    return read(d, call(d, "nn.softmax", [x], attrs, struct_info_=0, virtual_device_=0))


@pytest.mark.parametrize("version", ["0.15.0", "0.17.0", "0.18.0", "0.19.0"])
def test_later_fields_that_say_nothing_are_left_out(version: str) -> None:
    assert same(later(version, is_fast=0, note=""), relay.nn.softmax(X, axis=1))


def test_a_later_field_that_says_something_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        later("0.19.0", scale="0.5")
    assert str(caught.value) == (
        "node 9 (relay.attrs.SoftmaxAttrs): field 'scale' = '0.5', written by TVM 0.19.0, is not known; "
        "it must have no value to be left out"
    )


def test_boxed_numbers_of_0_18_are_numbers() -> None:
    d = Document("0.18.0")
    boxes = [("runtime.BoxInt", "-3"), ("runtime.BoxFloat", "0x1.8p+1"), ("runtime.BoxBool", "1")]
    root = d.array(*(d.add({"type_key": key, "repr_str": text}) for key, text in boxes))
    assert read(d, root) == [-3, 3.0, True]


def test_all_missing_operators_are_listed() -> None:
    d = Document()
    root = d.array(call(d, "another.op", []), call(d, "my.op", [], d.node("relay.attrs.MyAttrs", a=1)))
    with pytest.raises(UnsupportedOperatorError) as caught:
        read(d, root)
    first, *listed = str(caught.value).splitlines()
    assert first == "the document uses 2 operators that Relay does not have here"
    assert [line.split(";")[0] for line in listed] == ["  another.op", "  my.op"]


def test_indices_that_were_no_input_cannot_be_made_up() -> None:
    d = Document("0.6.0")
    attrs = d.node("relay.attrs.NonMaximumSuppressionAttrs", max_output_size=-1, iou_threshold=0.5)
    root = call(d, "vision.non_max_suppression", [variable(d, "x", 1, 5, 6), variable(d, "n", 1)], attrs)
    with pytest.raises(ModelError, match="without indices, as only"):
        read(d, root)


def upgraded_call(d: Document, root: str) -> tuple[list[Any], dict[str, str]]:
    """Return the arguments of a call and the fields of its attributes, as 0.14 would have written them."""
    reader = NodeReader(json.loads(d.text(root)))
    fields = reader.node(int(root))["attrs"]
    arguments = [reader.read(i) for i in reader.node(int(fields["args"]))["data"]]
    return arguments, dict(reader.node(int(fields["attrs"]))["attrs"])


def test_thresholds_of_0_7_became_arguments() -> None:
    d = Document("0.7.0")
    most = d.node("IntImm", dtype="int32", value=100)
    given = {"force_suppress": "0", "top_k": "-1"}
    attrs = d.node("relay.attrs.NonMaximumSuppressionAttrs", max_output_size=most, iou_threshold=0.5, **given)
    inputs = [variable(d, "x", 1, 5, 6), variable(d, "n", 1), variable(d, "i", 1, 5)]
    arguments, fields = upgraded_call(d, call(d, "vision.non_max_suppression", inputs, attrs))
    assert [str(a.checked_type) for a in arguments[3:]] == ["int32", "float32"]
    assert [a.data.numpy().item() for a in arguments[3:]] == [100, 0.5]
    assert fields == given


def test_the_threshold_of_valid_counts_became_an_argument() -> None:
    d = Document("0.6.0")
    attrs = d.node("relay.attrs.GetValidCountsAttrs", score_threshold=0.25, id_index=0, score_index=1)
    arguments, fields = upgraded_call(d, call(d, "vision.get_valid_counts", [variable(d, "x", 1, 5, 6)], attrs))
    assert [a.data.numpy().item() for a in arguments[1:]] == [0.25]
    assert fields == {"score_threshold": "0", "id_index": "0", "score_index": "1"}


def test_a_document_needs_no_version() -> None:
    d = Document(None)
    assert "attrs" not in json.loads(d.text("0"))
    assert same(read(d, variable(d, "x", 2, 3, 4)), X)
