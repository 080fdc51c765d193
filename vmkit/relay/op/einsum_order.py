"""In which order the operands of a sum of products are multiplied: two at a time, the pair first that leaves least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

__all__ = ["Step", "contraction_order"]

Step = tuple[int, int, list[str]]
"""Two operands that are taken out of those at hand, the first before the second, and the labels of their product.

The product comes last among those at hand.
"""

_GAIN = 2  # how many times fewer products repay that what is multiplied first is written and read


def contraction_order(
    operands: Sequence[Sequence[str]], result: Sequence[str], sizes: Mapping[str, int]
) -> list[Step] | None:
    """Return the steps of a sum of products, the last of which gives the result; None where one loop is as good.

    Parameters
    ----------
    operands : sequence of sequence of str
        The labels of each operand's dimensions.
    result : sequence of str
        The labels that are not summed over.
    sizes : mapping of str to int
        How large each label's dimension is, or is taken to be.
    """

    def size(labels: Sequence[str] | set[str]) -> int:
        return prod(max(sizes[label], 1) for label in set(labels))

    if len(operands) < 3:
        return None
    left, steps, products = [list(labels) for labels in operands], list[Step](), 0
    while len(left) > 1:
        pairs = [(pair, _kept(left, pair, result)) for pair in combinations(range(len(left)), 2)]
        costs = [
            (size(made) - size(left[pair[0]]) - size(left[pair[1]]), size([*left[pair[0]], *left[pair[1]]]))
            for pair, made in pairs
        ]
        cost, (pair, made) = min(zip(costs, pairs, strict=True), key=lambda each: each[0])
        products += cost[1]
        steps.append((*pair, made if len(left) > 2 else list(result)))
        left = [labels for at, labels in enumerate(left) if at not in pair] + [made]
    in_one_loop = size([label for labels in operands for label in labels]) * (len(operands) - 1)
    return steps if products * _GAIN <= in_one_loop else None


def _kept(left: Sequence[Sequence[str]], pair: tuple[int, int], result: Sequence[str]) -> list[str]:
    """Return the labels of two operands that something else still needs, those of the first before the others."""
    needed = set(result).union(*(labels for at, labels in enumerate(left) if at not in pair))
    return [label for label in dict.fromkeys([*left[pair[0]], *left[pair[1]]]) if label in needed]
