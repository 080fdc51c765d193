"""Large constants kept out of an executable: moved into a file or mapping, and bound again before it runs.

In the bytecode a constant that was moved leaves a text in its place, which says its name, data type and shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm.runtime import Tensor

from ..errors import ExecutableError, suggest
from . import Program, TensorConstant

__all__ = ["bound", "late_names", "taken_out"]

_MARK = "vmkit.late_bound:"


def late_names(program: Program) -> list[str]:
    """Return the names of the constants that have to be bound before the program can run."""
    return [_description(c)["name"] for c in program.constants if _is_late(c)]


def taken_out(program: Program, byte_limit: int) -> tuple[Program, dict[str, Tensor]]:
    """Return a program without its tensor constants of `byte_limit` bytes and more, and those by name.

    Names are ``const_0``, ``const_1`` ... by position, as Relay's were.
    """
    kept: list[Any] = []
    moved: dict[str, Tensor] = {}
    for index, constant in enumerate(program.constants):
        if not isinstance(constant, TensorConstant) or len(constant.data) < byte_limit:
            kept.append(constant)
            continue
        name = f"const_{index}"
        moved[name] = _tensor(constant)
        kept.append(_MARK + json.dumps({"name": name, "dtype": constant.dtype, "shape": constant.shape}))
    return replace(program, constants=tuple(kept)), moved


def bound(program: Program, tensors: Mapping[str, Any]) -> Program:
    """Return a program with tensors in the places of the constants that were taken out of it.

    Raises
    ------
    ExecutableError
        If a constant has no tensor, or one of another type or shape, or a tensor has no place. A program that lacks
        no constants takes any.
    """
    if not late_names(program):
        return program
    unused = set(tensors)
    problems, constants = [], []
    for index, constant in enumerate(program.constants):
        if not _is_late(constant):
            constants.append(constant)
            continue
        wanted = _description(constant)
        name = wanted["name"]
        unused.discard(name)
        if name not in tensors:
            hint = suggest(name, tensors)
            problems.append(f"No binding for late-bound constant at index {index} with name '{name}'{hint}")
            continue
        found = _constant(tensors[name])
        if [list(found.dtype), list(found.shape)] != [wanted["dtype"], wanted["shape"]]:
            problems.append(f"{name}: {_shown(found.dtype, found.shape)}, expected {_shown(**wanted)}")
        constants.append(found)
    if unused:
        problems.append(f"Have {len(unused)} unused late-bound constants: {', '.join(sorted(unused))}")
    if problems:
        raise ExecutableError("\n  ".join(["these constants cannot be bound", *problems]))
    return replace(program, constants=tuple(constants))


def _is_late(constant: Any) -> bool:
    return isinstance(constant, str) and constant.startswith(_MARK)


def _description(constant: str) -> dict[str, Any]:
    return json.loads(constant.removeprefix(_MARK))


def _tensor(constant: TensorConstant) -> Tensor:
    raw = np.frombuffer(constant.data, "uint8")
    made = tvm.runtime.empty(constant.shape, constant.dtype_name)
    if raw.size:
        made.copyfrom(raw.view(_storage(constant.dtype_name)).reshape(constant.shape))
    return made


def _constant(tensor: Any) -> TensorConstant:
    if not isinstance(tensor, Tensor):
        tensor = tvm.runtime.tensor(np.asarray(tensor))
    dtype = tvm.DataType(str(tensor.dtype))
    array = np.ascontiguousarray(tensor.numpy())
    return TensorConstant((dtype.type_code, dtype.bits, dtype.lanes), (1, 0), tuple(tensor.shape), array.tobytes())


def _storage(dtype: str) -> Any:
    return tvm.runtime.empty((), dtype).numpy().dtype


def _shown(dtype: Any, shape: Any, name: str = "") -> str:
    return f"{TensorConstant(tuple(dtype), (1, 0), tuple(shape), b'').dtype_name}{list(shape)}"
