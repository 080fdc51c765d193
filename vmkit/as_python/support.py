"""What programs in Python that were Relay import: constants, operators, and values of data types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import tvm
from tvm.runtime import Tensor

from ..compiler.vm_compiler import compile
from ..errors import VMError
from ..relay.ir import Call, Function, TensorType, TupleType, Type, Var
from ..relay.json import load_json
from ..runtime.machine import VirtualMachine
from ..target import canonical_target, device_name, device_type
from ..values.conversion import ADT, RefValue, StoredTensor
from ..values.element_types import numpy_dtype
from ..values.tensors import as_tensor

__all__ = ["ADT", "RefValue", "constructor", "no_match", "operator", "tensor", "truth"]


def tensor(value: Any, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of numbers in lists, or of its bytes."""
    if isinstance(value, bytes):
        value = np.frombuffer(value, numpy_dtype(dtype))
    return as_tensor(np.asarray(value, numpy_dtype(dtype)).reshape(shape))


def truth(condition: Tensor) -> bool:
    """Return a boolean scalar as Python's."""
    return bool(condition.numpy())


def constructor(tag: int) -> Callable[..., ADT]:
    """Return a constructor of a data type as a function."""
    return lambda *fields: ADT(tag, fields)


def no_match(value: Any) -> NoReturn:
    """Say that no clause of a match takes a value."""
    raise VMError(f"no clause of the match takes {value!r}")


def operator(name: str, attributes: str | None, target: str) -> Callable[..., Any]:
    """Return an operator of Relay as a function of tensors and tuples of them.

    It is compiled when it is first called with arguments of a type.

    Parameters
    ----------
    name
        The operator's name.
    attributes
        Its attributes as ``relay.save_json`` writes them.
    target
        What it is compiled for.
    """
    compiled: dict[tuple[str, ...], VirtualMachine] = {}
    attrs = None if attributes is None else load_json(attributes)

    def called(*args: Any) -> Any:
        types = [_type_of(arg) for arg in args]
        key = tuple(map(str, types))
        if key not in compiled:
            params = [Var(f"x{index}", each) for index, each in enumerate(types)]
            function = Function(params, Call(tvm.ir.Op.get(name), params, attrs))
            plan = canonical_target(target)
            compiled[key] = VirtualMachine(compile(function, plan), device_name(device_type(plan.primary)))
        return compiled[key].run(*args)

    called.__name__ = name
    return called


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType([_type_of(item) for item in value])
    if isinstance(value, Tensor | StoredTensor):
        return TensorType([int(d) for d in value.shape], str(value.dtype))
    raise VMError(f"an operator takes tensors and tuples of them, not {type(value).__name__}")
