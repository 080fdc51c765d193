"""Relay's operators that broadcast, where nothing is known of two sizes before the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.errors import VMError


class Case(NamedTuple):
    """An operator, what numpy gives, and the shapes of its operands: some that fit and some that do not."""

    build: Callable[..., Any]
    expected: Callable[..., Any]
    fitting: Sequence[Sequence[tuple[int, ...]]]
    others: Sequence[Sequence[tuple[int, ...]]]
    dtype: str = "float32"


FITTING = [[(2, 3), (2, 3)], [(1, 3), (2, 1)], [(2, 3), (1, 1)], [(0, 3), (1, 1)], [(1, 0), (2, 1)]]
OTHERS = [[(2, 3), (4, 3)], [(2, 0), (2, 3)]]


def _binary(name: str, expected: Callable[..., Any], dtype: str = "float32") -> Case:
    return Case(getattr(relay, name), expected, FITTING, OTHERS, dtype)


CASES = {
    "add": _binary("add", np.add),
    "less": _binary("less", np.less),
    "logical_xor": _binary("logical_xor", np.logical_xor, "bool"),
    "maximum": _binary("maximum", np.maximum),
    "power": _binary("power", np.power),
    "floor_divide": _binary("floor_divide", np.floor_divide, "int32"),
    "where": Case(
        lambda a, b, c: relay.where(relay.greater(a, c), b, c),
        lambda a, b, c: np.where(a > c, b, c),
        [[(2, 3), (1, 3), (2, 1)], [(1, 1), (2, 1), (1, 3)], [(0, 1), (1, 3), (1, 1)]],
        [[(2, 3), (4, 3), (1, 1)]],
    ),
    "nn.batch_matmul": Case(
        lambda a, b: relay.nn.batch_matmul(a, b, transpose_b=False),
        np.matmul,
        [[(2, 3, 4), (2, 4, 5)], [(1, 3, 4), (2, 4, 5)], [(2, 3, 4), (1, 4, 5)], [(0, 3, 4), (1, 4, 5)]],
        [[(2, 3, 4), (3, 4, 5)], [(2, 3, 4), (2, 3, 5)]],
    ),
    "einsum": Case(
        lambda a, b: relay.einsum([a, b], "bij,bjk->bik"),
        np.matmul,
        [[(2, 3, 4), (2, 4, 5)], [(1, 3, 4), (2, 4, 5)], [(2, 3, 4), (1, 4, 5)], [(0, 3, 4), (1, 4, 5)]],
        [[(2, 3, 4), (3, 4, 5)], [(2, 3, 4), (2, 3, 5)]],
    ),
    "broadcast_to_like": Case(
        relay.broadcast_to_like,
        lambda a, b: np.broadcast_to(a, b.shape),
        [[(2, 3), (2, 3)], [(1, 3), (2, 3)], [(1, 1), (0, 3)]],
        [[(2, 3), (1, 3)], [(2, 3), (4, 3)]],
    ),
    "a chain": Case(
        lambda a, b, c: relay.add(relay.multiply(a, b), relay.subtract(c, a)),
        lambda a, b, c: a * b + (c - a),
        [[(2, 3), (1, 3), (2, 1)], [(1, 1), (1, 1), (2, 3)], [(0, 1), (1, 3), (1, 1)]],
        [[(2, 3), (2, 3), (3, 3)]],
    ),
}


def _array(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random(shape) > 0.5 if dtype == "bool" else (rng.random(shape) * 3 + 1).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["Any", "symbols", "both"])
@pytest.mark.parametrize("name", CASES)
def test_sizes_meet_at_run_time(name: str, kind: str) -> None:
    case = CASES[name]
    params = []
    for k, shape in enumerate(case.fitting[0]):
        is_any = kind == "Any" or (kind == "both" and k == 0)
        unknown = [relay.Any() if is_any else tirx.Var(f"d{k}{axis}", "int64") for axis in range(len(shape))]
        params.append(relay.var(f"x{k}", shape=unknown, dtype=case.dtype))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function(params, case.build(*params)), target="llvm"))
    for sizes in case.fitting:
        arrays = [_array(s, case.dtype, k) for k, s in enumerate(sizes)]
        expected, actual = case.expected(*arrays), machine.run(*arrays).numpy()
        assert actual.shape == expected.shape, sizes
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5, err_msg=str(sizes))
    for sizes in case.others:
        with pytest.raises(VMError) as caught:
            machine.run(*[_array(s, case.dtype, k) for k, s in enumerate(sizes)])
        (text,) = caught.value.args
        assert sum(str(d) in text for d in {d for s in sizes for d in s}) >= 2 and "match_cast" not in text, text
