"""Vectors of elements that are apart: what they pick of memory, and no more."""

from __future__ import annotations

import pytest
from tvm import tirx

from vmkit.kernels.lanes import spaced


def picked(step: int, lanes: int) -> tuple[list[int], list[int]]:
    """Return the places of the elements of a spaced vector, and the places at which vectors begin."""
    read: dict[tirx.Var, int] = {}

    def vector_at(begin: int) -> tirx.Var:
        name = tirx.Var(f"v{begin}", f"float32x{lanes}")
        read[name] = begin
        return name

    def places(vector: tirx.Expr) -> list[int]:
        if isinstance(vector, tirx.Shuffle):
            whole = [place for each in vector.vectors for place in places(each)]
            return [whole[int(at)] for at in vector.indices]
        return list(range(read[vector], read[vector] + lanes))

    return places(spaced(vector_at, step, lanes)), list(read.values())


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7])
def test_elements_that_are_apart_are_picked_and_nothing_is_read_behind_the_last(step: int, lanes: int) -> None:
    places, begins = picked(step, lanes)
    assert places == list(range(0, step * lanes, step))
    assert len(begins) == step
    assert max(begins) + lanes - 1 == step * (lanes - 1)
