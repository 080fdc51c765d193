"""Relay programs compiled for the CPU and run on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from vmkit.relay import Function, Tuple, Var
from vmkit.relay.lower import explain_failure, lower_module
from vmkit.relay.transform.infer_type import infer_module


class CheckFailed(Exception):
    """A check that the compiled program made at run time; its text is the check's message."""


def compiled(params: Sequence[Var], *results: Any) -> Callable[..., Any]:
    """Return a Python function that runs a Relay function; several results come as a tuple."""
    body = results[0] if len(results) == 1 else Tuple(results)
    module = infer_module(tvm.IRModule({"main": Function(params, body)}))
    lowered = lower_module(module)
    target = tvm.target.Target("llvm")
    program = relax.transform.ConvertToDataflow(1)(lowered.module)
    machine = relax.VirtualMachine(
        relax.build(program, target, relax_pipeline=relax.get_default_pipeline(target)), tvm.cpu()
    )

    def run(*arrays: np.ndarray) -> Any:
        try:
            return as_numpy(machine["main"](*[tvm.runtime.tensor(np.asarray(a)) for a in arrays]))
        except RuntimeError as error:
            message = explain_failure(str(error), lowered.messages)
            if message is None:
                raise
            raise CheckFailed(message) from None

    return run


def as_numpy(value: Any) -> Any:
    """Return a runtime value as numpy arrays; tuples stay tuples."""
    if isinstance(value, tvm.runtime.Tensor):
        return value.numpy()
    return tuple(as_numpy(v) for v in value)


def assert_same(actual: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Assert that results agree in structure, shape, data type and value."""
    if isinstance(expected, tuple | list):
        assert isinstance(actual, tuple) and len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, rtol, atol)
        return
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
