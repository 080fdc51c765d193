"""At level 1 products of integers are little code, by which sums are as exact."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from tests.kernels.packed_product.products import convolved
from tests.kernels.packed_product.test_depthwise import test_sums_of_each_channel_are_exact as check_depthwise
from tests.kernels.packed_product.test_integers import integers, product, target_of
from tests.kernels.packed_product.test_integers import test_convolution_is_exact as check_convolutions
from vmkit import relay


@pytest.mark.parametrize(
    ("name", "is_dynamic", "cores"),
    [("vectors of 512 bits", False, 1), ("int16 of 256 bits", False, 2), ("int16 of 256 bits", True, 1)],
)
def test_sums_are_exact(name: str, is_dynamic: bool, cores: int) -> None:
    with vmkit.PassContext(opt_level=1):
        check_convolutions(name, is_dynamic, cores)
        check_depthwise(name, is_dynamic, cores)


@pytest.mark.parametrize("units", [16, 20, 64, 72])  # parts of blocks, and whole ones
def test_what_becomes_of_sums_stands_once(units: int) -> None:
    target = target_of("int16 of 256 bits")
    x, w, bias = integers(1, 6, 7, 32), integers(units, 1, 1, 32, dtype="int8"), np.arange(units, dtype="float32")
    data = relay.var("x", shape=x.shape, dtype="uint8")
    sums = relay.cast(
        product(data, w, target, 0, kernel_size=(1, 1), strides=(1, 1), padding=(0,) * 4, dilation=(1, 1)), "float32"
    )
    program = relay.Function([data], relay.nn.relu(relay.add(sums, relay.const(bias))))
    lengths = {}
    for level in (1, 2):
        with vmkit.PassContext(opt_level=level):
            executable = vmkit.compile(program, target=target)
        got = vmkit.VirtualMachine(executable).run(x).numpy()
        wanted = convolved(x, w, (1, 1), (0, 0, 0, 0), (1, 1)) + bias
        np.testing.assert_allclose(got, np.maximum(wanted, 0), rtol=1e-6)
        assert executable.profiling is not None
        texts = [f.script() for name, f in executable.profiling.functions().items() if "packed_product" in name]
        lengths[level] = sum(len(text.splitlines()) for text in texts)
    assert 0 < lengths[1] < lengths[2]
