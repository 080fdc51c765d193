"""Random ONNX graphs, to find nodes that are right alone and wrong beside others."""

from __future__ import annotations

import numpy as np

from . import arithmetic, moves, networks, sizes  # each adds its templates
from .graph import SIZES, Graph, Value

__all__ = ["SIZES", "Graph", "Value", "arithmetic", "moves", "networks", "random_graph", "sizes"]


def random_graph(seed: int) -> Graph:
    """Return the graph of a seed: of 3 to 30 nodes, on a picture, a sequence, a table and numbers of rows."""
    random = np.random.default_rng(seed)
    graph = Graph(random)
    channels = [int(c) for c in random.choice([1, 2, 3, 4, 8, 16, 17], size=3)]

    def normal(shape: tuple[int, ...]) -> np.ndarray:
        return random.normal(size=shape).astype("float32")

    kinds = random.permutation(4)[: random.integers(1, 4)]
    if 0 in kinds:
        graph.input("picture", ["n", channels[0], "h", "w"], normal)
    if 1 in kinds:
        graph.input("sequence", ["n", "l", channels[1]], normal)
    if 2 in kinds:
        graph.input("table", ["n", channels[2]], normal)
    if 3 in kinds:
        graph.input("ids", ["n", "l"], lambda shape: random.integers(0, 30, size=shape))
    graph.grow(int(random.integers(3, 31)))
    return graph
