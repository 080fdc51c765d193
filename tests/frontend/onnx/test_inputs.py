"""The types of a model's inputs: names of dimensions, and what the caller says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from tests.frontend.onnx.programs import Compiled, array, check, model, node
from vmkit import relay
from vmkit.errors import InputError, ModelError, OptionError, VMError
from vmkit.relay.frontend import from_onnx

TWO = {"x": (["batch", 4], "float32"), "mask": (["batch", None], "float32"), "fixed": ([1, 4], "float32")}


def two_inputs() -> Any:
    nodes = [node("ReduceSum", "mask axis", "s", keepdims=1), node("Mul", "x s", "m"), node("Add", "m fixed", "y")]
    return model(nodes, TWO, "y", {"axis": np.array([1])})


def types(shape: Any = None, **options: Any) -> list[str]:
    module, _ = from_onnx(two_inputs(), shape=shape, **options)
    return [str(p.type_annotation) for p in module["main"].params]


def test_names_of_the_file_are_kept_and_mean_the_same_size() -> None:
    module, params = from_onnx(two_inputs())
    x, mask, _ = (p.type_annotation for p in module["main"].params)
    assert (str(x), str(mask)) == ("Tensor[(batch, 4), float32]", "Tensor[(batch, mask_dim1), float32]")
    assert x.shape[0].same_as(mask.shape[0])
    assert params == {}


def test_names_of_inputs_and_outputs_are_in_the_signature() -> None:
    compiled = Compiled(two_inputs())
    assert str(compiled.executable.signature) == (
        "main(x: float32[batch, 4], mask: float32[batch, mask_dim1], fixed: float32[1, 4]) -> (y: float32[batch, 4])"
    )


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"x": (3, 4)}, ["(3, 4)", "(3, mask_dim1)", "(1, 4)"]),
        ({"x": ("n", 4)}, ["(n, 4)", "(n, mask_dim1)", "(1, 4)"]),
        ({"mask": ("batch", "k")}, ["(batch, 4)", "(batch, k)", "(1, 4)"]),
        ({"mask": (-1, None)}, ["(batch, 4)", "(batch, mask_dim1)", "(1, 4)"]),
        ({"fixed": ("?", 4)}, ["(batch, 4)", "(batch, mask_dim1)", "(fixed_dim0, 4)"]),
        ({"fixed": (relay.Any(), 4)}, ["(batch, 4)", "(batch, mask_dim1)", "(fixed_dim0, 4)"]),
        ({"fixed": ("batch", 4)}, ["(batch, 4)", "(batch, mask_dim1)", "(batch, 4)"]),
        ({"fixed": np.array([2, 4])}, ["(batch, 4)", "(batch, mask_dim1)", "(2, 4)"]),
        ({"x": ("n", 4), "mask": ("m", -1)}, ["(n, 4)", "(m, mask_dim1)", "(1, 4)"]),
    ],
)
def test_shape(shape: Any, expected: list[str]) -> None:
    assert types(shape) == [f"Tensor[{e}, float32]" for e in expected]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"mas": (1, 2)}, "shape of 'mas': the model has no such input; did you mean 'mask'?"),
        ({"zzz": (1, 2)}, "the model has no such input; the inputs are 'x', 'mask', 'fixed'"),
        ({"axis": (1,)}, "shape of 'axis': it is an initializer, whose type the model fixes"),
        ({"x": (1, 2, 3)}, r"3 dimensions \(1, 2, 3\), but the model's input has 2: \(batch, 4\)"),
        ({"x": 7}, "shape of 'x': a sequence of dimensions was expected, not 7"),
        ({"x": (-3, 4)}, "dimension 0 is -3; -1 stands for an unknown one"),
        ({"x": (1.5, 4)}, "dimension 0 is 1.5; a dimension is an int or a name"),
        ({"x": (3, 4), "mask": (5, 2)}, "dimension 'batch' becomes 5, but 3 in another input"),
        ({"x": ("n", 4), "mask": (5, 2)}, "dimension 'batch' becomes 5, but n in another input"),
    ],
)
def test_shapes_that_do_not_fit(shape: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        types(shape)


def test_everything_wrong_with_the_shapes_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        types({"y": (1,), "x": (1, 2, 3), "mask": (-2, 1)})
    assert str(caught.value).count("\n") == 3
    assert str(caught.value).startswith("3 things given for the inputs do not fit the model")


def test_dtypes_are_checked() -> None:
    assert types(dtype={"x": "float32"}) == types()
    with pytest.raises(InputError, match="dtype of 'x': float64, but the model's input is float32"):
        types(dtype={"x": "float64"})


def test_one_name_for_sizes_that_differ_may_become_two() -> None:
    nodes = [node("Relu", "x", "a"), node("Concat", "a z", "y", axis=0)]
    proto = model(nodes, {"x": (["N"], "float32"), "z": (["N"], "float32")}, "y", {})
    x, z = array(3), array(5)
    with pytest.raises(InputError, match="z: N = 5, but x already bound N = 3"):
        Compiled(proto)(x=x, z=z)
    result = Compiled(proto, {"x": ("n",), "z": ("m",)})(x=x, z=z)[0]
    np.testing.assert_array_equal(result, np.concatenate([np.maximum(x, 0), z]))


def static_model() -> Any:
    nodes = [node("Relu", "x", "r"), node("Reshape", "r flat", "f"), node("Reshape", "f pairs", "y")]
    return model(nodes, {"x": ([1, 2, 6], "float32")}, "y", {"flat": np.array([1, 12]), "pairs": np.array([1, -1, 4])})


def test_a_batch_that_the_file_fixes_may_become_any_size() -> None:
    """The 1 in front of the file's reshape targets is its batch."""
    compiled = Compiled(static_model(), {"x": ("n", 2, 6)})
    for n in (1, 2, 5):
        x = abs(array(n, 2, 6))
        np.testing.assert_array_equal(compiled(x=x)[0], x.reshape(n, 3, 4))


def test_a_size_that_the_model_is_made_for_is_told() -> None:
    proto = model([node("Reshape", "x to", "y")], {"x": ([3, 4], "float32")}, "y", {"to": np.array([2, 6])})
    message = (
        r"node 'y' \(Reshape, opset 17\) .*: the new shape \(2, 6\) is part of the model and fits the input \(n, 4\) "
        "only when n is 3, the size in the file"
    )
    with pytest.raises(ModelError, match=message):
        from_onnx(proto, shape={"x": ("n", 4)})


def test_an_input_without_a_shape_needs_one() -> None:
    proto = two_inputs()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputError, match="the model does not say how many dimensions 'x' has; give them by shape="):
        from_onnx(proto)
    module, _ = from_onnx(proto, shape={"x": ("batch", 4)})
    assert str(module["main"].params[0].type_annotation) == "Tensor[(batch, 4), float32]"


def test_an_unknown_setting_is_told() -> None:
    with pytest.raises(OptionError, match=r"no setting 'use_nt_batch_matmu'; did you mean 'use_nt_batch_matmul'\?"):
        from_onnx(two_inputs(), convert_config={"use_nt_batch_matmu": True})


def test_nodes_are_named_in_the_file_written(tmp_path: Any) -> None:
    from_onnx(two_inputs(), export_node_renamed_model_path=str(tmp_path / "named.onnx"))
    assert [n.name for n in onnx.load(tmp_path / "named.onnx").graph.node] == ["ReduceSum_0", "Mul_1", "Add_2"]


def test_only_parameters_that_steer_nothing_stay_parameters() -> None:
    module, params = from_onnx(two_inputs(), freeze_params=False)
    assert [p.name_hint for p in module["main"].params] == ["x", "mask", "fixed"]
    assert params == {}


def test_a_range_of_a_dimension_is_checked_in_every_run() -> None:
    proto = model([node("Relu", "x", "y"), node("Neg", "x", "z")], {"x": (["n", 4], "float32")}, "y z")
    compiled = check(proto, {"x": array(1, 4)}, {"x": array(3, 4)}, shape={"n": (1, 3)})
    for size in (0, 4):
        with pytest.raises(VMError, match="the dimension n is not in the range 1 to 3"):
            compiled(x=array(size, 4))
    named = check(proto, {"x": array(2, 4)}, shape={"x": ["rows", 4], "rows": (2, 2)})
    with pytest.raises(VMError, match="rows is not in the range 2 to 2"):
        named(x=array(3, 4))


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ({"m": (1, 3)}, "shape of 'm': the model has no such input"),
        ({"n": (3, 1)}, "range of 'n': 3 to 1 holds no size"),
        ({"x": [2, 4], "n": (1, 3)}, "the names of dimensions, which may have ranges, are none"),
    ],
)
def test_ranges_that_do_not_fit(shape: dict[str, Any], problem: str) -> None:
    proto = model([node("Relu", "x", "y")], {"x": (["n", 4], "float32")}, "y")
    with pytest.raises(InputError) as caught:
        from_onnx(proto, shape=shape)
    assert problem in str(caught.value)


def unknown(kind: str, dim: Any) -> Any:
    """Return a model of two inputs whose two dimensions are all written in one way, and so is what it says of `y`."""
    proto = model([node("Add", "x x", "a"), node("Relu", "b", "r"), node("Identity", "a", "y")], {}, "y r")
    for name in ("x", "b", "y", "r", "a"):
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        for _ in range(2):
            one = info.type.tensor_type.shape.dim.add()
            if kind != "missing":
                setattr(one, f"dim_{kind}", dim)
        place = proto.graph.value_info if name == "a" else proto.graph.output if name in "yr" else proto.graph.input
        for old in [v for v in place if v.name == name]:
            place.remove(old)
        place.append(info)
    return proto


_UNKNOWN = [
    ("missing", None), ("value", -1), ("value", 0), ("param", "?"), ("param", "-1"), ("param", ""), ("param", "None"),
    ("param", "unk__12"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "dim"), _UNKNOWN)
def test_what_exporters_write_for_unknown_says_nothing_of_another_dimension(kind: str, dim: Any) -> None:
    proto = unknown(kind, dim)
    assert vmkit.check(proto).is_supported
    compiled = Compiled(proto)
    inputs = "x: float32[x_dim0, x_dim1], b: float32[b_dim0, b_dim1]"
    outputs = "y: float32[x_dim0, x_dim1], r: float32[b_dim0, b_dim1]"
    assert str(compiled.executable.signature) == f"main({inputs}) -> ({outputs})"
    for sizes in ((2, 3, 4, 5), (1, 1, 7, 1), (0, 2, 3, 0)):
        x, b = array(*sizes[:2]), array(*sizes[2:])
        y, r = compiled(x=x, b=b)
        np.testing.assert_array_equal(y, x + x)
        np.testing.assert_array_equal(r, np.maximum(b, 0))


@pytest.mark.parametrize("dim", ["?", "-1", "", "None", "unk__12", -1, None])
def test_unknown_dimensions_that_the_caller_gives_are_each_their_own(dim: Any) -> None:
    assert types({"x": (dim, 4), "fixed": (dim, dim)}) == [
        f"Tensor[({e}, float32]" for e in ("batch, 4)", "batch, mask_dim1)", "fixed_dim0, fixed_dim1)")
    ]


def test_a_size_of_0_that_the_caller_gives_is_one() -> None:
    assert types({"fixed": (0, 4)})[-1] == "Tensor[(0, 4), float32]"


def test_the_name_of_an_unknown_dimension_is_no_name_in_the_file() -> None:
    nodes = [node("Relu", "x", "y"), node("Relu", "b", "r")]
    proto = model(nodes, {"x": ([None], "float32"), "b": (["x_dim0"], "float32")}, "y r")
    compiled = Compiled(proto)
    assert str(compiled.executable.signature).startswith("main(x: float32[x_dim0_], b: float32[x_dim0])")
    assert [r.shape for r in compiled(x=array(2), b=array(3))] == [(2,), (3,)]
