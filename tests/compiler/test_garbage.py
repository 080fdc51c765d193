"""While a program is compiled Python leaves old objects alone; afterwards it does what it did."""

from __future__ import annotations

import gc

from vmkit.compiler.garbage import old_objects_left_alone


def test_how_often_garbage_is_searched_for_is_set_back() -> None:
    before = gc.get_threshold()
    with old_objects_left_alone():
        with old_objects_left_alone():
            pass
        assert gc.get_threshold() == (max(before[0], 50_000), before[1], max(before[2], 1_000))
    assert gc.get_threshold() == before
    try:
        with old_objects_left_alone():
            gc.set_threshold(1, 2, 3)
        assert gc.get_threshold() == (1, 2, 3)  # what somebody else sets meanwhile stays
        gc.set_threshold(0, 2, 3)  # as a process does that never searches by itself
        with old_objects_left_alone():
            assert gc.get_threshold() == (0, 2, 1_000)
        assert gc.get_threshold() == (0, 2, 3)
    finally:
        gc.set_threshold(*before)
