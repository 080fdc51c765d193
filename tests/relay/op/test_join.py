"""Joining and splitting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.tirx.buffer import is_buffer_var

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.compiler.stages import fused_kernels
from vmkit.errors import VMError
from vmkit.relay import var


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.arange(n * 4, dtype="float32").reshape(n, 4)
    return a, a + 100


def test_joins_and_splits_agree_with_numpy(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 4)), var("y", shape=(dim(2), dim(4)))
    table = {
        "rows": (relay.concatenate([x, y], 0), lambda x, y: np.concatenate([x, y])),
        "columns": (relay.concatenate((y, x, y), -1), lambda x, y: np.concatenate([y, x, y], 1)),
        "stack": (relay.stack([x, y, x], 1), lambda x, y: np.stack([x, y, x], 1)),
        "stack last": (relay.stack([x, y], -1), lambda x, y: np.stack([x, y], -1)),
        "halves": (relay.split(y, 2, 1), lambda x, y: tuple(np.split(y, 2, 1))),
        "cuts": (relay.split(x, [1, 1, 3], axis=1), lambda x, y: tuple(np.split(x, [1, 1, 3], 1))),
    }
    assert_table(
        [x, y], table, *[arrays(n) for n in ([2] if isinstance(x.type_annotation.shape[0], int) else [2, 3, 0])]
    )


def test_meshgrid_agrees_with_numpy(dim: Any) -> None:
    a, b = var("a", shape=(dim(3),)), var("b", shape=(dim(2),))
    table = {
        way: (relay.meshgrid([a, b], way), lambda a, b, w=way: tuple(np.meshgrid(a, b, indexing=w)))
        for way in ("ij", "xy")
    }
    assert_table([a, b], table, (np.arange(3, dtype="float32"), np.arange(2, dtype="float32")))


def test_many_tensors_are_joined_in_parts(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 4)), var("y", shape=(dim(2), 4))
    a, b = arrays(2)
    many, given = [x if k % 3 else y for k in range(150)], [a if k % 3 else b for k in range(150)]
    run = compiled([x, y], relay.concatenate(many, 1), relay.stack(many, -1), relay.concatenate(many[:65], 0))
    assert_same(run(a, b), (np.concatenate(given, 1), np.stack(given, -1), np.concatenate(given[:65], 0)))
    inputs = [var(f"x{k}", shape=(dim(2), 4)) for k in range(150)]
    kernels = fused_kernels(relay.Function(inputs, relay.concatenate(inputs, 0)), tvm.target.Target("llvm"))
    plain = [each for each in kernels.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    most = 64 if isinstance(inputs[0].type_annotation.shape[0], int) else 16
    assert max(sum(map(is_buffer_var, each.params)) for each in plain) == most + 1


def test_split_unpacks_and_is_an_expression() -> None:
    x = var("x", shape=(4, 2))
    parts = relay.split(x, 2)
    left, right = parts
    assert len(parts) == 2
    assert_same(
        compiled([x], left - right, parts)(np.arange(8, dtype="float32").reshape(4, 2)),
        (
            np.full((2, 2), -4, "float32"),
            tuple(np.split(np.arange(8, dtype="float32").reshape(4, 2), 2)),
        ),
    )
    with pytest.raises(IndexError, match="field 2 of a tuple of 2"):
        parts[2]


def test_mismatch_is_found_at_run_time() -> None:
    x, y = var("x", shape=(relay.Any(), 4)), var("y", shape=(relay.Any(), relay.Any()))
    a, b = arrays(2)[0], arrays(3)[0]
    with pytest.raises(VMError, match="concatenate: dimension 0 is 3 in one tensor and 2 in another"):
        compiled([x, y], relay.concatenate([x, y], 1))(a, b)
    with pytest.raises(VMError, match="stack: dimension 0 is 3 in one tensor and 2 in another"):
        compiled([x, y], relay.stack([x, y], 0))(a, b)
    with pytest.raises(VMError, match="split: the extent 3 of axis 0 cannot be divided into 2 equal sections"):
        compiled([x], relay.split(x, 2, 0))(b)
    with pytest.raises(VMError, match="split: the position 3 is past the end of axis 0"):
        compiled([x], relay.split(x, [3], 0))(a)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, y: relay.concatenate([x, y], 0), "dimension 1 is 4 in one tensor and 5 in another"),
        (
            lambda x, y: relay.concatenate([x, relay.cast(y, "int32")], 0),
            "the tensors' data types differ: float32, int32; cast them to one",
        ),
        (lambda x, y: relay.concatenate(x, 0), "the input must be a tuple of tensors, not Tensor[(2, 4), float32]"),
        (lambda x, y: relay.split(x, 3, 1), "the extent 4 of the axis cannot be divided into 3 equal sections"),
        (lambda x, y: relay.split(x, [3, 1], 1), "the positions [3, 1] do not ascend from 0"),
    ],
)  # fmt: skip
def test_wrong_joins_say_what_is_wrong(build: Any, message: str) -> None:
    x, y = var("x", shape=(2, 4)), var("y", shape=(2, 5))
    assert type_error([x, y], build(x, y)) == message
