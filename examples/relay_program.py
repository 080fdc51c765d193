"""A program in Relay's text format: recursion over tensors whose sizes are known only when it runs.

Every round of ``@collatz`` halves the even numbers of a list and maps an odd x to 3x + 1, until all have arrived at 1.
A loop in Relay is a function that calls itself; ``?`` is a dimension of any size.
"""

from __future__ import annotations

import numpy as np

import vmkit
from vmkit import relay

TEXT = """
#[version = "0.0.5"]
def @collatz(%rounds: int32, %x: Tensor[(?), int64]) -> (int32, Tensor[(?), int64]) {
  let %largest: int64 = max(%x);
  if (greater(%largest, 1i64)) {
    let %odd = equal(mod(%x, 2i64), 1i64);
    let %next = where(%odd, add(multiply(%x, 3i64), 1i64), floor_divide(%x, 2i64));
    @collatz(add(%rounds, 1), where(equal(%x, 1i64), %x, %next))
  } else {
    (%rounds, %x)
  }
}

def @main(%x: Tensor[(?), int64]) -> int32 {
  let %end = @collatz(0, %x);
  %end.0
}
"""


def rounds_of(number: int) -> int:
    """Return how many rounds one number takes, in Python."""
    rounds = 0
    while number > 1:
        number = 3 * number + 1 if number % 2 else number // 2
        rounds += 1
    return rounds


def main() -> None:
    """Parse the program, compile it, and run it on lists of several lengths."""
    module = relay.parse(TEXT)
    machine = vmkit.VirtualMachine(vmkit.compile(module), "cpu")
    print(machine.executable.signature)
    for numbers in ([1], [6, 7], list(range(1, 28))):
        rounds = int(machine.run(np.array(numbers)).numpy())
        assert rounds == max(map(rounds_of, numbers))
        print(f"{len(numbers)} numbers up to {max(numbers)}: {rounds} rounds")


if __name__ == "__main__":
    main()
