"""Products of matrices and sums of products, at several sizes from one compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.programs import (
    array,
    check,
    model,
    node,
    outputs_of,
)
from vmkit import relay
from vmkit.errors import VMError
from vmkit.frontend.onnx import from_onnx


@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, {"transA": 1, "transB": 1}]
)
def test_gemm(attributes: dict[str, Any]) -> None:
    weight = array(5, 4) if attributes.get("transB") else array(4, 5)
    shape = [4, "n"] if attributes.get("transA") else ["n", 4]
    proto = model(
        [node("Gemm", "x w c", "y", **attributes)], {"x": (shape, "float32")}, "y", {"w": weight, "c": array(5, seed=1)}
    )
    check(proto, *[{"x": array(*[n if d == "n" else d for d in shape])} for n in (1, 2, 7)])


PRODUCTS = {
    "rows by a matrix": ((["n", 3, 4], (4, 5)), [((2, 3, 4), (4, 5))]),
    "stacks": ((["n", 3, 4], ["n", 4, "m"]), [((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (1, 4, 1))]),
    "stacks of stacks": (
        (["n", 2, "t", 4], ["n", 2, 4, "t"]), [((1, 2, 3, 4), (1, 2, 4, 3)), ((2, 2, 5, 4), (2, 2, 4, 5))],
    ),
    "a stack by one matrix of a stack": ((["n", 2, 3, 4], (1, 1, 4, 5)), [((2, 2, 3, 4), (1, 1, 4, 5))]),
    "broadcast stacks": (((2, 1, 3, 4), (5, 4, 2)), [((2, 1, 3, 4), (5, 4, 2))]),
    "a vector by a matrix": (((4,), (4, "n")), [((4,), (4, 3))]),
}  # fmt: skip

PRODUCTS["a matrix by a vector"] = ((["n", 4], (4,)), [((3, 4), (4,))])

PRODUCTS["vectors"] = (((4,), (4,)), [((4,), (4,))])


PRODUCTS["stacks of stacks whose sizes have different names"] = (
    (["n", 2, 3, 4], ["m", 2, 4, 5]),
    [((2, 2, 3, 4), (2, 2, 4, 5)), ((1, 2, 3, 4), (3, 2, 4, 5)), ((3, 2, 3, 4), (1, 2, 4, 5))],
)

PRODUCTS["stacks of stacks of which nothing is said"] = (
    (["n", "p", "s", "i", "k"], ["q", "r", "k", "j"]),
    [((2, 3, 1, 2, 4), (3, 2, 4, 5)), ((1, 1, 2, 3, 4), (3, 1, 4, 2))],
)


@pytest.mark.parametrize(("name", "is_nt"), [(name, is_nt) for name in PRODUCTS for is_nt in (True, False)])
def test_product(name: str, is_nt: bool) -> None:
    (left, right), cases = PRODUCTS[name]
    proto = model([node("MatMul", "x y", "z")], {"x": (left, "float32"), "y": (right, "float32")}, "z")
    feeds = [{"x": array(*a), "y": array(*b, seed=1)} for a, b in cases]
    check(proto, *feeds, convert_config={"use_nt_batch_matmul": is_nt})


def test_einsum() -> None:
    inputs = {"x": (["n", 3, 4], "float32"), "y": (["n", 4, 5], "float32")}
    proto = model([node("Einsum", "x y", "z", equation="nij,njk->nik")], inputs, "z")
    check(proto, {"x": array(2, 3, 4), "y": array(2, 4, 5)})


def test_sums_of_products_in_all_their_forms() -> None:
    inputs = {"s": (["n", "n"], "float32"), "a": (["b", 2, "n"], "float32"), "c": (["b", "n", 3], "float32")}
    forms = ["ii", "ii->i", "ij->ji", "ij->", "i j -> j", "I j->jI", "ij,jk", "...i->...", "i...->...i"]
    nodes = [node("Einsum", "s s" if "," in f else "s", f"y{k}", equation=f) for k, f in enumerate(forms)]
    pairs = ["bij,bjk->bik", "...ij,...jk->...ik", "...ij,...jk", "bij,bjk", "bij,cjk->bc", "bij,bjk->k"]
    nodes += [node("Einsum", "a c", f"z{k}", equation=f) for k, f in enumerate(pairs)]
    nodes += [node("Einsum", "s a s", "w", equation="ij,bki,jl->bkl")]
    proto = model(nodes, inputs, outputs_of(nodes), opset=12)
    check(proto, {"s": array(4, 4), "a": array(5, 2, 4), "c": array(5, 4, 3)})


@pytest.mark.parametrize("is_known", [True, False])
def test_sums_of_products_of_many_factors_in_any_order(is_known: bool) -> None:
    """What is multiplied first is not written in the equation; dimensions of 1 are broadcast in every order."""
    sizes = {"i": 5, "j": 7, "k": 33, "l": 17, "b": 2, "m": 1}
    inputs = ["ij", "jk", "kl", "bik", "blj", "bm", "mk", "il", "j"]
    forms = ["ij,jk,kl->il", "kl,ij,jk->il", "ij,jk,kl,il->", "bik,jk,blj->bil", "ij,j,jk->k", "bm,mk,kl->bl",
             "ij,kl,j->", "jk,il,blj,bm->bk", "...ij,...jk,kl->...il", "ij,jk,il", "ij,ij,ij->ij"]  # fmt: skip
    named = {x: [sizes[v] if is_known or v == "m" else v for v in x] for x in inputs}
    nodes = []
    for number, form in enumerate(forms):
        terms = form.replace("...", "").partition("->")[0].replace(",", " ")
        nodes.append(node("Einsum", terms, f"y{number}", equation=form))
    # A label that has one place in some factor, and several in others.
    nodes.append(node("Einsum", "bm jk bik", "w", equation="bj,jk,bik->bi"))
    proto = model(nodes, {x: (shape, "float32") for x, shape in named.items()}, outputs_of(nodes), opset=12)
    check(proto, {x: array(*(sizes[v] for v in x), seed=n) for n, x in enumerate(inputs)})


def test_stacks_of_sizes_that_the_data_decide() -> None:
    nodes = [
        node("NonZero", "c", "i"), node("Squeeze", "i axis", "j"), node("Gather", "x j", "g"),
        node("MatMul", "g y", "z"),
    ]  # fmt: skip
    inputs = {"c": ((4,), "bool"), "x": ((4, 2, 2, 3), "float32"), "y": (["m", 2, 3, 2], "float32")}
    proto = model(nodes, inputs, "z", {"axis": np.array([0])})
    feeds = [
        {"c": np.array(c, bool), "x": array(4, 2, 2, 3), "y": array(m, 2, 3, 2, seed=1)}
        for c, m in (([1, 0, 1, 0], 2), ([1, 0, 0, 0], 3), ([1, 1, 1, 1], 1))
    ]
    machine = check(proto, *feeds)
    with pytest.raises(VMError, match="dimension 0 is 3; it cannot be broadcast to 2"):
        machine(**{**feeds[0], "y": array(3, 2, 3, 2)})


def test_a_matrix_that_several_products_read_is_turned_round_once() -> None:
    nodes = [node("MatMul", f"x{k} w", f"x{k + 1}") for k in range(4)]
    proto = model(nodes, {"x0": (["n", 6], "float32")}, "x4", {"w": array(6, 6)})
    check(proto, *[{"x0": array(n, 6)} for n in (1, 3)])
    body = from_onnx(proto)[0]["main"].body
    (weight,) = (each for each in relay.ir.post_order(body) if isinstance(each, relay.Constant))
    np.testing.assert_array_equal(weight.data.numpy(), array(6, 6).T)
