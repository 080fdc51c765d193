"""Kernels are taken apart into nests, and what follows a sum is computed element by element."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm_ffi
from tvm import s_tir, te, tirx, topi

from vmkit.schedule.cpu.stages import block_of, is_chain, is_in, nests_of, value_of, with_nests


def kernel(after: Callable[[te.Tensor], te.Tensor]) -> tirx.PrimFunc:
    """Return the sums of rows and what follows them."""
    x = te.placeholder((4, 6), name="x")
    k = te.reduce_axis((0, 6), "k")
    sums = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="sums")
    return te.create_prim_func([x, after(sums)])


def blocks(function: tirx.PrimFunc) -> list[s_tir.SBlock]:
    return [block_of(nest) for nest in nests_of(function)]


def test_every_nest_has_its_block() -> None:
    function = kernel(lambda sums: te.compute((4,), lambda i: sums[i] * 2, name="twice"))
    assert [str(block.name_hint) for block in blocks(function)] == ["sums", "twice"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (lambda sums: te.compute((4,), lambda i: sums[i] + i, name="next"), True),
        (lambda sums: topi.nn.relu(topi.exp(sums)), True),
        (lambda sums: te.compute((4,), lambda i: sums[3 - i], name="next"), False),
        (lambda sums: te.compute((2,), lambda i: sums[i], name="next"), False),
        (lambda sums: te.compute((4, 3), lambda i, j: sums[i] + j, name="next"), False),
    ],
    ids=["one", "two", "other places", "some of them", "more axes"],
)
def test_what_maps_elements_at_their_places_is_a_chain(after: Callable[[te.Tensor], te.Tensor], expected: bool) -> None:
    product, *followers = blocks(kernel(after))
    assert is_chain(product, followers) == expected


def test_the_value_of_a_stage_follows_from_those_before_it() -> None:
    _, twice, last = blocks(kernel(lambda sums: topi.add(te.compute((4,), lambda i: sums[i] * 2, name="twice"), sums)))
    made = [twice.reads[0].source, twice.writes[0].source]
    values = [tirx.Var(name, "float32") for name in ("total", "doubled")]
    at = tirx.Var("at", "int64")
    value = value_of(last, [at], made, values)
    assert tvm_ffi.structural_equal(value, values[1] + values[0])


def test_a_root_takes_other_nests_and_loses_buffers() -> None:
    function = kernel(topi.exp)
    root, nests = function.body.block, nests_of(function)
    (sums,) = root.alloc_buffers
    made = with_nests(root, nests[1:], [sums])
    assert len(root.alloc_buffers) == 1 and list(made.alloc_buffers) == [] and made.body.same_as(nests[1])
    assert is_in(sums, root.alloc_buffers) and not is_in(sums, made.alloc_buffers)
