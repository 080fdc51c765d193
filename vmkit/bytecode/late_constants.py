"""Large constants kept out of an executable: moved into a file or mapping, and bound again before it runs.

In the bytecode a constant that was moved leaves a text in its place, which says its name, data type and shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm.runtime import Tensor

from ..errors import ExecutableError, suggest
from . import Arg, ArgKind, Program, TensorConstant
from .known_tensors import is_run_state
from .placeholders import Placeholder, constant_of, large_constants, with_constants
from .program import Constant

__all__ = ["bound", "late_names", "taken_out"]

_LATE = Placeholder("vmkit.late_bound:")


def late_names(program: Program) -> list[str]:
    """Return the names of the constants that have to be bound before the program can run."""
    return [said["name"] for said in _LATE.found(program).values()]


def taken_out(program: Program, byte_limit: int) -> tuple[Program, dict[str, Tensor]]:
    """Return a program without its tensor constants of `byte_limit` bytes and more, and those by name.

    Names are ``const_0``, ``const_1`` ... by position, as Relay's were. What kernel groups look at is no constant of
    the model, and stays.
    """
    found = large_constants(program, byte_limit).items()
    large = {at: constant for at, constant in found if not is_run_state(program, Arg(ArgKind.CONSTANT, at))}
    texts = {
        at: _LATE.text({"name": f"const_{at}", "dtype": constant.dtype, "shape": constant.shape})
        for at, constant in large.items()
    }
    return with_constants(program, texts), {f"const_{at}": _tensor(constant) for at, constant in large.items()}


def bound(program: Program, tensors: Mapping[str, Any]) -> Program:
    """Return a program with tensors in the places of the constants that were taken out of it.

    Raises
    ------
    ExecutableError
        If a constant has no tensor, or one of another type or shape, or a tensor has no place. A program that lacks
        no constants takes any.
    """
    wanted = _LATE.found(program)
    if not wanted:
        return program
    problems: list[str] = []
    constants: dict[int, Constant] = {}
    for index, said in wanted.items():
        name = said["name"]
        if name not in tensors:
            hint = suggest(name, tensors)
            problems.append(f"No binding for late-bound constant at index {index} with name '{name}'{hint}")
            continue
        found = _constant(tensors[name])
        if [list(found.dtype), list(found.shape)] != [said["dtype"], said["shape"]]:
            expected = _shown(said["dtype"], said["shape"])
            problems.append(f"{name}: {_shown(found.dtype, found.shape)}, expected {expected}")
        constants[index] = found
    unused = set(tensors) - {said["name"] for said in wanted.values()}
    if unused:
        problems.append(f"Have {len(unused)} unused late-bound constants: {', '.join(sorted(unused))}")
    if problems:
        raise ExecutableError("\n  ".join(["these constants cannot be bound", *problems]))
    return with_constants(program, constants)


def _tensor(constant: TensorConstant) -> Tensor:
    raw = np.frombuffer(constant.data, "uint8")
    made = tvm.runtime.empty(constant.shape, constant.dtype_name)
    if raw.size:
        made.copyfrom(raw.view(_storage(constant.dtype_name)).reshape(constant.shape))
    return made


def _constant(tensor: Tensor | npt.ArrayLike) -> TensorConstant:
    if not isinstance(tensor, Tensor):
        tensor = tvm.runtime.tensor(np.asarray(tensor))
    return constant_of(tensor, np.ascontiguousarray(tensor.numpy()).tobytes())


def _storage(dtype: str) -> np.dtype:
    return tvm.runtime.empty((), dtype).numpy().dtype


def _shown(dtype: Sequence[int], shape: Sequence[int]) -> str:
    return f"{TensorConstant((dtype[0], dtype[1], dtype[2]), (1, 0), tuple(shape), b'').dtype_name}{list(shape)}"
