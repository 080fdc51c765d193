"""References are cells that are read and written in the order of the program."""

from __future__ import annotations

import numpy as np

import vmkit
from vmkit import RefValue, relay


def machine(text: str) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(relay.parse(f'#[version = "0.0.5"]\n{text}'), target="llvm"))


def test_a_read_gives_what_was_written_last() -> None:
    vm = machine(
        "def @main(%x: int32) { let %r = ref(%x); let %a = ref_read(%r); let %u = ref_write(%r, %a + 1); "
        "let %b = ref_read(%r); let %v = ref_write(%r, %b * 10); (%a, %b, ref_read(%r)) }"
    )
    assert [v.numpy().item() for v in vm.run(3)] == [3, 4, 40]


def test_a_function_writes_what_its_caller_reads() -> None:
    vm = machine(
        "def @add(%r: ref(int32), %x: int32) { let %a = ref_read(%r); ref_write(%r, %a + %x) }"
        "def @main(%x: int32) { let %r = ref(0); let %u = @add(%r, %x); let %v = @add(%r, %x); ref_read(%r) }"
    )
    assert vm.run(21).numpy() == 42


def test_a_written_tensor_keeps_its_memory() -> None:
    vm = machine(
        "def @main(%x: Tensor[(64), float32]) { let %r = ref(zeros_like(%x)); let %s = ref(multiply(%x, 3f)); "
        "let %o = ones_like(%x); let %u = ref_write(%s, %o + %o); add(ref_read(%r), ref_read(%s)) }"
    )
    np.testing.assert_array_equal(vm.run(np.ones(64, "float32")).numpy(), 2)


def test_a_reference_is_given_written_and_returned() -> None:
    vm = machine("def @main(%r: ref(int32)) { let %a = ref_read(%r); let %u = ref_write(%r, %a + 1); %r }")
    cell = RefValue(np.int32(5))
    result = vm.run(cell)
    assert cell.value.numpy() == 6
    assert result.value.numpy() == 6
