"""An LSTM that attends to a memory, in every direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check
from vmkit.errors import ModelError, VMError

FEATURES, HIDDEN, DEPTH, KEYS, WIDTH = 3, 4, 5, 6, 2
INPUTS: dict[str, Any] = {
    "x": (["t", "b", FEATURES], "float32"), "m": (["b", "s", DEPTH], "float32"), "n": (["b"], "int32"),
    "k": (["b"], "int32"),
}  # fmt: skip


def weights(directions: int, width: int = DEPTH) -> dict[str, np.ndarray]:
    sizes = {
        "w": (4 * HIDDEN, FEATURES + width), "r": (4 * HIDDEN, HIDDEN), "b": (8 * HIDDEN,), "p": (3 * HIDDEN,),
        "q": (HIDDEN, KEYS), "mw": (DEPTH, KEYS), "v": (KEYS,), "aw": (HIDDEN + DEPTH, width),
    }  # fmt: skip
    return {name: array(directions, *size, seed=i) / 2 for i, (name, size) in enumerate(sizes.items())}


def feed(steps: int, batch: int, memory: int, directions: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(steps)
    return {
        "x": array(steps, batch, FEATURES, seed=20), "m": array(batch, memory, DEPTH, seed=21),
        "n": random.integers(1, steps + 1, batch).astype("int32"),
        "k": random.integers(1, memory + 1, batch).astype("int32"),
        "h": array(directions, batch, HIDDEN, seed=22), "c": array(directions, batch, HIDDEN, seed=23),
    }  # fmt: skip


def model(inputs: str, directions: int, width: int, **attributes: Any) -> onnx.ModelProto:
    node = ms("AttnLSTM", inputs, "y yh yc", hidden_size=HIDDEN, **attributes)
    used = set(inputs.split())
    state = {n: ([directions, "b", HIDDEN], "float32") for n in "hc"}
    given = {n: v for n, v in (INPUTS | state).items() if n in used}
    return microsoft([node], given, "y yh yc", {n: v for n, v in weights(directions, width).items() if n in used})


def agrees(inputs: str, directions: int = 1, width: int = DEPTH, **attributes: Any) -> None:
    feeds = [
        {n: v for n, v in feed(*sizes, directions).items() if n in inputs.split()}
        for sizes in ((1, 1, 1), (5, 3, 4), (11, 2, 7))
    ]
    check(model(inputs, directions, width, **attributes), *feeds)


def test_the_least_that_it_takes() -> None:
    agrees("x w r _ _ _ _ _ q mw v m")


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_every_input(direction: str) -> None:
    agrees("x w r b n h c p q mw v m k aw", 1, WIDTH, direction=direction)


def test_both_directions() -> None:
    functions = ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Softsign", "Relu"]
    slopes: dict[str, Any] = {"activation_alpha": [0.3], "activation_beta": [0.4]}
    agrees("x w r b n _ _ _ q mw v m k aw", 2, WIDTH, direction="bidirectional", activations=functions, **slopes)


def test_coupled_gates_and_a_limit() -> None:
    agrees("x w r b _ h c _ q mw v m", input_forget=1, clip=0.7)


def test_lengths_of_the_memory_that_it_does_not_have() -> None:
    compiled = Compiled(model("x w r _ _ _ _ _ q mw v m k", 1, DEPTH))
    given = {n: v for n, v in feed(2, 2, 3, 1).items() if n in "xm"}
    for lengths in ([0, 1], [1, 4]):
        with pytest.raises(VMError, match="memory_seq_lens are 1 to all steps"):
            compiled(**given, k=np.array(lengths, "int32"))


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelError, match="hidden_size"):
        Compiled(microsoft([ms("AttnLSTM", "x w r _ _ _ _ _ q mw v m", "y", hidden_size=9)],
                           {n: INPUTS[n] for n in "xm"}, "y", weights(1)))  # fmt: skip
