"""Images out of the bytes of a file, for programs that decode them while they run.

Pillow reads them, an optional dependency: ``pip install vmkit[images]``.
"""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

import numpy as np
import tvm
from tvm.runtime import Tensor
from tvm_ffi import register_global_func

from ..errors import VMError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["CHANNELS", "DECODE", "decoded"]

logger = logging.getLogger(__name__)

# Programs find a function for each format in TVM's registry, under this name and the format's.
DECODE = "vmkit.decode_image"
CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


def decoded(stream: bytes, pixel_format: str) -> np.ndarray:
    """Return the pixels of an encoded image.

    Parameters
    ----------
    stream : bytes
        A file of a format that Pillow reads: BMP, JPEG, JPEG 2000, TIFF, PNG, WebP, PNM and others. Of several pictures
        in it the first counts.
    pixel_format : str
        RGB, BGR or Grayscale.

    Returns
    -------
    ndarray of uint8
        (height, width, channels); nothing, (0, 0, channels), where the bytes are no image.

    Raises
    ------
    VMError
        If Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise VMError("decoding an image needs Pillow, which is not installed: pip install vmkit[images]") from error
    try:
        with Image.open(io.BytesIO(stream)) as image:
            pixels = _pixels(image, pixel_format)
    except Exception as error:  # every format has errors of its own; ONNX wants an empty image for all of them
        logger.warning("the bytes cannot be decoded as an image: %s", error)
        return np.zeros((0, 0, CHANNELS[pixel_format]), "uint8")
    return np.ascontiguousarray(pixels)


def _pixels(image: Image, pixel_format: str) -> np.ndarray:
    if image.mode.startswith("I"):
        # Of 16 bits the upper 8 are kept; Pillow would cut off what is above 255.
        from PIL import Image as images

        image = images.fromarray((np.clip(np.asarray(image, "int64"), 0, 65535) >> 8).astype("uint8"))
    if pixel_format == "Grayscale":
        return np.asarray(image.convert("L"))[:, :, None]
    pixels = np.asarray(image.convert("RGB"))
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels


def _register(pixel_format: str) -> None:
    @register_global_func(f"{DECODE}.{pixel_format}", override=True)
    def decode(stream: Tensor) -> Tensor:
        return tvm.runtime.tensor(decoded(stream.numpy().tobytes(), pixel_format), stream.device)


for _pixel_format in CHANNELS:
    _register(_pixel_format)
