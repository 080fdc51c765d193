"""Routers that choose groups of experts first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check, outputs_of
from vmkit.errors import ModelError

EXPERTS, WIDTH = 8, 256
INPUTS: dict[str, Any] = {"l": (["b", "t", EXPERTS], "float32"), "x": (["n", WIDTH], "float32")}
WEIGHTS = {"e": array(EXPERTS), "p": array(EXPERTS, WIDTH, seed=3) / 16}


def test_routes() -> None:
    few: dict[str, Any] = {"n_group": 2, "topk_group": 1, "group_topk": 9, "router_sentinel": -5.0}
    nodes = [
        ms("MoEGroupRouter", "l e", "a", top_k=2), ms("MoEGroupRouter", "l e", "b", top_k=3, n_group=4, topk_group=2),
        ms("MoEGroupRouter", "l e", "c", top_k=2, **few), ms("MoEGroupRouter", "l e", "_ d f", top_k=2),
        ms("MoEGroupRouter", "x e p", "_ g h", top_k=2),
    ]  # fmt: skip
    feeds = [{"l": array(b, t, EXPERTS), "x": array(b, WIDTH, seed=1)} for b, t in ((1, 2), (2, 5))]
    check(microsoft(nodes, INPUTS, outputs_of(nodes), WEIGHTS), *feeds)


def test_the_first_of_equal_ones_is_chosen() -> None:
    nodes = [
        ms("MoEGroupRouter", "l e", "a", top_k=2), ms("MoEGroupRouter", "l e", "b", top_k=3, n_group=4, topk_group=2)
    ]  # fmt: skip
    proto = microsoft(nodes, {"l": INPUTS["l"]}, "a b", {"e": np.zeros(EXPERTS, "float32")})
    # Shares of 0 have no logarithm.
    check(proto, {"l": np.zeros((1, 3, EXPERTS), "float32")}, {"l": np.full((1, 1, EXPERTS), -200, "float32")})


def test_what_cannot_be_is_refused() -> None:
    def refused(inputs: str, outputs: str, **attributes: Any) -> str:
        made = microsoft([ms("MoEGroupRouter", inputs, outputs, **attributes)], INPUTS, outputs.split()[-1], WEIGHTS)
        with pytest.raises(ModelError) as caught:
            Compiled(made)
        return str(caught.value)

    assert "n_group is 3, and 8 experts are no multiple" in refused("l e", "y", top_k=1, n_group=3)
    assert "top_k is 5; 1 of 2 groups have 4 experts" in refused("l e", "y", top_k=5, n_group=2)
    assert "topk_group is 3, 1 to all 2 groups" in refused("l e", "y", top_k=1, n_group=2, topk_group=3)
    assert "router_probs alone, or selection_scores and router_weights" in refused("l e", "y z", top_k=1)
    assert "with the scores of all experts both are 1" in refused("l e", "_ y z", top_k=1, n_group=2)
