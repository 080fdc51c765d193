"""Stages that are computed where the result goes."""

from __future__ import annotations

import pytest
from tvm import s_tir, te, topi

from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import row_reduction

from .test_rules import TARGET, kernel, n, placeholders, run


def stages_of(columns: int) -> set[str]:
    """Return the names of the buffers that a scheduled softmax has beside what it is given."""
    plain = rules.prepared(kernel(topi.nn.softmax, [(n, columns)])["main"])
    assert plain is not None
    decisions = row_reduction.RULE.decide(plain, TARGET)
    assert decisions is not None
    made = row_reduction.RULE.apply(plain, TARGET, decisions) or plain
    return {buffer.name for buffer in made.mod["main"].body.block.alloc_buffers}


def test_exponentials_lie_where_the_result_goes_unless_tiles_overlap() -> None:
    assert not {"T_softmax_exp", "T_softmax_exp_local"} & stages_of(96)
    assert "T_softmax_exp_local" in stages_of(77)


@pytest.mark.parametrize("is_own", [True, False])
def test_what_is_read_elsewhere_stays_apart(is_own: bool) -> None:
    def centred(x: te.Tensor) -> te.Tensor:
        total = topi.sum(x, 1, keepdims=True)
        scaled = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - total[i, 0]), name="scaled")
        again = topi.sum(scaled, 1, keepdims=True)
        other = (lambda j: j) if is_own else (lambda j: 63 - j)
        return te.compute(x.shape, lambda i, j: scaled[i, other(j)] / again[i, 0], name="last")

    plain = kernel(centred, [(n, 64)])
    schedule = s_tir.Schedule(plain)
    found = rules.in_place.earlier_result(schedule, schedule.get_child_blocks(schedule.get_sblock("root")))
    assert (found is not None) == is_own
    scheduled = rules.schedule_kernels(plain, TARGET)
    whole = centred(*placeholders([(n, 64)])).shape
    expected = run(plain, [(n, 64)], whole, 3)
    assert abs(run(scheduled, [(n, 64)], whole, 3) - expected).max() <= 2e-5 * abs(expected).max()
