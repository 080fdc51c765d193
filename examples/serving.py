"""Serving requests: wrong ones are refused with the reason, and several threads share one executable.

Inputs are checked before anything runs, and everything that is wrong with a request is said at once. The machine works
on after an error. A machine is one stack of frames, so each thread makes its own; they share code and weights.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local

import numpy as np

import vmkit
from vmkit import relay
from vmkit.errors import InputError

PROGRAM = """
#[version = "0.0.5"]
def @main(%queries: Tensor[(n, 8), float32], %keys: Tensor[(m, 8), float32], %mask: Tensor[(m), bool]) {
  let %scores = nn.matmul(%queries, %keys, transpose_b=True);
  nn.softmax(where(%mask, %scores, -1e9f))
}
"""


def refused(call: Callable[[], object]) -> str:
    """Return what the error of a call says."""
    try:
        call()
    except InputError as error:
        return str(error)
    raise AssertionError("the call should have been refused")


def main() -> None:
    """Show what wrong requests get, then answer right ones from several threads."""
    executable = vmkit.compile(relay.parse(PROGRAM))
    machine = vmkit.VirtualMachine(executable, "cpu")
    random = np.random.default_rng(0)
    queries, keys, mask = random.random((2, 8), "float32"), random.random((5, 8), "float32"), np.arange(5) < 3

    print(refused(lambda: machine.run(queries.astype("float64"), keys, mask[:4])))
    print(refused(lambda: machine.run(queries, key=keys, mask=mask)))

    one_per_thread = local()

    def answer(size: int) -> np.ndarray:
        if not hasattr(one_per_thread, "machine"):
            one_per_thread.machine = vmkit.VirtualMachine(executable, "cpu")
        return one_per_thread.machine.run(np.repeat(queries[:1], size, axis=0), keys, mask).numpy()

    expected = machine.run(queries, keys, mask).numpy()[0]
    with ThreadPoolExecutor(max_workers=3) as pool:
        answers = list(pool.map(answer, range(1, 33)))
    for size, scores in enumerate(answers, start=1):
        assert scores.shape == (size, 5)
        np.testing.assert_allclose(scores, np.tile(expected, (size, 1)), rtol=1e-5)
    print(f"{len(answers)} requests answered; masked keys got {answers[0][0, 3:].tolist()}")


if __name__ == "__main__":
    main()
