"""Relay programs compiled for the CPU and run on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit.errors import TypeCheckError
from vmkit.relay import Function, Tuple, Var
from vmkit.relay.transform import infer_module


def compiled(params: Sequence[Var], *results: Any) -> Callable[..., Any]:
    """Return a Python function that runs a Relay function; several results come as a tuple."""
    body = results[0] if len(results) == 1 else Tuple(results)
    machine = vmkit.VirtualMachine(vmkit.compile(Function(params, body), target="llvm"), vmkit.device("cpu"))
    return lambda *arrays: as_numpy(machine.run(*arrays))


def as_numpy(value: Any) -> Any:
    """Return a runtime value as numpy arrays; tuples stay tuples."""
    if hasattr(value, "numpy"):
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


def assert_table(params: Sequence[Var], table: Mapping[str, tuple[Any, Any]], *inputs: Sequence[np.ndarray]) -> None:
    """Compile the expressions of a table as one function, and compare each with its reference for every set of inputs.

    A table has, by name, the expression and a numpy function of the inputs.
    """
    run = compiled(params, Tuple([expression for expression, _ in table.values()]))
    for arrays in inputs:
        for (name, (_, reference)), actual in zip(table.items(), run(*arrays), strict=True):
            try:
                assert_same(actual, reference(*arrays))
            except AssertionError as error:
                shapes = [np.shape(a) for a in arrays]
                raise AssertionError(f"{name}, inputs of shapes {shapes}: {error}") from None


def type_error(params: Sequence[Var], result: Any) -> str:
    """Return the text of the type error of a function, without the place."""
    with pytest.raises(TypeCheckError) as caught:
        infer_module(tvm.IRModule({"main": Function(params, result)}))
    return str(caught.value).partition("): ")[2]
