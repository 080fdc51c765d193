"""At level 1 products of integers that differ in sizes alone are one kernel, by which sums are as exact."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

import vmkit
from tests.kernels.packed_product.products import convolved, packed_product
from tests.kernels.packed_product.test_depthwise import in_groups
from tests.kernels.packed_product.test_integers import TARGETS, integers, product, target_of
from vmkit import relay
from vmkit.compiler.stages import fused_kernels
from vmkit.kernels.packed_product.depthwise import depthwise_of
from vmkit.kernels.packed_product.encodings import ENCODINGS, mark_to_share, weight_from_json, weight_to_json
from vmkit.kernels.packed_product.integers import INTEGERS
from vmkit.kernels.packed_product.pairs import PAIRS
from vmkit.kernels.packed_product.shape import ProductShape
from vmkit.kernels.packed_product.weight import PackedWeight
from vmkit.target import canonical_target
from vmkit.target.integer_unit import integer_unit

# Sizes of data and output channels; kernel, strides, padding and dilation of the window.
WINDOWS = {
    "pointwise": (
        [((1, 9, 7, 32), 48), ((2, 3, 1, 64), 80)],
        (1, 1),
        (1, 1),
        (0, 0, 0, 0),
        (1, 1),
    ),
    "not whole tiles": ([((1, 9, 7, 32), 24), ((1, 4, 6, 16), 40)], (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "windows": ([((1, 9, 7, 32), 48), ((1, 12, 2, 16), 32)], (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "windows that are apart": ([((2, 9, 7, 16), 64), ((1, 15, 16, 48), 32)], (3, 2), (2, 2), (2, 0, 1, 0), (2, 3)),
    "every second position": ([((1, 8, 8, 16), 32), ((1, 14, 6, 32), 64)], (1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
}
DEPTHWISE = [(1, 9, 7, 40), (1, 6, 12, 24), (1, 3, 1, 104)]


def calls(target: str) -> tuple[list[relay.Var], list[relay.Expr], list[np.ndarray], list[np.ndarray]]:
    """Return inputs, products of them, values of the inputs, and what the products are exactly."""
    unit = integer_unit(canonical_target(target).primary)
    assert unit is not None
    inputs: list[relay.Var] = []
    made: list[relay.Expr] = []
    values: list[np.ndarray] = []
    wanted: list[np.ndarray] = []

    def variable(shape: tuple[int, ...]) -> relay.Var:
        inputs.append(relay.var(f"x{len(inputs)}", shape=shape, dtype="uint8"))
        values.append(integers(*shape))
        return inputs[-1]

    for sizes, kernel, strides, padding, dilation in WINDOWS.values():
        attrs = {"kernel_size": kernel, "strides": strides, "padding": padding, "dilation": dilation}
        for shape, units in sizes:
            w = integers(units, *kernel, shape[-1], dtype="int8")
            made.append(product(variable(shape), w, target, 77, **attrs))
            wanted.append(convolved(values[-1], w, strides, padding, dilation, 77))
    attrs = {"kernel_size": (3, 3), "strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1)}
    for shape in DEPTHWISE:
        w = integers(shape[-1], 3, 3, 1, dtype="int8")
        made.append(packed_product(variable(shape), w, depthwise_of(unit).name, 77, channels=shape[-1], **attrs))
        wanted.append(in_groups(values[-1], w, (1, 1), (1, 1, 1, 1), (1, 1)))
    for rows, inner, units in ((5, 64, 32), (1, 32, 80)):
        w = integers(units, inner, dtype="int8")
        made.append(product(variable((rows, inner)), w[:, None, :], target))
        wanted.append(values[-1].astype("int64") @ w.astype("int64").T)
    return inputs, [relay.cast(each, "float64") for each in made], values, wanted


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "tiles"])
def test_sums_of_layers_that_share_kernels_are_exact(name: str) -> None:
    target = target_of(name)
    inputs, made, values, wanted = calls(target)
    function = relay.Function(inputs, relay.Tuple(made))
    with vmkit.PassContext(opt_level=1):
        machine = vmkit.VirtualMachine(vmkit.compile(function, target), "cpu")
        assert len(products_in(function, target)) == len(WINDOWS) + 2
    for got, want in zip(machine.run(*values), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    assert len(products_in(function, target)) == len(made)


def products_in(function: relay.Function, target: str) -> list[str]:
    """Return the names of kernels of products."""
    kernels = fused_kernels(function, canonical_target(target).primary).functions.items()
    return [v.name_hint for v, f in kernels if isinstance(f, tirx.PrimFunc) and "packed_product" in v.name_hint]


def test_sums_without_the_instructions_are_exact() -> None:
    inputs, made, values, wanted = calls(TARGETS["int16 of 256 bits"][0])
    with vmkit.PassContext(opt_level=1):
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function(inputs, relay.Tuple(made)), "llvm"), "cpu")
    for got, want in zip(machine.run(*values), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)


def test_marks_tell_what_is_known_of_sizes() -> None:
    whole = PackedWeight(ProductShape(48, 40, (3, 3)), INTEGERS[0])
    mark = mark_to_share(weight_to_json(whole))
    assert mark is not None
    channels, units = tirx.Var("channels", "int64"), tirx.Var("units", "int64")
    shared = weight_from_json(mark, channels, units)
    assert (shared.product.channels, shared.product.units) == (channels, units)
    assert (shared.steps, shared.rest, shared.is_filled) == (4, 8, False)
    assert mark == mark_to_share(weight_to_json(PackedWeight(ProductShape(16, 24, (3, 3)), INTEGERS[0])))
    assert mark != mark_to_share(weight_to_json(PackedWeight(ProductShape(16, 32, (3, 3)), INTEGERS[0])))
    filled, tiles, pairs = PackedWeight(ProductShape(3, 16), INTEGERS[0]), ENCODINGS["int8_tiles"], PAIRS[0]
    for alone in (filled, PackedWeight(ProductShape(64, 16), tiles), PackedWeight(ProductShape(64, 16), pairs)):
        assert mark_to_share(weight_to_json(alone)) is None
