"""What a graph module takes and gives, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import tvm_ffi
from tvm.runtime import Tensor

from vmkit.errors import InputError
from vmkit.values.kinds import TupleSpec
from vmkit.values.signature import Signature, Spec, TensorSpec

__all__ = [
    "Input",
    "check_unchanged",
    "converted",
    "copied",
    "info_by_name",
    "is_static",
    "leaf_specs",
    "leaves",
]

Input: TypeAlias = np.ndarray | np.generic | Tensor | float | tuple[Any, ...]
"""What a model takes: an array, a number, or a tuple of them."""


def converted(value: Input | None, spec: Spec) -> object:
    """Return an input in the data type and rank that are declared; one that would change by that is refused."""
    return Signature("main", (spec,)).fit([value])[0]


def copied(value: object) -> object:
    """Return a value that does not change with the arrays that it was given as."""
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    if isinstance(value, Tensor):
        return value.copyto(value.device)
    return value.copy() if isinstance(value, np.ndarray) else value


def is_static(spec: Spec) -> TypeGuard[TensorSpec]:
    """Say whether a value is a tensor of sizes that are known."""
    return isinstance(spec, TensorSpec) and all(isinstance(dim, int) for dim in spec.shape)


def leaves(value: object) -> Iterator[Any]:
    """Yield what a result is made of; tuples are not kept."""
    if type(value) is tuple:
        for part in value:
            yield from leaves(part)
    else:
        yield value


def leaf_specs(spec: Spec) -> Iterator[Spec]:
    """Yield what :func:`leaves` yields of a value, as what each is declared to be."""
    if isinstance(spec, TupleSpec):
        for part in spec.fields:
            yield from leaf_specs(part)
    else:
        yield spec


def info_by_name(specs: Mapping[str, Spec]) -> tuple[tvm_ffi.Map, tvm_ffi.Map]:
    """Return shapes and data types by name; a size that is known at run time only is -1."""
    tensors = {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec)}
    shapes = {n: tvm_ffi.Shape(tuple(d if isinstance(d, int) else -1 for d in s.shape)) for n, s in tensors.items()}
    return tvm_ffi.Map(shapes), tvm_ffi.Map({name: spec.dtype for name, spec in tensors.items()})


def check_unchanged(name: str, given: Input, inside: Tensor) -> None:
    """Raise InputError when a value is set that a model has inside, and it is another."""
    value = given.numpy() if isinstance(given, Tensor) else np.asarray(given)
    if value.shape != tuple(inside.shape) or not np.array_equal(
        value, inside.numpy(), equal_nan=value.dtype.kind == "f"
    ):
        raise InputError(
            f"{name} is a constant inside the model and cannot be set to another value; to set it at run time, leave "
            "it out of the params of relay.build, so that it is an input"
        )
