"""Products of matrices of 8-bit integers that are inputs are exact in every size, order of axes and zero point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.errors import CompileError, TypeCheckError
from vmkit.relay import nn
from vmkit.relay.ir import Function, post_order
from vmkit.relay.op.registry import build
from vmkit.relay.transform import infer_module
from vmkit.target import canonical_target
from vmkit.target.integer_unit import IntegerUnit, integer_unit

DTYPES = list(itertools.product(("uint8", "int8"), repeat=2))
SIZES = [(1, 37, 100), (3, 64, 8), (4, 1, 33), (9, 70, 16), (5, 11, 5), (201, 6, 19), (2, 700, 64)]
NAME = "nn.contrib_integer_matrices"


def numbers(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return integers of which many are at the ends of their range, where sums of pairs would saturate."""
    info, random = np.iinfo(dtype), np.random.default_rng(sum(shape))
    drawn = random.integers(info.min, info.max + 1, shape)
    return np.where(random.random(shape) < 0.5, drawn, info.max).astype(dtype)


def less(x: Any, zero: Any) -> Any:
    wide = relay.cast(x, "int32")
    return wide if zero is None else relay.subtract(wide, relay.cast(zero, "int32"))


def of_matrices(shapes: Any, dtypes: tuple[str, str], zeros: tuple[Any, Any], turned: tuple[bool, bool]) -> Function:
    """Return a program of two stacks and their zero points, numbers of the left one by rows and of the right one."""
    x, y = (relay.var(name, shape=shape, dtype=d) for name, shape, d in zip("xy", shapes, dtypes, strict=True))
    inputs = [
        None if shape is None else relay.var(name, shape=shape, dtype=d)
        for name, shape, d in zip("pq", zeros, dtypes, strict=True)
    ]
    left, right = (less(*each) for each in zip((x, y), inputs, strict=True))
    made = nn.batch_matmul(left, right, out_dtype="int32", transpose_a=turned[0], transpose_b=turned[1])
    return relay.Function([x, y, *(v for v in inputs if v is not None)], made)


def operators(function: Function, unit: IntegerUnit) -> list[str]:
    module = optimize.UseIntegerMatrices(unit)(infer_module(tvm.IRModule({"main": function})))
    nodes = post_order(module["main"])
    return [node.op.name for node in nodes if isinstance(getattr(node, "op", None), tvm.ir.Op)]


def check(machine: vmkit.VirtualMachine, given: Sequence[np.ndarray], turned: tuple[bool, bool]) -> None:
    wide = [v.astype("int64") for v in given]
    zeros = iter(wide[2:])
    differences = [v - next(zeros, 0) for v in wide[:2]]
    left, right = (v.swapaxes(1, 2) if t else v for v, t in zip(differences, turned, strict=True))
    sizes = str([v.shape for v in wide])
    np.testing.assert_array_equal(machine.run(*given).numpy(), left @ right, err_msg=sizes)


@pytest.mark.parametrize("dtypes", DTYPES)
def test_sizes_that_tiles_do_not_divide_are_whole(dtypes: tuple[str, str]) -> None:
    for rows, inner, columns in SIZES:
        shapes = (2, rows, inner), (2, inner, columns)
        function = of_matrices(shapes, dtypes, ((), ()), (False, False))
        assert NAME in operators(function, IntegerUnit(8, 2, 16))
        given = [numbers(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        given += [np.array(100, dtype).astype(dtype) for dtype in dtypes]
        check(vmkit.VirtualMachine(vmkit.compile(function, "native")), given, (False, False))


@pytest.mark.parametrize("dtypes", DTYPES[:2])
def test_sizes_known_at_run_time_only_are_any(dtypes: tuple[str, str]) -> None:
    """From none on; and batches of which one serves all of the other's."""
    any_size = [relay.Any()] * 3
    machine = vmkit.VirtualMachine(
        vmkit.compile(of_matrices((any_size, any_size), dtypes, (None, None), (False, False)), "native")
    )
    sizes = itertools.product([0, 1, 3, 4, 7], [0, 1, 2, 33], [0, 1, 5, 8, 16, 50, 130])
    for rows, inner, columns in sizes:
        for of_left, of_right in ((2, 2), (1, 3), (3, 1), (0, 1)):
            shapes = (of_left, rows, inner), (of_right, inner, columns)
            check(machine, [numbers(s, d) for s, d in zip(shapes, dtypes, strict=True)], (False, False))


@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)])
def test_operands_are_in_any_order_of_axes(turned: tuple[bool, bool]) -> None:
    shapes = [(3, 9, 21), (3, 21, 34)]
    stored = [(s[0], s[2], s[1]) if is_turned else s for s, is_turned in zip(shapes, turned, strict=True)]
    dtypes = "uint8", "int8"
    given = [numbers(shape, dtype) for shape, dtype in zip(stored, dtypes, strict=True)]
    machine = vmkit.VirtualMachine(vmkit.compile(of_matrices(stored, dtypes, (None, None), turned), "native"))
    check(machine, given, turned)


def test_zero_points_of_rows_and_columns() -> None:
    shapes, dtypes, zeros = ((1, 6, 20), (1, 20, 40)), ("uint8", "uint8"), ((1, 6, 1), (1, 1, 40))
    function = of_matrices(shapes, dtypes, zeros, (False, False))
    given = [numbers(shape, "uint8") for shape in (*shapes, *zeros)]
    check(vmkit.VirtualMachine(vmkit.compile(function, "native")), given, (False, False))


def test_a_matrix_by_the_transpose_of_another_reads_that_as_it_is() -> None:
    x, y = relay.var("x", shape=(5, 48), dtype="uint8"), relay.var("y", shape=(48, 32), dtype="int8")
    product = nn.dense(less(x, None), relay.transpose(less(y, None), [1, 0]), out_dtype="int32")
    found = operators(relay.Function([x, y], product), IntegerUnit(16, 2, 32))
    assert NAME in found and "transpose" not in found


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "znver4", "sapphirerapids"])
def test_every_unit_has_the_instruction(cpu: str) -> None:
    function = of_matrices(([relay.Any()] * 3, [relay.Any()] * 3), ("uint8", "int8"), ((), ()), (False, False))
    target = f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"
    unit = integer_unit(canonical_target(target).primary)
    assert unit is not None and NAME in operators(function, unit)
    vmkit.compile(function, target)


@pytest.mark.parametrize(
    ("rows", "zeros", "expected"),
    [
        (8, ((), ()), ["uint8", "int8"]),
        (1, ((), ()), ["int16", "uint8"]),  # the sums of all columns would be as much work as the product
        (8, ((1, 8, 1), None), ["int16", "uint8"]),  # several zero points
    ],
)
def test_numbers_are_read_in_fours_where_the_unit_has_them(rows: int, zeros: Any, expected: list[str]) -> None:
    function = of_matrices(((1, rows, 20), (1, 20, 40)), ("int8", "uint8"), zeros, (False, False))
    module = optimize.UseIntegerMatrices(IntegerUnit(16, 4, 32))(infer_module(tvm.IRModule({"main": function})))
    product = next(
        n for n in post_order(infer_module(module)["main"]) if getattr(getattr(n, "op", 0), "name", "") == NAME
    )
    assert [arg.checked_type.dtype for arg in product.args] == expected


def test_operators_of_several_results_stay() -> None:
    x = relay.var("x", shape=(5, 9), dtype="int32")
    found = operators(relay.Function([x], relay.topk(x, k=2, ret_type="both").astuple()), IntegerUnit(8, 2, 16))
    assert found == ["topk"]


def test_a_target_without_the_instruction_is_refused() -> None:
    """LLVM would end the process."""
    x, y = relay.var("x", shape=(2, 3, 6), dtype="int16"), relay.var("y", shape=(2, 6, 8), dtype="int8")
    function = relay.Function([x, y], build(NAME, x, y, lanes=16))
    refused = [("x86-64", "has no instructions for that"), ("x86-64-v3", "has vectors of 8, and groups of 2")]
    for cpu, has in refused:
        with pytest.raises(
            CompileError, match=f"in vectors of 16 int32, by groups of 2, but .* {has}; write nn.matmul"
        ):
            vmkit.compile(function, f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    fours = relay.var("x", shape=(2, 3, 6), dtype="uint8")
    with pytest.raises(CompileError, match=r"by groups of 4, but .* has vectors of 16, and groups of 2"):
        made = build(NAME, fours, y, lanes=16)
        vmkit.compile(relay.Function([fours, y], made), "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    with pytest.raises(TypeCheckError, match="lanes is 3, expected 8 or 16"):
        vmkit.compile(relay.Function([x, y], build(NAME, x, y, lanes=3)))
