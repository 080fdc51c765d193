"""A picture's file as an input of a model, by a preprocessing that is stated.

The whole picture is scaled, bilinearly, to the height and the width of the input; nothing is cropped. Channels are red,
green, blue, or grey where the input has one; which axis they are is what the shape says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .._dataclasses import dataclass
from ..errors import InputError
from .element_types import numpy_dtype
from .images import decoded
from .kinds import TensorSpec

__all__ = ["PREPROCESSINGS", "SUFFIXES", "image_input", "is_picture"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tiff", ".webp")


@dataclass(frozen=True)
class Preprocessing:
    """What becomes of a value of a channel, from 0 to 255: ``(value * scale - mean) / deviation``."""

    scale: float
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)


PREPROCESSINGS = {
    "raw": Preprocessing(1.0),
    "unit": Preprocessing(1 / 255),
    "symmetric": Preprocessing(1 / 127.5, (1.0,)),
    "imagenet": Preprocessing(1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
"""By name: raw stays from 0 to 255, unit is from 0 to 1, symmetric from -1 to 1, imagenet is what torchvision's models
of ImageNet take: from 0 to 1, less the mean of its pictures, by their deviation."""


def is_picture(path: Path) -> bool:
    """Say whether a file is a picture, by its suffix."""
    return path.suffix.lower() in SUFFIXES


def image_input(
    path: Path, specs: Sequence[TensorSpec], how: str, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[str, np.ndarray]:
    """Return the name of the input that takes a picture, and the picture as that.

    Parameters
    ----------
    path : Path
        The file.
    specs : sequence of TensorSpec
        The inputs; one of them is a picture: of rank 3 or 4, with 1 or 3 channels before or behind height and width.
    how : str
        Of :data:`PREPROCESSINGS`.
    shapes : mapping, optional
        Shapes by the names of inputs. Otherwise a batch that is not known is 1, height and width are the picture's.

    Raises
    ------
    InputError
        If no input takes a picture, or several do, the file is none, or the preprocessing does not fit the input.
    VMError
        If Pillow is not installed.
    """
    found = [spec for spec in specs if _channels_axis(spec) is not None]
    if len(found) != 1:
        which = f"{len(found)} of its inputs do" if found else "none of its inputs does"
        raise InputError(f"{path}: one input has to take a picture, as float32[1, 3, height, width], and {which}")
    (spec,) = found
    axis = _channels_axis(spec)
    assert axis is not None  # by the choice above
    channels = spec.shape[axis]
    picture = decoded(path.read_bytes(), "Grayscale" if channels == 1 else "RGB")
    if not picture.size:
        raise InputError(f"{path}: not a picture of a format that Pillow reads")
    rows, columns = (axis + 1, axis + 2) if axis < len(spec.shape) - 1 else (axis - 2, axis - 1)
    shape = (shapes or {}).get(spec.name)
    sizes = list(shape or [size if isinstance(size, int) else 1 for size in spec.shape])
    if shape is None:
        own = {rows: picture.shape[0], columns: picture.shape[1]}
        sizes = [own.get(at, size) if isinstance(spec.shape[at], str) else size for at, size in enumerate(sizes)]
    if len(sizes) == 4 and sizes[0] != 1:
        raise InputError(f"{path}: {spec.name} takes {sizes[0]} pictures at once; give them as an array (.npz)")
    values = _preprocessed(_resized(picture, sizes[rows], sizes[columns]), how, spec)
    ordered = values if axis == len(sizes) - 1 else values.transpose(2, 0, 1)
    return spec.name, np.ascontiguousarray(ordered.reshape(sizes))


def _resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return pixels, of which channels are the last axis, of another size, as floats from 0 to 255."""
    from PIL import Image

    planes = [Image.fromarray(pixels[:, :, at]).resize((width, height), resample=2) for at in range(pixels.shape[2])]
    return np.stack([np.asarray(plane, "float64") for plane in planes], axis=-1)


def _preprocessed(pixels: np.ndarray, how: str, spec: TensorSpec) -> np.ndarray:
    """Return pixels, of which channels are the last axis, as an input takes them."""
    chosen = PREPROCESSINGS[how]
    if len(chosen.mean) not in (1, pixels.shape[-1]):
        raise InputError(f"{spec.name}: {how} is for {len(chosen.mean)} channels, and {spec} has {pixels.shape[-1]}")
    if spec.dtype == "uint8" and how != "raw":
        raise InputError(f"{spec.name}: {how} is for floats, and {spec} takes integers: raw is from 0 to 255")
    if not spec.dtype.startswith(("float", "bfloat", "uint8")):
        raise InputError(f"{spec.name}: a picture has floats or uint8, and {spec} takes others; give an array (.npz)")
    values = (pixels * chosen.scale - np.array(chosen.mean)) / np.array(chosen.deviation)
    return values.astype(numpy_dtype(spec.dtype))


def _channels_axis(spec: TensorSpec) -> int | None:
    """Return which axis has the channels of a picture; None for a tensor that is none."""
    rank = len(spec.shape)
    if rank not in (3, 4):
        return None
    first, last = spec.shape[rank - 3], spec.shape[-1]
    if first in (1, 3):
        return rank - 3
    return rank - 1 if last in (1, 3) else None
