"""Depthwise convolutions of integers of 8 bits: every kernel gives exactly the sums of int32."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.packed_product.products import convolved, packed_product
from tests.kernels.packed_product.test_integers import TARGETS, integers, target_of
from vmkit import relay
from vmkit.kernels.packed_product.depthwise import depthwise_of
from vmkit.relay.ir import is_call, post_order
from vmkit.target import canonical_target
from vmkit.target.integer_unit import integer_unit

CASES = {
    "channels that do not fill vectors": ((2, 7, 11, 40), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "more rows than a group": ((1, 12, 9, 32), (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    "unlike rows and columns": ((1, 13, 14, 16), (2, 3), (2, 3), (1, 0, 0, 1), (1, 1)),
    "dilation": ((1, 15, 16, 7), (3, 2), (1, 1), (2, 2, 2, 2), (3, 2)),
    "larger than the cache": ((1, 50, 130, 64), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
}


def in_groups(x: np.ndarray, w: np.ndarray, *window: tuple[int, ...]) -> np.ndarray:
    """Return the depthwise convolution of NHWC data with a weight (channels, rows, columns, 1), around which 77 is."""
    strides, padding, dilation = window
    apart = [convolved(x[..., [c]], w[[c]], strides, padding, dilation, 77) for c in range(x.shape[-1])]
    return np.concatenate(apart, -1)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("is_dynamic", "cores"), [(False, 1), (True, 1), (False, 2)], ids=["static", "dynamic", "two cores"]
)
@pytest.mark.parametrize("name", TARGETS)
def test_sums_of_each_channel_are_exact(name: str, is_dynamic: bool, cores: int) -> None:
    # Tiles do the same as vectors, for which no machine needs to have them.
    target = f"{target_of('vectors of 512 bits' if name == 'tiles' else name)} -num-cores={cores}"
    unit = integer_unit(canonical_target(TARGETS[name][0]).primary)
    assert unit is not None
    encoding, data, calls, wanted = depthwise_of(unit).name, [], [], []
    for shape, kernel, strides, padding, dilation in CASES.values():
        x, w = integers(*shape), integers(shape[-1], *kernel, 1, dtype="int8")
        sizes = (relay.Any(), relay.Any(), relay.Any(), shape[-1]) if is_dynamic else shape
        data.append((relay.var(f"x{len(data)}", shape=sizes, dtype="uint8"), x))
        attrs = {"kernel_size": kernel, "strides": strides, "padding": padding, "dilation": dilation}
        made = packed_product(data[-1][0], w, encoding, 77, channels=shape[-1], **attrs)
        calls.append(relay.cast(made, "float64"))
        wanted.append(in_groups(x, w, strides, padding, dilation))
    function = relay.Function([v for v, _ in data], relay.Tuple(calls))
    machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
    for case, got, want in zip(CASES, machine.run(*(x for _, x in data)), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), want, err_msg=case)
    if not is_dynamic:
        plain = relay.Function([data[3][0]], calls[3])  # by a target without the instructions
        np.testing.assert_array_equal(
            vmkit.VirtualMachine(vmkit.compile(plain, "llvm")).run(data[3][1]).numpy(), wanted[3]
        )


@pytest.mark.parametrize("name", ["vectors of 512 bits", "int16 of 256 bits"])
def test_dequantised_depthwise_convolutions_are_of_integers(name: str) -> None:
    target, x, w = target_of(name), integers(1, 24, 9, 10, dtype="int8"), integers(24, 1, 3, 3, dtype="int8")
    scales = np.linspace(0.5, 2, 24, dtype="float32")

    def real(value: relay.Expr, zero: int, scale: np.ndarray) -> relay.Expr:
        centred = relay.subtract(relay.cast(value, "int32"), relay.const(np.int32(zero)))
        return relay.multiply(relay.cast(centred, "float32"), relay.const(scale))

    image = relay.var("x", shape=x.shape, dtype="int8")
    weight = real(relay.const(w), 0, scales.reshape(24, 1, 1, 1))
    layer = {"kernel_size": (3, 3), "padding": (1, 1), "strides": (2, 1), "groups": 24, "channels": 24}
    out = relay.nn.conv2d(real(image, -128, np.float32(0.25)), weight, **layer)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([image], out), target=target))
    moved = x.transpose(0, 2, 3, 1).astype("int64") + 128
    apart = [convolved(moved[..., [c]], w[[c], 0, :, :, None], (2, 1), (1, 1, 1, 1), (1, 1)) for c in range(24)]
    sums = np.concatenate(apart, -1).transpose(0, 3, 1, 2)
    expected = sums.astype("float32") * (np.float32(0.25) * scales[:, None, None])
    np.testing.assert_array_equal(machine.run(x).numpy(), expected)
    optimised, _ = vmkit.VMCompiler().optimize(tvm.IRModule({"main": relay.Function([image], out)}), target)
    found = [n.attrs.encoding for n in post_order(optimised["main"]) if is_call(n, "nn.contrib_packed_product")]
    assert found == ["int16_depthwise" if name == "int16 of 256 bits" else "int8_depthwise"]
