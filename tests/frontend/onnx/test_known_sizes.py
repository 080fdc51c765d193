"""Arithmetic on shapes is done at import: nothing of it is left in the module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.feeds import vector
from tests.frontend.onnx.programs import Compiled, array, check, graph, model, node, operators, tensor
from vmkit.errors import VMError
from vmkit.relay.ir.dim_text import dim_text

SHAPE_WORK = {"shape_of", "size_tensor", "dyn.reshape", "dyn.broadcast_to", "dyn.strided_slice", "dyn.tile", "dyn.full"}

X = {"x": (["n", "t", 4], "float32")}

SIZES = ((1, 1), (2, 3), (3, 5))


def check_folded(nodes: list, constants: dict[str, Any], outputs: str = "y", opset: int = 17) -> Compiled:
    proto = model(nodes, X, outputs, constants, opset)
    compiled = check(proto, *[{"x": array(n, t, 4)} for n, t in SIZES])
    assert not operators(compiled.module) & SHAPE_WORK
    return compiled


def test_reshape_to_sizes_of_the_input() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n"),
        node("Gather", "shape one", "t"),
        node("Mul", "n t", "rows"),
        node("Unsqueeze", "rows axis", "rows_1"),
        node("Concat", "rows_1 four", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "axis": np.array([0]), "four": np.array([4])}
    compiled = check_folded(nodes, constants)
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(n * t, 4), float32]"


def test_split_heads_and_join_them_again() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape begin two", "leading"),
        node("Concat", "leading heads", "split", axis=0),
        node("Reshape", "x split", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Transpose", "b", "c", perm=[0, 2, 1, 3]),
        node("Concat", "leading rest", "joined", axis=0),
        node("Reshape", "c joined", "y"),
    ]
    constants = {"begin": np.array([0]), "two": np.array([2]), "heads": np.array([2, 2]), "rest": np.array([-1])}
    compiled = check_folded(nodes, constants)
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(n, t, 4), float32]"


def test_sizes_are_split_and_joined_in_another_order() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Add", "shape shape", "double"),
        node("Split", "double", "a b c", axis=0),
        node("Concat", "b c a", "target", axis=0),
        node("Expand", "one target", "y"),
    ]
    compiled = check_folded(nodes, {"one": np.ones((1, 1, 1), "float32")})
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(t * 2, 8, n * 2), float32]"


def test_expand_to_the_shape_of_another_tensor() -> None:
    nodes = [node("Shape", "x", "shape"), node("Expand", "bias shape", "y")]
    check_folded(nodes, {"bias": array(4)})


def test_a_target_of_one_row_at_most_leaves_the_rows_as_they_are() -> None:
    nodes = [
        node("Slice", "b zero one zero", "row"),
        node("Shape", "row", "shape"),
        node("Expand", "a shape", "y"),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1])}
    proto = model(nodes, {"a": (["n", "l"], "float32"), "b": (["n", 1], "float32")}, "y", constants)
    check(proto, *[{"a": array(n, 4), "b": array(n, 1)} for n in (3, 1, 0)])


def test_constant_of_shape_and_range_over_sizes() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("ConstantOfShape", "shape", "ones", value=tensor(np.array([1], "float32"))),
        node("Add", "x ones", "y"),
    ]
    check_folded(nodes, {})


def test_slice_by_a_size() -> None:
    """As a transformer takes the positions of its sequence from a table."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape one two", "t"),
        node("Slice", "table zero t one", "rows"),
        node("Add", "x rows", "y"),
    ]
    constants = {"one": np.array([1]), "two": np.array([2]), "zero": np.array([0]), "table": array(1, 16, 4)}
    check_folded(nodes, constants)


def test_slice_to_half_of_a_size_and_from_there() -> None:
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Div", "shape two", "half"),
        node("Slice", "x zero half one", "front"),
        node("Slice", "x half far one", "back"),
    ]
    constants = {"two": np.array([2]), "zero": np.array([0]), "one": np.array([1]), "far": np.array([2**63 - 1])}
    check_folded(nodes, constants, "front back")


def test_pad_to_the_double_size() -> None:
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Concat", "zero zero zero zero shape zero", "pads", axis=0),
        node("Pad", "x pads", "y"),
    ]
    check_folded(nodes, {"zero": np.array([0])})


def test_tile_by_a_count_of_the_model() -> None:
    check_folded([node("Tile", "x counts", "y")], {"counts": np.array([1, 2, 3])})


def test_resize_to_twice_the_size_of_the_input() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Mul", "shape factor", "sizes"),
        node(
            "Resize",
            "x _ _ sizes",
            "y",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    proto = model(nodes, {"x": (["n", 2, "h", "w"], "float32")}, "y", {"factor": np.array([1, 1, 2, 2])})
    check(proto, *[{"x": array(n, 2, h, w)} for n, h, w in ((1, 3, 4), (2, 5, 2), (3, 1, 1))])


def test_size_arithmetic_in_floats_stays_exact() -> None:
    """floor(cast(n) * 2.0), as exporters compute sizes of upsampled images."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Cast", "shape", "floats", to=1),
        node("Mul", "floats scale", "scaled"),
        node("Floor", "scaled", "floor"),
        node("Cast", "floor", "sizes", to=7),
        node("Expand", "zero sizes", "y"),
    ]
    check_folded(nodes, {"scale": np.array([1, 2, 1], "float32"), "zero": np.zeros(1, "float32")})


def test_a_condition_that_sizes_decide_leaves_no_branch() -> None:
    """A size is never negative, so the branch is known at import."""
    then_branch = graph([node("Relu", "x", "a")], {}, "a")
    else_branch = graph([node("Neg", "x", "b")], {}, "b")
    nodes = [
        node("Shape", "x", "shape", start=0, end=1),
        node("GreaterOrEqual", "shape zero", "holds"),
        node("If", "holds", "y", then_branch=then_branch, else_branch=else_branch),
    ]
    compiled = check_folded(nodes, {"zero": np.array([0])})
    assert operators(compiled.module) == {"nn.relu"}


def test_one_hot_of_sizes_as_a_mask() -> None:
    """Positions below the sequence length, by Range and Less over the size."""
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Squeeze", "shape axis", "t"),
        node("Range", "zero t one", "positions"),
        node("Cast", "positions", "mask", to=1),
        node("Unsqueeze", "mask two", "column"),
        node("Mul", "x column", "y"),
    ]
    constants = {"axis": np.array([0]), "zero": np.int64(0), "one": np.int64(1), "two": np.array([1])}
    proto = model(nodes, X, "y", constants)
    check(proto, *[{"x": array(n, t, 4)} for n, t in SIZES])


def test_constants_are_folded_by_the_size_they_take() -> None:
    nodes = [node("Transpose", "w", "wt", perm=[1, 0]), node("MatMul", "x wt", "y")]
    compiled = check_folded(nodes, {"w": array(5, 4)})
    assert "transpose" not in operators(compiled.module)


def test_a_shape_is_an_output_when_the_model_asks_for_it() -> None:
    nodes = [node("Shape", "x", "y"), node("Size", "x", "z")]
    check(model(nodes, X, "y z"), *[{"x": array(n, t, 4)} for n, t in SIZES])


def test_reshape_to_a_target_computed_from_data() -> None:
    inputs = {"x": (["n", 4], "float32"), "target": ([2], "int64")}
    proto = model([node("Reshape", "x target", "y")], inputs, "y")
    feeds = [{"x": array(n, 4), "target": np.array(t)} for n, t in ((2, [4, 2]), (3, [-1, 6]), (1, [0, -1]))]
    assert operators(check(proto, *feeds).module) == {"dyn.reshape"}


@pytest.mark.parametrize("op_type", ["Slice", "Expand", "Tile"])
def test_targets_computed_from_data(op_type: str) -> None:
    inputs = {"x": (["n", 1], "float32"), "a": ([2], "int64"), "b": ([2], "int64")}
    names = {"Slice": "x a b", "Expand": "x b", "Tile": "x b"}[op_type]
    used = {k: v for k, v in inputs.items() if k in names.split()}
    proto = model([node(op_type, names, "y")], used, "y")
    whole = {"x": array(3, 1), "a": np.array([1, 0]), "b": np.array([3, 2])}
    check(proto, {k: v for k, v in whole.items() if k in used})


def test_what_is_left_of_a_new_shape_in_which_zero_is_a_size() -> None:
    nodes = [
        node("Shape", "x", "leading", end=2),
        node("Concat", "leading rest", "split", axis=0),
        node("Reshape", "x split", "y", allowzero=1),
    ]
    compiled = check_folded(nodes, {"rest": np.array([-1, 2])}, opset=19)
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(n, t, 2, 2), float32]"
    assert compiled(x=array(0, 3, 4))[0].shape == (0, 3, 2, 2)


def causal(table: int) -> Compiled:
    """Return scores (queries, past + queries) with what comes after each query hidden by a slice of a table."""
    nodes = [
        node("Shape", "x", "queries", start=0, end=1),
        node("Shape", "x", "total", start=1, end=2),
        node("Sub", "total queries", "past"),
        node("Slice", "table past total zero", "rows"),
        node("Slice", "rows zero total one", "mask"),
        node("Where", "mask x least", "y"),
    ]
    grown = [node("Concat", "before now", "x", axis=1), *nodes]
    sides = {"before": (["queries", "past"], "float32"), "now": (["queries", "queries"], "float32")}
    constants = {"zero": np.array([0]), "one": np.array([1]), "least": np.float32(-1e9)}
    return Compiled(model(grown, sides, "y", {**constants, "table": np.tri(table, dtype=bool)}))


def test_a_causal_mask_sliced_from_a_table_keeps_the_sizes_of_what_it_masks() -> None:
    compiled = causal(16)
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(queries, past + queries), float32]"
    for queries, past in ((1, 0), (1, 5), (3, 0), (4, 12), (2, 7)):
        scores = array(queries, past + queries)
        (masked,) = compiled(before=scores[:, :past], now=scores[:, past:])
        shown = np.tri(queries, past + queries, past, dtype=bool)
        np.testing.assert_array_equal(masked, np.where(shown, scores, np.float32(-1e9)))


def test_a_causal_mask_that_ends_with_its_table_is_an_error() -> None:
    scores = array(4, 17)
    with pytest.raises(VMError, match="dimension 0 is 3 in one input and 4 in another"):
        causal(16)(before=scores[:, :13], now=scores[:, 13:])


def test_a_new_shape_that_counts_out_a_slice_has_the_size_of_the_input() -> None:
    nodes = [
        node("Slice", "table zero t axis", "rows"),
        node("Shape", "rows", "rows_shape"),
        node("Shape", "x", "shape"),
        node("Gather", "shape first", "n"),
        node("Slice", "rows_shape zero axis1", "count"),
        node("Concat", "n count rest", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    size = node("Shape", "x", "t", start=1, end=2)
    constants = {"zero": np.array([0]), "axis": np.array([0]), "axis1": np.array([1]), "first": np.array([0])}
    constants |= {"rest": np.array([2, 2]), "table": array(512, 3)}
    proto = model([size, *nodes], X, "y", constants)
    compiled = check(proto, *[{"x": array(n, t, 4)} for n, t in SIZES])
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(n, t, 2, 2), float32]"


ROWS = {"x": (["n", 3, 4], "float32")}


def test_parameters_computed_from_shapes_stay_symbolic() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n"),
        node("Unsqueeze", "n front", "many"),
        node("Div", "many two", "half"),
        node("Sub", "many half", "rest"),
        node("Concat", "half rest", "parts", axis=0),
        node("Split", "x parts", "a b"),
        node("Concat", "many one one", "times", axis=0),
        node("Tile", "x times", "c"),
        node("TopK", "x half", "d e", axis=0),
        node("Range", "zero n step", "f"),
        node("Concat", "half many many", "box", axis=0),
        node("CenterCropPad", "x box", "g"),
        node("Slice", "x half many", "h"),
        node("Concat", "one many", "sizes", axis=0),
        node("Resize", "x _ _ sizes", "i", axes=[1, 2]),
        node("Pad", "x parts _ front", "j"),
    ]
    constants = {"zero": np.array(0), "front": vector(0), "two": vector(2), "one": vector(1), "step": np.array(2)}
    compiled = check(
        model(nodes, ROWS, "a b c d e f g h i j", constants, opset=18), {"x": array(4, 3, 4)}, {"x": array(7, 3, 4)}
    )
    dynamic = {o for o in operators(compiled.module) if o.startswith("dyn.") or o in ("shape_of", "arange")}
    assert dynamic == set()


def test_ranges_decide_signs_choices_and_branches() -> None:
    branches = {
        f"{kind}_branch": graph([node(op_type, "x", kind)], {}, kind)
        for kind, op_type in (("then", "Neg"), ("else", "Transpose"))
    }
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape zero", "size"), node("Sub", "size five", "less"),
        node("Slice", "x less big zero", "tail"), node("Slice", "x zero less zero", "head"),
        node("Slice", "x five big zero", "rest"), node("Add", "head rest", "sum"),
        node("Squeeze", "size", "number"), node("Squeeze", "big", "limit"),
        node("Less", "number limit", "is_small"), node("If", "is_small", "either", **branches),
        node("Max", "less one", "most"), node("ConstantOfShape", "most", "zeros"),
        node("Min", "size big", "least"), node("Slice", "table zero least zero", "first"),
        node("Add", "first x", "moved"),
    ]  # fmt: skip
    constants = {"zero": np.array([0]), "one": np.array([1]), "five": np.array([5]), "big": np.array([1000])}
    constants["table"] = array(1200, 3)
    proto = model(nodes, {"x": (["n", 3], "float32")}, "tail head sum either zeros moved", constants)
    compiled = check(proto, *({"x": array(n, 3)} for n in (6, 7, 900)), shape={"n": (6, 999)})
    shapes = compiled.module["main"].checked_type.ret_type.fields
    assert [dim_text(ty.shape[0]) for ty in shapes] == ["5", "n - 5", "n - 5", "n", "n - 5", "n"]
    with pytest.raises(VMError, match="the dimension n is not in the range 6 to 999"):
        compiled(x=array(1000, 3))


@pytest.mark.parametrize("by", [1, 3])
def test_what_is_rolled_keeps_its_size(by: int) -> None:
    """A chain of them is no chain of sizes, each an expression of the one before."""
    nodes, last = [], "x"
    for k in range(40):
        nodes += [
            node("Slice", f"{last} by far one", f"a{k}"), node("Slice", f"{last} zero by one", f"b{k}"),
            node("Concat", f"a{k} b{k}", f"c{k}", axis=1),
        ]  # fmt: skip
        last = f"c{k}"
    steering = {"by": np.array([by]), "far": np.array([2**31]), "zero": np.array([0]), "one": np.array([1])}
    compiled = check(model(nodes, X, last, steering), *[{"x": array(n, t, 4)} for n, t in SIZES])
    assert str(compiled.executable.outputs[0]) == str(compiled.executable.inputs[0]).replace("x", last)


def test_what_is_halved_doubled_and_cut_off_keeps_its_size() -> None:
    nodes, last = [], "x"
    for k in range(8):
        nodes += [
            node("MaxPool", last, f"p{k}", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
            node("ConvTranspose", f"p{k} w", f"t{k}", strides=[2, 2]), node("Shape", last, f"s{k}"),
            node("Slice", f"s{k} two four", f"e{k}"), node("Slice", f"t{k} none e{k} axes", f"y{k}"),
        ]  # fmt: skip
        last = f"y{k}"
    steering = {"two": [2], "four": [4], "none": [0, 0], "axes": [2, 3]}
    constants = {name: np.array(value) for name, value in steering.items()} | {"w": array(2, 2, 2, 2) / 2}
    proto = model(nodes, {"x": ([1, 2, "h", "w"], "float32")}, last, constants)
    compiled = check(proto, {"x": array(1, 2, 5, 4)}, {"x": array(1, 2, 8, 7)})
    assert compiled.executable.outputs[0].shape == (1, 2, "h", "w")


def _dilated_by_blocks(k: int, last: str, by: int) -> list:
    """Return a convolution of dilation `by` as it is exported: padded to blocks, which are taken apart and cut off."""
    n = [
        node("Shape", last, f"shape{k}"), node("Slice", f"shape{k} two four", f"size{k}"),
        node("Add", f"size{k} around{by}", f"padded{k}"), node("Div", f"padded{k} by{by}", f"blocks{k}"),
        node("Mul", f"blocks{k} by{by}", f"even{k}"), node("Sub", f"padded{k} even{k}", f"over{k}"),
        node("Sub", f"by{by} over{k}", f"lacks{k}"), node("Div", f"lacks{k} by{by}", f"all{k}"),
        node("Mul", f"all{k} by{by}", f"none{k}"), node("Sub", f"lacks{k} none{k}", f"crop{k}"),
        node("Add", f"crop{k} half{by}", f"after{k}"),
        node("Concat", f"zeros half{by} zeros after{k}", f"pads{k}", axis=0),
        node("Pad", f"{last} pads{k}", f"p{k}"), node("Transpose", f"p{k}", f"t{k}", perm=[1, 0, 2, 3]),
        node("SpaceToDepth", f"t{k}", f"d{k}", blocksize=by), node("Transpose", f"d{k}", f"u{k}", perm=[1, 0, 2, 3]),
        node("Conv", f"u{k} w", f"c{k}"), node("Transpose", f"c{k}", f"v{k}", perm=[1, 0, 2, 3]),
        node("DepthToSpace", f"v{k}", f"e{k}", blocksize=by), node("Transpose", f"e{k}", f"f{k}", perm=[1, 0, 2, 3]),
        node("Equal", f"crop{k} zero", f"whole{k}"), node("Not", f"whole{k}", f"cut{k}"),
        node("Cast", f"cut{k}", f"cuts{k}", to=7), node("Neg", f"cuts{k}", f"minus{k}"),
        node("Mul", f"crop{k} minus{k}", f"back{k}"), node("Cast", f"whole{k}", f"wholes{k}", to=7),
        node("Mul", f"far wholes{k}", f"away{k}"), node("Add", f"back{k} away{k}", f"end{k}"),
        node("Slice", f"f{k} zeros end{k} axes", f"y{k}"),
    ]  # fmt: skip
    return n


def test_what_is_padded_to_blocks_and_cut_off_keeps_its_size() -> None:
    """A size that is chosen by whether there was something to pad is none: neither choices nor remainders are left."""
    nodes, last = [], "x"
    for k, by in enumerate((2, 3, 6, 2)):
        nodes += _dilated_by_blocks(k, last, by)
        last = f"y{k}"
    constants = {
        "two": [2], "four": [4], "zeros": [0, 0], "zero": [0], "axes": [2, 3], "far": [2**31 - 1],
    }  # fmt: skip
    for by in (2, 3, 6):
        constants |= {f"by{by}": [by, by], f"half{by}": [by, by], f"around{by}": [2 * by, 2 * by]}
    arrays: dict[str, Any] = {name: np.array(value) for name, value in constants.items()} | {"w": array(2, 2, 3, 3) / 4}
    proto = model(nodes, {"x": (["n", 2, "h", "w_"], "float32")}, last, arrays)
    compiled = check(proto, {"x": array(1, 2, 5, 6)}, {"x": array(2, 2, 12, 7)}, {"x": array(1, 2, 8, 1)})
    assert compiled.executable.outputs[0].shape == ("n", 2, "h", "w_")
    assert not operators(compiled.module) & SHAPE_WORK


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_a_size_divided_by_another_that_is_none(op_type: str) -> None:
    nodes = [
        node("Shape", "x", "rows"),
        node("Shape", "z", "by"),
        node("Sub", "by three", "less"),
        node(op_type, "rows by", "a"),
        node(op_type, "rows less", "b"),
        node("Concat", "a b", "y", axis=0),
    ]
    inputs = {"x": (["n"], "float32"), "z": (["m"], "float32")}
    proto = model(nodes, inputs, "y", {"three": np.array([3])})
    compiled = check(proto, {"x": array(7), "z": array(2)}, {"x": array(9), "z": array(4)})
    for by in (0, 3):
        # By 1, then: ONNX does not say, and the process went on.
        (found,) = compiled(x=array(7), z=np.zeros(by, "float32"))
        assert found[0 if by == 0 else 1] == (7 if op_type == "Div" else 0)
