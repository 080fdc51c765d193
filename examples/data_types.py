"""A program over lists: mapped, folded, and handed back to Python."""

from __future__ import annotations

import numpy as np

import vmkit
from vmkit import relay

TEXT = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }

def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => { Cons(%f(%x), @map(%f, %rest)) }, Nil => { Nil }, }
}

def @total(%xs: List[float32], %sum: float32) -> float32 {
  match (%xs) { Cons(%x, %rest) => { @total(%rest, %sum + %x) }, Nil => { %sum }, }
}

def @main(%xs: List[float32], %k: float32) {
  let %scaled = @map(fn (%x) { %x * %k }, %xs);
  (%scaled, @total(%scaled, 0f))
}
"""


def main() -> None:
    module = relay.parse(TEXT)
    cons = relay.find_constructor(module, "List", "Cons").tag
    numbers = vmkit.ADT(relay.find_constructor(module, "List", "Nil").tag)
    for number in (3.0, 2.0, 1.0):
        numbers = vmkit.ADT(cons, [number, numbers])

    executable = vmkit.compile(module, target="native")
    print(executable.signature)
    scaled, total = vmkit.VirtualMachine(executable).run(numbers, 10.0)

    found = []
    while scaled.tag == cons:
        head, scaled = scaled
        found.append(float(head.numpy()))
    print(found, "add up to", total.numpy())
    assert found == [10, 20, 30] and total.numpy() == np.float32(60)


if __name__ == "__main__":
    main()
