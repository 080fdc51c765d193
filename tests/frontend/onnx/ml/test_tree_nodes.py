"""Nodes as columns: what is walked, how deep it is, and ways that do not end."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit.errors import ModelError
from vmkit.frontend.onnx.ml.tree_nodes import LEAF, MODES, Leaves, Nodes


def nodes(*ways: tuple[int, int] | None) -> Nodes:
    """Return nodes that lead to two others, or are leaves."""
    pairs = np.array([way or (0, 0) for way in ways])
    modes = np.array([LEAF if way is None else 0 for way in ways], "int8")
    zeros = np.zeros(len(ways))
    return Nodes(modes, pairs[:, 0] * 0, zeros, zeros > 0, pairs[:, 0], pairs[:, 1])


def test_depths_of_trees_are_the_longest_and_the_mean_way_down() -> None:
    two_trees = nodes((1, 2), None, (3, 4), None, None, (6, 6), None, None)
    longest, mean, reached = two_trees.ways_down(np.array([0, 5, 7]))
    assert longest.tolist() == [2, 1, 0] and mean.tolist() == [1.5, 1.0, 0.0]
    assert reached == 8


def test_nodes_that_several_lead_to_count_once_and_as_deep_as_they_are() -> None:
    longest, mean, reached = nodes((1, 3), (2, 3), (3, 3), None).ways_down(np.array([0, 2]))
    assert longest.tolist() == [3, 1] and mean.tolist() == [1.75, 1.0] and reached == 4


def test_nodes_that_no_tree_leads_to_are_not_reached() -> None:
    assert nodes((1, 2), None, None, (1, 2)).ways_down(np.array([0]))[2] == 3


@pytest.mark.parametrize(
    ("ways", "circle"),
    [([(0, 1), None], {0}), ([(1, 4), (2, 4), (3, 4), (1, 5), None, None], {1, 2, 3}), ([(1, 1), (0, 0)], {0, 1})],
)
def test_a_way_that_does_not_end_is_an_error_that_names_a_node_on_it(
    ways: list[tuple[int, int] | None], circle: set[int]
) -> None:
    with pytest.raises(ModelError, match="of a tree is behind itself") as caught:
        nodes(*ways).ways_down(np.array([0]))
    assert int(str(caught.value).split()[1]) in circle


def test_a_set_becomes_a_chain_of_questions() -> None:
    asked = nodes((1, 2), None, None)
    member = np.array([MODES.index("BRANCH_MEMBER"), LEAF, LEAF], "int8")
    for values, expected in (([3.0, 5.0, 7.0], [3, 5, 7]), ([3.0], [3]), ([], [np.nan])):
        made = Nodes(member, *(getattr(asked, n) for n in ("features", "values", "missing_is_true")), asked.true,
                     asked.false, {0: values}).without_sets()  # fmt: skip
        place, seen = 0, []
        while made.modes[place] != LEAF:
            assert MODES[made.modes[place]] == "BRANCH_EQ" and made.true[place] == 1
            seen.append(made.values[place])
            place = made.false[place]
        assert place == 2
        np.testing.assert_array_equal(seen, expected)


def test_weights_of_nodes_that_are_no_leaves_are_never_added() -> None:
    given = Leaves(np.array([0, 1]), np.array([9, 0]), np.array([1.0, 2.0]))
    assert given.of(nodes((1, 2), None, None), 1).weights.tolist() == [2.0]
