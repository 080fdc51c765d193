"""Slices, of which all parameters may be read at run time."""

from __future__ import annotations

import numpy as np

from tests.frontend.onnx.feeds import FEEDS, X, vector
from tests.frontend.onnx.programs import array, check, model, node, outputs_of


def test_slices() -> None:
    nodes = [
        node("Slice", "x one far axis", "a"),
        node("Slice", "x last none axis back", "b"),
        node("Slice", "x minus far axis", "c"),
        node("Slice", "x one far first", "d"),
    ]  # fmt: skip
    constants = {
        "one": np.array([1]), "far": np.array([2**63 - 1]), "axis": np.array([2]), "last": np.array([-1]),
        "none": np.array([-(2**63) + 1]), "back": np.array([-2]), "minus": np.array([-3]), "first": np.array([0]),
    }  # fmt: skip
    check(model(nodes, X, outputs_of(nodes), constants), *FEEDS)


def test_slice_before_opset_10() -> None:
    check(model([node("Slice", "x", "y", axes=[1, 2], starts=[1, -2], ends=[9, 4])], X, "y", opset=9), *FEEDS)


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


def test_sizes_of_slices_that_are_only_written_otherwise_are_known() -> None:
    """The shift of relative positions in an attention: of 2 * p - 1 columns, those from p - 1 on are p."""
    nodes = [
        node("Shape", "x", "p", start=1),
        node("Sub", "p one", "before"),
        node("Concat", "x x", "twice", axis=1),
        node("Slice", "twice one end one", "odd"),
        node("Slice", "odd before end one", "shifted"),
        node("Add", "shifted x", "y"),
    ]
    constants = {"one": np.array([1]), "end": np.array([np.iinfo("int64").max])}
    compiled = check(
        model(nodes, {"x": ([2, "p"], "float32")}, "y", constants), *[{"x": array(2, p)} for p in (1, 2, 5)]
    )
    assert str(compiled.executable.signature).endswith("(y: float32[2, p])")
    assert compiled(x=array(2, 0))[0].shape == (2, 0)


def test_parts_on_both_sides_of_a_position_modulo_a_size_that_is_named() -> None:
    """A roll as torch.onnx.export writes it; nothing has a position modulo 0, so no case of 0 is looked at."""
    nodes = [
        node("Shape", "x", "n", end=1),
        node("Mod", "back n", "k"),
        node("Slice", "x zero k zero", "front"),
        node("Slice", "x k n zero", "rest"),
        node("Concat", "rest front", "y", axis=0),
    ]
    constants = {"back": np.array([-2]), "zero": np.array([0])}
    proto = model(nodes, {"x": (["n", 3], "float32")}, "y", constants)
    check(proto, *[{"x": array(n, 3)} for n in (1, 2, 5)])


def test_all_but_the_last_window_of_a_size_rounded_up_to_windows() -> None:
    """The positions that are not masked of a shifted window attention: -7 times what is less than 0 is their number."""
    nodes = [
        node("Shape", "x", "n", end=1),
        node("Shape", "x", "t", start=1),
        node("Sub", "n t", "size"),
        node("Sub", "t n", "less"),
        node("Mod", "less seven", "missing"),
        node("Add", "size missing", "rounded"),
        node("Squeeze", "rounded zero", "padded"),
        node("Range", "first padded step", "places"),
        node("Slice", "places zero end zero", "y"),
    ]
    constants = {"zero": np.array([0]), "end": np.array([-7]), "seven": np.int64(7), "first": np.int64(0)}
    proto = model(nodes, {"x": (["n", "t"], "float32")}, "y", {**constants, "step": np.int64(1)})
    check(proto, *[{"x": array(n, 2)} for n in (3, 9, 10, 22)])
