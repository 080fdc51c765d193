"""``tvm.micro.testing.utils``: the small network of microTVM's tests."""

from __future__ import annotations

import tvm

from vmkit import relay

__all__ = ["get_conv2d_relay_module"]


def get_conv2d_relay_module() -> tvm.IRModule:
    """Return a module of one convolution of int8 with int32 sums: ``data`` of 64 x 64 x 3, ``weight`` of 5 x 5 x 3 x 8.

    Images are in NHWC, kernels in HWIO.
    """
    data = relay.var("data", shape=(1, 64, 64, 3), dtype="int8")
    weight = relay.var("weight", shape=(5, 5, 3, 8), dtype="int8")
    made = relay.nn.conv2d(
        data,
        weight,
        padding=(2, 2),
        channels=8,
        kernel_size=(5, 5),
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_dtype="int32",
    )
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data, weight], made)))
