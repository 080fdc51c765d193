"""Compare the gradient of a function with finite differences, as ``relay.testing.check_grad`` did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from vmkit import relay
from vmkit.compiler.vm_compiler import compile as compile_for
from vmkit.errors import ModelError
from vmkit.relay.ir import Function, TensorType
from vmkit.runtime.machine import VirtualMachine

__all__ = ["check_grad"]

Run = Callable[..., Any]


def check_grad(
    func: Function,
    inputs: Sequence[np.ndarray] | None = None,
    test_inputs: Sequence[np.ndarray] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Sequence[tuple[str, tvm.runtime.Device]] | None = None,
    executor_kind: str = "debug",
) -> None:
    """Raise unless the gradient of a function is what finite differences say.

    Parameters
    ----------
    func : Function
        A function of tensors to a tensor.
    inputs : sequence of numpy.ndarray, optional
        Where it is compared; random numbers of the parameters' types where it is left open.
    test_inputs : sequence of numpy.ndarray, optional
        Those of `inputs`, the same objects, whose gradients are compared; all where it is left open.
    eps : float
        How far to go to both sides of each element.
    atol, rtol : float
        How near both must be.
    scale, mean : float
        Of the random numbers; `scale` is 10 times `eps` where it is left open.
    mode : str
        See :func:`relay.transform.gradient`.
    target_devices : sequence of (target, device), optional
        Where it runs; on this machine's processor where it is left open.
    executor_kind : str
        Relay's name of an executor; the virtual machine runs it in any case.

    Raises
    ------
    AssertionError
        When a gradient is another.
    ModelError
        When `test_inputs` has an array that is not among `inputs`.
    """
    typed = _typed(func)
    backward = _typed(relay.transform.gradient(typed, mode=mode))
    if inputs is None:
        inputs = [_random(p.checked_type, 10 * eps if scale is None else scale, mean) for p in typed.params]
    tested = inputs if test_inputs is None else test_inputs
    places = [_place(inputs, each) for each in tested]
    for target, _ in target_devices or [("llvm", tvm.cpu())]:
        found = _runner(backward, target)(*inputs)[1]
        forward = _runner(typed, target)
        for place in places:
            expected = _difference(forward, list(inputs), place, eps)
            np.testing.assert_allclose(found[place].numpy(), expected, atol=atol, rtol=rtol)


def _typed(function: Function) -> Function:
    return relay.transform.InferType()(tvm.IRModule({"main": function}))["main"]


def _random(ty: TensorType, scale: float, mean: float) -> np.ndarray:
    return np.asarray(mean + np.random.randn(*[int(d) for d in ty.shape]) * scale, ty.dtype)


def _place(inputs: Sequence[np.ndarray], wanted: np.ndarray) -> int:
    for place, each in enumerate(inputs):
        if each is wanted:
            return place
    raise ModelError("test_inputs has an array that is not one of inputs; give the same objects in both")


def _runner(function: Function, target: str) -> Run:
    return VirtualMachine(compile_for(tvm.IRModule({"main": function}), target=target), "cpu").run


def _difference(forward: Run, inputs: list[np.ndarray], place: int, eps: float) -> np.ndarray:
    """Return how the sum of the result changes with each element of one input."""
    moved = np.array(inputs[place])
    inputs[place] = moved
    result = np.zeros(moved.shape)
    for index in np.ndindex(*moved.shape):
        middle, sums = moved[index], []
        for step in (eps, -eps):
            moved[index] = middle + step
            sums.append(forward(*inputs).numpy().astype("float64"))
        moved[index] = middle
        result[index] = np.sum((sums[0] - sums[1]) / (2 * eps))
    return result
