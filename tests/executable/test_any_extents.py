"""What only hands values on takes tensors of any extents, as Relay's machine did; what computes does not."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import InputError
from vmkit.executable.any_extents import of_any_extents

PAIR = relay.var("pair", type_annotation=relay.TupleType([relay.TensorType((1,)), relay.TensorType((4,))]))
LONG = (np.arange(41, dtype="float32"), np.ones(4, "float32"))


def test_a_field_that_nobody_reads_may_be_longer() -> None:
    executable = vmkit.compile(relay.Function([PAIR], relay.TupleGetItem(PAIR, 0)), target="llvm")
    np.testing.assert_array_equal(vmkit.VirtualMachine(of_any_extents(executable)).run(LONG).numpy(), LONG[0])
    with pytest.raises(InputError, match="dim 0 is 41, expected 1"):
        vmkit.VirtualMachine(executable).run(LONG)


def test_the_data_type_and_the_rank_are_still_checked() -> None:
    machine = vmkit.VirtualMachine(of_any_extents(vmkit.compile(relay.Function([PAIR], PAIR), target="llvm")))
    with pytest.raises(InputError, match=r"pair\[0\]: dtype int64, expected float32"):
        machine.run((np.arange(3), LONG[1]))
    with pytest.raises(InputError, match=r"pair\[1\]: rank 2"):
        machine.run((LONG[0], np.ones((1, 4), "float32")))


def test_what_a_kernel_reads_has_its_extents() -> None:
    total = relay.add(relay.TupleGetItem(PAIR, 0), relay.TupleGetItem(PAIR, 1))
    executable = vmkit.compile(relay.Function([PAIR], total), target="llvm")
    assert of_any_extents(executable) is executable


def test_sizes_are_read_too() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    executable = vmkit.compile(relay.Function([x], relay.shape_of(x)), target="llvm")
    assert of_any_extents(executable) is executable
