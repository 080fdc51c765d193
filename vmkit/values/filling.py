"""Inputs made up for a program: to time it, or to see that it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from ..errors import InputError, suggest
from .element_types import numpy_dtype
from .kinds import TensorSpec
from .signature import Signature

__all__ = ["FILL_MODES", "FillMode", "filled", "filled_inputs"]

FillMode: TypeAlias = Literal["random", "zeros", "ones"]
FILL_MODES: tuple[FillMode, ...] = ("random", "zeros", "ones")

_Shapes: TypeAlias = Mapping[str, "Sequence[int | str] | tuple[int, int]"]


def filled_inputs(
    signature: Signature,
    shapes: _Shapes | None = None,
    mode: FillMode = "random",
    *,
    given: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return an array for every input of a function that is not given.

    Parameters
    ----------
    signature : Signature
        Of the function.
    shapes : mapping, optional
        Shapes of inputs, and sizes that are named, by name: ``{"x": [4, 3]}`` or ``{"n": 4}`` where x is ``[n, 3]``.
    mode : str
        ``"zeros"``, ``"ones"``, or ``"random"``: floats uniform in [-1, 1), integers of 8 bits in [0, 128), booleans
        by chance; other integers are 0, since they may be places in something.
    given : mapping, optional
        Arrays of inputs by name; the sizes that they show hold for the others.
    seed : int
        Of the random numbers.

    Raises
    ------
    InputError
        If a size is not known, an input is no tensor, or a shape does not fit.
    """
    given = dict(given or {})
    sizes = _Sizes(signature, shapes or {})
    for spec in signature.inputs:
        if spec.name in given and isinstance(spec, TensorSpec):
            sizes.bind(spec, given[spec.name].shape)
    made = {}
    numbers = np.random.default_rng(seed)
    for spec in signature.inputs:
        if spec.name in given:
            made[spec.name] = given[spec.name]
        elif isinstance(spec, TensorSpec):
            made[spec.name] = filled(sizes.of(spec), spec.dtype, mode, numbers)
        else:
            raise InputError(f"{spec.name}: a {spec} cannot be made up; give it")
    return made


class _Sizes:
    """The sizes that names stand for, and the shapes that were given."""

    def __init__(self, signature: Signature, shapes: _Shapes) -> None:
        specs = {spec.name: spec for spec in signature.inputs if isinstance(spec, TensorSpec)}
        names = {dim for spec in specs.values() for dim in spec.shape if isinstance(dim, str) and dim != "?"}
        self._bound: dict[str, int] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for name, shape in shapes.items():
            if name in specs:
                self.bind(specs[name], _fixed(name, shape))
            elif name in names and (size := _size(shape)) is not None:
                self._bound[name] = size
            elif name in names:
                raise InputError(f"{name} is the name of a size; expected one number for it, got {shape}")
            else:
                sizes = f", those of sizes {', '.join(sorted(names))}" if names else ""
                raise InputError(
                    f"there is no input {name!r}{suggest(name, [*specs, *names])}; the names of inputs are "
                    f"{', '.join(specs) or 'none'}{sizes}"
                )

    def bind(self, spec: TensorSpec, shape: Sequence[int]) -> None:
        """Take the shape of an input, and what it tells of named sizes."""
        if len(shape) != len(spec.shape):
            raise InputError(f"{spec.name}: shape {tuple(shape)} is of rank {len(shape)}, expected {spec}")
        for axis, (dim, size) in enumerate(zip(spec.shape, shape, strict=True)):
            known = dim if isinstance(dim, int) else self._bound.get(dim, size)
            if known != size:
                raise InputError(f"{spec.name}: dim {axis} is {size}, expected {known} (expected {spec})")
            if isinstance(dim, str) and dim.isidentifier():
                self._bound[dim] = size
        self._shapes[spec.name] = tuple(shape)

    def of(self, spec: TensorSpec) -> tuple[int, ...]:
        """Return the shape of an input."""
        if spec.name in self._shapes:
            return self._shapes[spec.name]
        sizes = [dim if isinstance(dim, int) else self._bound.get(dim) for dim in spec.shape]
        if any(size is None for size in sizes):
            unknown = [str(dim) for dim, size in zip(spec.shape, sizes, strict=True) if size is None]
            raise InputError(f"{spec.name}: the sizes {', '.join(unknown)} of {spec} are not known; give its shape")
        return tuple(size for size in sizes if size is not None)


def _size(given: int | Sequence[int | str]) -> int | None:
    """Return a size by itself, which a command line reads as the shape of one axis."""
    if isinstance(given, int):
        return given
    return given[0] if len(given) == 1 and isinstance(given[0], int) else None


def _fixed(name: str, shape: Sequence[int | str] | tuple[int, int]) -> list[int]:
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        raise InputError(f"{name}: a shape to run at is of numbers, not {list(shape)}")
    return sizes


def filled(shape: tuple[int, ...], dtype: str, mode: FillMode, numbers: np.random.Generator) -> np.ndarray:
    """Return an array of a shape and data type that a mode of :func:`filled_inputs` says."""
    kind = numpy_dtype(dtype)
    if dtype == "string":
        return np.full(shape, "", kind)
    if mode != "random":
        return np.full(shape, mode == "ones", "float32").astype(kind)
    if dtype == "bool":
        return numbers.integers(0, 2, shape).astype(kind)
    if dtype in ("int8", "uint8"):
        return numbers.integers(0, 128, shape).astype(kind)
    if kind.kind in "iu":
        return np.zeros(shape, kind)
    return numbers.uniform(-1, 1, shape).astype(kind)
