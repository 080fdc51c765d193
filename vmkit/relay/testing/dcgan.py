"""The generator of DCGAN: images of 64 by 64 from random codes, by transposed convolutions.

A. Radford, L. Metz, S. Chintala: Unsupervised representation learning with deep convolutional generative adversarial
networks, 2015.
"""

from __future__ import annotations

from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Expr, Function, free_vars, var
from ..op import build
from . import layers
from .init import create_workload

__all__ = ["get_net", "get_workload"]

_KERNEL_LAYOUTS = {"NCHW": "IOHW", "NHWC": "HWOI"}


def _enlarged(data: Expr, channels: int, layout: str, name: str) -> Expr:
    """Return a feature map of twice the height and width."""
    return layers.conv2d_transpose(
        data,
        kernel_size=(4, 4),
        strides=(2, 2),
        channels=channels,
        padding=(1, 1),
        output_padding=(0, 0),
        data_layout=layout,
        kernel_layout=_KERNEL_LAYOUTS[layout],
        name=name,
    )


def get_net(
    batch_size: Dim,
    random_len: int = 100,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    code: Expr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the network: images, with values from -1 to 1, for random codes.

    Parameters
    ----------
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    random_len : int
        The length of a code.
    oshape : tuple of int
        Channels, height and width of an image; the last two are 64.
    ngf : int
        The channels of the last feature map.
    code : Expr, optional
        The codes; by default the parameter ``data``.
    layout : str
        ``"NCHW"`` or ``"NHWC"``.
    dtype : str
        The element type.
    """
    if tuple(oshape[-2:]) != (64, 64):
        raise ValueError(f"oshape ends with 64, 64: the generator makes no images of {oshape[-2]} by {oshape[-1]}")
    if layout not in _KERNEL_LAYOUTS:
        raise ValueError(f"layout is 'NCHW' or 'NHWC', not {layout!r}")
    body = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    body = nn.relu(nn.dense(body, var("dense_weight"), units=4 * 4 * ngf * 8))
    shape = {"N": -1, "C": ngf * 8, "H": 4, "W": 4}
    body = build("reshape", body, newshape=[shape[axis] for axis in layout])
    for index, channels in ((2, ngf * 4), (3, ngf * 2), (4, ngf)):
        body = _enlarged(body, channels, layout, f"g{index}_deconv")
        body = layers.batch_norm_infer(body, axis=layout.index("C"), scale=False, name=f"g{index}_batch_norm")
        body = nn.relu(body)
    body = build("tanh", _enlarged(body, oshape[-3], layout, "g5_deconv"))
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype))
