"""What ONNX takes as an input need not be a constant: axes, widths, limits, sizes, scales, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, graph, model, node, operators
from vmkit.errors import ModelError, VMError

X = {"x": (["n", 3, 4], "float32")}


def vector(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def named(nodes: list[Any]) -> str:
    return " ".join(o for n in nodes for o in n.output if o)


def test_reductions_over_axes_that_are_read() -> None:
    nodes = [
        node("ReduceSum", "x axes", "a"),
        node("ReduceMean", "x axes", "b", keepdims=0),
        node("ReduceMax", "x axes", "c"),
        node("ReduceProd", "x axes", "d", keepdims=0),
        node("ReduceLogSumExp", "x axes", "e", keepdims=0),
        node("ReduceL2", "x axes", "f"),
    ]
    proto = model(nodes, X | {"axes": ([2], "int64")}, named(nodes), opset=18)
    check(
        proto,
        {"x": array(2, 3, 4), "axes": vector(0, 2)},
        {"x": array(5, 3, 4), "axes": vector(-1, 1)},
        {"x": array(1, 3, 4), "axes": vector(1, -3)},
    )


def test_reductions_over_any_number_of_axes() -> None:
    nodes = [node("ReduceSum", "x axes", "a"), node("ReduceSumSquare", "x axes", "b", noop_with_empty_axes=1)]
    proto = model(nodes, X | {"axes": (["k"], "int64")}, "a b", opset=18)
    compiled = Compiled(proto)
    x = array(2, 3, 4)
    for axes in ((), (1,), (2, 0), (0, 1, 2)):
        over = axes or (0, 1, 2)
        expected = [x.sum(over, keepdims=True), (x * x).sum(axes, keepdims=True) if axes else x * x]
        assert_agrees(compiled(x=x, axes=vector(*axes)), expected, ["a", "b"])


def test_the_rank_of_a_result_must_be_known() -> None:
    inputs = X | {"axes": (["k"], "int64")}
    for operator in ("ReduceSum", "Squeeze", "Unsqueeze"):
        attributes = {"keepdims": 0} if operator == "ReduceSum" else {}
        with pytest.raises(ModelError, match="number of axes is not known at import, so the rank of the result is not"):
            Compiled(model([node(operator, "x axes", "y", **attributes)], inputs, "y"))


def test_running_sums_along_an_axis_that_is_read() -> None:
    nodes = [node("CumSum", "x axis", "a"), node("CumSum", "x axis", "b", reverse=1, exclusive=1)]
    proto = model(nodes, X | {"axis": ([], "int32")}, "a b")
    check(proto, *[{"x": array(2, 3, 4), "axis": np.array(a, "int32")} for a in (0, 1, -1)])


def test_running_products() -> None:
    nodes = [node("CumProd", "x axis", "a"), node("CumProd", "x one", "b", exclusive=1, reverse=1)]
    compiled = Compiled(model(nodes, X | {"axis": ([], "int64")}, "a b", {"one": np.array(1)}, opset=26))
    x = array(2, 3, 4)
    back = np.cumprod(np.concatenate([np.ones((2, 1, 4), "float32"), x[:, :0:-1]], 1), 1)[:, ::-1]
    for axis in (0, 2, -2):
        assert_agrees(compiled(x=x, axis=np.int64(axis)), [np.cumprod(x, axis), back], ["a", "b"])


def test_slices_whose_parameters_are_all_read() -> None:
    pair = {n: ([2], "int64") for n in ("starts", "ends", "axes", "steps")}
    nodes = [
        node("Slice", "x starts ends axes steps", "a"),
        node("Slice", "x starts ends fixed steps", "b"),
        node("Slice", "x starts ends", "c"),
    ]
    proto = model(nodes, X | pair, "a b c", {"fixed": vector(-2, 0)})
    check(
        proto,
        {
            "x": array(4, 3, 4), "starts": vector(0, 1), "ends": vector(2, 3), "axes": vector(2, 1),
            "steps": vector(1, 1),
        },
        {
            "x": array(5, 3, 4), "starts": vector(-1, 2**62), "ends": vector(-(2**62), 0), "axes": vector(-1, 0),
            "steps": vector(-2, -1),
        },
        {
            "x": array(2, 3, 4), "starts": vector(9, 0), "ends": vector(9, -1), "axes": vector(0, 2),
            "steps": vector(1, 3),
        },
    )  # fmt: skip


def test_slices_of_any_number_of_axes() -> None:
    inputs = X | {n: (["k"], "int64") for n in ("starts", "ends", "axes")}
    proto = model([node("Slice", "x starts ends axes", "a"), node("Slice", "x starts ends", "b")], inputs, "a b")
    names = ("starts", "ends", "axes")
    ways = [((), (), ()), ((1,), (3,), (2,)), ((0, 1, 1), (1, 2, 3), (1, 0, 2))]
    check(proto, *[{"x": array(3, 3, 4)} | {n: vector(*v) for n, v in zip(names, way, strict=True)} for way in ways])


def test_parts_of_sizes_that_are_read() -> None:
    nodes = [node("Split", "x parts", "a b c", axis=-1), node("Split", "x sizes", "d e")]
    proto = model(nodes, X | {"parts": ([3], "int64"), "sizes": ([2], "int64")}, named(nodes), opset=13)
    compiled = check(
        proto,
        {"x": array(5, 3, 4), "parts": vector(1, 2, 1), "sizes": vector(2, 3)},
        {"x": array(1, 3, 4), "parts": vector(0, 4, 0), "sizes": vector(0, 1)},
    )
    with pytest.raises(
        VMError, match="Split: the sizes of the parts are negative, or their sum is not the size of axis 2"
    ):
        compiled(x=array(5, 3, 4), parts=vector(1, 2, 2), sizes=vector(2, 3))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_that_are_read(mode: str) -> None:
    inputs = X | {"pads": ([4], "int64"), "axes": ([2], "int64"), "every": ([6], "int64")}
    nodes = [
        node("Pad", "x pads _ axes", "a", mode=mode),
        node("Pad", "x every", "b", mode=mode),
        node("Pad", "x pads _ fixed", "c", mode=mode),
    ]
    proto = model(nodes, inputs, "a b c", {"fixed": vector(-1, 1)}, opset=19)
    check(
        proto,
        {"x": array(4, 3, 4), "pads": vector(1, 2, 2, 0), "axes": vector(1, -1), "every": vector(2, 0, 1, 1, 2, 3)},
        {"x": array(3, 3, 4), "pads": vector(-1, 0, 0, 2), "axes": vector(0, 1), "every": vector(0, -1, 0, 1, 0, -2)},
    )  # fmt: skip


def test_dimensions_of_1_at_axes_that_are_read() -> None:
    inputs = {"x": (["n", 3, 1, 4], "float32"), "one": ([1], "int64"), "two": ([2], "int64")}
    nodes = [node("Squeeze", "x one", "a"), node("Unsqueeze", "x one", "b"), node("Unsqueeze", "x two", "c")]
    compiled = Compiled(model(nodes, inputs, "a b c", opset=13))
    for x, one, two in ((array(2, 3, 1, 4), 2, (0, -1)), (array(1, 3, 1, 4), -4, (5, 2))):
        expected = [np.squeeze(x, one), np.expand_dims(x, one), np.expand_dims(x, two)]
        assert_agrees(compiled(x=x, one=vector(one), two=vector(*two)), expected, ["a", "b", "c"])
    with pytest.raises(VMError, match="Squeeze: an axis of a tensor of 4 dimensions is not between -4 and 3"):
        compiled(x=array(2, 3, 1, 4), one=vector(4), two=vector(0, 1))


def test_without_axes_all_dimensions_of_1_go_even_where_sizes_have_names() -> None:
    nodes = [node("Squeeze", "x", "s"), node("ReduceSum", "s", "y", keepdims=0)]
    check(model(nodes, {"x": (["n", 1, "m"], "float32")}, "y"), {"x": array(2, 1, 3)}, {"x": array(1, 1, 3)})


def test_the_largest_elements_by_a_number_that_is_read() -> None:
    inputs = X | {"k": ([1], "int64")}
    nodes = [node("TopK", "x k", "a b", axis=1), node("TopK", "x k", "c d", largest=0), node("TopK", "x none", "e f")]
    compiled = check(
        model(nodes, inputs, named(nodes), {"none": vector(0)}),
        *[{"x": array(2, 3, 4), "k": vector(k)} for k in (0, 1, 3)],
    )
    with pytest.raises(VMError, match="TopK: k is negative, or axis 1 has fewer elements"):
        compiled(x=array(2, 3, 4), k=vector(4))


def test_wide_unsigned_numbers_are_ordered() -> None:
    values = np.array([[3, 2**64 - 1, 0, 2**63, 5]], "uint64")
    compiled = Compiled(model([node("TopK", "x k", "a b")], {"x": ([1, 5], "uint64")}, "a b", {"k": vector(4)}))
    expected = [np.array([[2**64 - 1, 2**63, 5, 3]], "uint64"), np.array([[1, 3, 4, 0]])]
    assert_agrees(compiled(x=values), expected, ["a", "b"])


def test_copies_made_as_often_as_is_read() -> None:
    proto = model([node("Tile", "x counts", "a")], X | {"counts": ([3], "int64")}, "a")
    check(proto, {"x": array(2, 3, 4), "counts": vector(1, 2, 3)}, {"x": array(2, 3, 4), "counts": vector(2, 0, 1)})
    first = Compiled(model([node("Tile", "x c a", "y")], X | {n: ([], "int64") for n in "ca"}, "y", opset=1))
    x = array(2, 3, 4)
    for count, axis in ((2, 0), (3, 2)):
        reps = [count if k == axis else 1 for k in range(3)]
        assert_agrees(first(x=x, c=np.int64(count), a=np.int64(axis)), [np.tile(x, reps)], ["y"])


def test_limits_and_diagonals_that_are_read() -> None:
    inputs = X | {"low": ([], "float32"), "high": ([], "float32"), "k": ([], "int64")}
    nodes = [node("Clip", "x low high", "a"), node("Clip", "x _ high", "b"), node("Trilu", "x k", "c")]
    names = ("low", "high", "k")
    ways = [(-1.0, 1.0, 0), (1.0, -1.0, -2), (0.5, 0.5, 3)]
    kinds = ("float32", "float32", "int64")
    feeds = [{n: np.array(v, d) for n, v, d in zip(names, way, kinds, strict=True)} for way in ways]
    check(model(nodes, inputs, "a b c"), *[{"x": array(2, 3, 4)} | feed for feed in feeds])


def test_what_is_dropped_in_training_is_known_by_the_seed() -> None:
    inputs = {"x": ([2, 8], "float32"), "ratio": ([], "float32"), "trains": ([], "bool")}
    compiled = Compiled(model([node("Dropout", "x ratio trains", "y mask", seed=3)], inputs, "y mask"))
    x = array(2, 8)
    for ratio, trains in ((0.5, False), (0.0, True), (0.25, True)):
        kept = np.random.RandomState(3).uniform(0, 1, (2, 8)) >= (ratio if trains else 0)
        expected = np.where(kept, x / (1 - ratio if trains else 1), 0).astype("float32")
        made = compiled(x=x, ratio=np.array(ratio, "float32"), trains=np.array(trains))
        assert_agrees(made, [expected, kept], ["y", "mask"])


def test_a_tensor_of_any_size_is_not_dropped_from() -> None:
    inputs = {"x": (["n"], "float32"), "ratio": ([], "float32"), "trains": ([], "bool")}
    compiled = check(
        model([node("Dropout", "x ratio trains", "y mask")], inputs, "y mask"),
        {"x": array(3), "ratio": np.array(0.5, "float32"), "trains": np.array(False)},
        {"x": array(3), "ratio": np.array(0, "float32"), "trains": np.array(True)},
    )
    with pytest.raises(VMError, match="in training mode elements are dropped only from a tensor whose sizes are known"):
        compiled(x=array(3), ratio=np.array(0.5, "float32"), trains=np.array(True))


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
        model(nodes, X, "a b c d e f g h i j", constants, opset=18), {"x": array(4, 3, 4)}, {"x": array(7, 3, 4)}
    )
    dynamic = {o for o in operators(compiled.module) if o.startswith("dyn.") or o in ("shape_of", "arange")}
    assert dynamic == set()


def test_a_graph_of_the_first_opset() -> None:
    nodes = [
        node("Split", "x", "a b", axis=2, split=[1, 3]),
        node("Slice", "x", "c", starts=[1, -2], ends=[3, 9], axes=[1, 2]),
        node("Pad", "x", "d", mode="edge", paddings=[0, 1, 0, 0, 0, 2]),
        node("TopK", "x", "e f", k=2, axis=1),
        node("Dropout", "x", "g m", is_test=1),
        node("Reshape", "x", "h", shape=[0, -1], consumed_inputs=[0]),
        node("Upsample", "image", "i", height_scale=2.0, width_scale=3.0),
    ]
    inputs = X | {"image": ([1, 2, 2, 2], "float32")}
    made = graph(nodes, inputs, "a b c d e f g h i")
    compiled = Compiled(helper.make_model(made, opset_imports=[helper.make_opsetid("", 1)]))
    x, image = array(2, 3, 4), array(1, 2, 2, 2)
    order = np.argsort(-x, 1, kind="stable")[:, :2]
    expected = [
        x[..., :1], x[..., 1:], x[:, 1:3, -2:], np.pad(x, ((0, 0), (1, 0), (0, 2)), "edge"),
        np.take_along_axis(x, order, 1), order, x, x.reshape(2, -1), image.repeat(2, 2).repeat(3, 3),
    ]  # fmt: skip
    assert_agrees(compiled(x=x, image=image), expected, list("abcdefghi"))


def test_an_index_outside_is_an_error_and_a_negative_one_counts_from_the_end() -> None:
    inputs = X | {"i": (["k"], "int64"), "e": (["n", 1, 4], "int32"), "t": ([1, 2], "int64"), "u": ([1, 4], "float32")}
    nodes = [
        node("Gather", "x i", "a", axis=1),
        node("GatherElements", "x e", "b", axis=1),
        node("GatherND", "x t", "c"),
        node("ScatterND", "x t u", "d", reduction="max"),
    ]
    proto = model(nodes, inputs, "a b c d", opset=18)
    feed = {
        "x": array(2, 3, 4), "i": vector(0, -3, 2), "e": np.full((2, 1, 4), -1, "int32"), "t": np.array([[-1, 2]]),
        "u": array(1, 4, seed=2),
    }  # fmt: skip
    compiled = check(proto, feed)
    for name, value, operator in (
        ("i", vector(0, 3), "Gather: an index lies outside of axis 1"),
        ("e", np.full((2, 1, 4), -4, "int32"), "GatherElements: an index lies outside of axis 1"),
        ("t", np.array([[0, 3]]), "(Gather|Scatter)ND: an index lies outside of the tensor"),
    ):
        with pytest.raises(VMError, match=operator):
            compiled(**feed | {name: value})
    with pytest.raises(ModelError, match="the index 3 lies outside of axis 1, which has 3 elements"):
        Compiled(model([node("Gather", "x i", "y", axis=1)], X, "y", {"i": vector(3)}))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_elements_are_joined_with_what_is_there(reduction: str) -> None:
    inputs = X | {"i": (["n", 2, 4], "int64"), "u": (["n", 2, 4], "float32")}
    proto = model([node("ScatterElements", "x i u", "y", axis=1, reduction=reduction)], inputs, "y", opset=18)
    indices = np.array([[[0, 1, 2, -1], [1, -1, 0, 0]]])
    check(proto, {"x": array(1, 3, 4), "i": indices, "u": array(1, 2, 4, seed=1)})


def test_sums_of_products_in_all_their_forms() -> None:
    inputs = {"s": (["n", "n"], "float32"), "a": (["b", 2, "n"], "float32"), "c": (["b", "n", 3], "float32")}
    forms = ["ii", "ii->i", "ij->ji", "ij->", "i j -> j", "I j->jI", "ij,jk", "...i->...", "i...->...i"]
    nodes = [node("Einsum", "s s" if "," in f else "s", f"y{k}", equation=f) for k, f in enumerate(forms)]
    pairs = ["bij,bjk->bik", "...ij,...jk->...ik", "...ij,...jk", "bij,bjk", "bij,cjk->bc", "bij,bjk->k"]
    nodes += [node("Einsum", "a c", f"z{k}", equation=f) for k, f in enumerate(pairs)]
    nodes += [node("Einsum", "s a s", "w", equation="ij,bki,jl->bkl")]
    proto = model(nodes, inputs, named(nodes), opset=12)
    check(proto, {"s": array(4, 4), "a": array(5, 2, 4), "c": array(5, 4, 3)})


def test_statistics_are_moved_in_training() -> None:
    inputs = {"x": (["n", 3, "w"], "float32")} | {p: ([3], "float32") for p in ("scale", "bias", "mean", "var")}
    nodes = [node("BatchNormalization", "x scale bias mean var", "y m v", training_mode=1, momentum=0.8)]
    compiled = Compiled(model(nodes, inputs, "y m v", opset=15))
    x, scale, bias, mean = array(4, 3, 5), array(3, seed=1), array(3, seed=2), array(3, seed=3)
    var = np.abs(array(3, seed=4))
    own, spread = x.mean((0, 2)), x.var((0, 2))
    centred = (x - own[:, None]) / np.sqrt(spread + 1e-5)[:, None]
    expected = [centred * scale[:, None] + bias[:, None], mean * 0.8 + own * 0.2, var * 0.8 + spread * 0.2]
    made = compiled(x=x, scale=scale, bias=bias, mean=mean, var=var)
    assert_agrees(made, [e.astype("float32") for e in expected], ["y", "m", "v"])


def test_bits_shifted_out_are_gone() -> None:
    inputs = {"x": ([4], "uint8"), "by": ([4], "uint8")}
    nodes = [node("BitShift", "x by", "a", direction="LEFT"), node("BitShift", "x by", "b", direction="RIGHT")]
    compiled = Compiled(model(nodes, inputs, "a b", opset=11))
    x, by = np.array([255, 1, 128, 7], "uint8"), np.array([8, 7, 200, 1], "uint8")
    expected = [np.array([0, 128, 0, 14], "uint8"), np.array([0, 0, 0, 3], "uint8")]
    assert_agrees(compiled(x=x, by=by), expected, ["a", "b"])
