"""Kernels for processors with NEON, as far as another machine can tell: their machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vmkit
from benchmarks.estimated.blocks import Block, blocks_of, with_counters
from vmkit import relay

N1 = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 1}


def convolution() -> relay.Function:
    x, weight = relay.var("x", shape=(1, 128, 28, 28)), relay.const(np.ones((256, 128, 1, 1), "float32"))
    return relay.Function([x], relay.nn.relu(relay.nn.conv2d(x, weight, channels=256, kernel_size=(1, 1))))


def strided() -> relay.Function:
    x, weight = relay.var("x", shape=(1, 64, 28, 28)), relay.const(np.ones((64, 64, 3, 3), "float32"))
    made = relay.nn.conv2d(x, weight, strides=(2, 2), padding=(1, 1, 1, 1), channels=64, kernel_size=(3, 3))
    return relay.Function([x], made)


def dense(rows: Any) -> relay.Function:
    x, weight = relay.var("x", shape=(rows, 512)), relay.const(np.full((1024, 512), 1 / 3, "float32"))
    return relay.Function([x], relay.nn.dense(x, weight))


def multiplies(block: Block) -> int:
    return sum(text.startswith("fmla ") for text in block.instructions)


@pytest.mark.parametrize("program", [convolution(), strided(), dense(64), dense(relay.Any())], ids=str)
def test_products_are_kept_in_registers_of_four_and_enough_of_them_grow_at_once(program: relay.Function) -> None:
    listing = str(vmkit.compile(program, N1).lib.inspect_source("asm")).splitlines()
    hot = max((block for block in blocks_of(listing) if block.is_loop), key=multiplies)
    sums = {text.split()[1] for text in hot.instructions if text.startswith("fmla ")}
    assert all(name.endswith(".4s,") for name in sums)
    # Two units, each with a result after four cycles.
    assert 8 <= len(sums) <= 28
    assert not any("[sp" in text for text in hot.instructions), "results leave the registers"
    assert multiplies(hot) >= len(hot.instructions) / 2


LISTING = """
\t.file\t"TVMMod"
kernel:
\tcbz\tx0, .LBB0_3
\tmov\tw1, #4\t// a comment
.LBB0_2:
.Ltmp1:
\tfmla\tv0.4s, v1.4s, v2.s[0]
\tsubs\tw1, w1, #1
\tb.ne\t.LBB0_2
.LBB0_3:
\tret
"""


def test_a_listing_is_cut_where_control_flow_may_enter_or_leave_and_each_part_counts() -> None:
    lines = LISTING.splitlines()
    blocks = blocks_of(lines)
    assert [block.instructions for block in blocks] == [
        ("cbz x0, .LBB0_3",),
        ("mov w1, #4",),
        ("fmla v0.4s, v1.4s, v2.s[0]", "subs w1, w1, #1", "b.ne .LBB0_2"),
        ("ret",),
    ]
    assert [block.is_loop for block in blocks] == [False, False, True, False]
    counted = with_counters(lines, blocks).splitlines()
    assert [sum(f"x18, #{8 * at}]" in line for line in counted) for at in range(5)] == [2, 2, 2, 2, 0]
    assert not any(".file" in line for line in counted)
    assert "estimated_counts, 40, 8" in counted[-1]
