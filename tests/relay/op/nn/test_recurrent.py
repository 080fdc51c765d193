"""Operators of recurrent layers: what they refuse. What they compute is compared where their kernels are tested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
import vmkit.optimize  # registers the operators
from vmkit import relay
from vmkit.errors import TypeCheckError, VMKitError
from vmkit.relay import transform
from vmkit.relay.op import build

ANY = relay.Any()


def layer(kind: str = "rnn", gates: int = 1, lengths: Any = ((3,), "int32"), **changed: Any) -> relay.Function:
    """Return a layer of 6 hidden units over five steps of three rows."""
    shapes = {"data": (5, 3, gates * 6), "weight": (2, 6, gates, 4), "state": (3, 6)}
    attrs = {name: changed.pop(name) for name in list(changed) if name not in ("cell", "bias", "peephole", *shapes)}
    params = [relay.var(name, shape=shape, dtype="float32") for name, shape in (shapes | changed).items()]
    if lengths is not None:
        params.append(relay.var("lengths", shape=lengths[0], dtype=lengths[1]))
    return relay.Function(params, build(f"nn.contrib_{kind}", *params, **attrs))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda: layer(data=(5, 3, 7)), "dimension 2 of data is 7, expected 6"),
        (lambda: layer(state=(2, 6)), "dimension 0 of state is 2, expected 3"),
        (lambda: layer(weight=(1, 6, 1, 4)), r"weight must be \(blocks, hidden, 1, lanes\)"),
        (lambda: layer(weight=(1, 6, 1, 8)), r"weight must be \(blocks, hidden, 1, lanes\)"),
        (lambda: layer(weight=(ANY, 6, 1, 4)), r"weight must be \(blocks, hidden, 1, lanes\)"),
        (lambda: layer(lengths=((2,), "int32")), "dimension 0 of lengths is 2, expected 3"),
        (lambda: layer(lengths=((3,), "float32")), "lengths must be int32 or int64, not float32"),
        (lambda: layer(lengths=((3, 1), "int32")), "lengths"),
        (lambda: layer(activations="sigmoid tanh"), "1 functions of gates are needed"),
        (lambda: layer(activations="elu"), "no function of a gate"),
        (lambda: layer("gru", 3, bias=(5,)), "dimension 0 of bias is 5, expected 6"),
        (
            lambda: layer("lstm", 4, cell=(3, 6), lengths=None, has_peepholes=True),
            "nn.contrib_lstm takes data, weight, state, cell, peephole, not 4 operands",
        ),
        (lambda: layer("lstm", 4, cell=(3, 6), peephole=(17,), has_peepholes=True), "of peephole is 17, expected 18"),
    ],
)
def test_operands_that_do_not_fit_are_refused(program: Any, message: str) -> None:
    with pytest.raises(TypeCheckError, match=message):
        transform.InferType()(tvm.IRModule({"main": program()}))


def quantized(hidden: int = 10, **changed: Any) -> relay.Function:
    """Return a layer of 10 hidden units over five steps of three rows, whose states are quantised."""
    of_blocks = (2, 4, 8)
    shapes = {"data": (5, 3, 40), "weight": (2, 3, 4, 8, 4), "factors": of_blocks, "totals": of_blocks}
    shapes |= {"state": (3, 10), "cell": (3, 10)}
    types = {"weight": "int8", "totals": "int32"}
    params = [relay.var(n, shape=s, dtype=types.get(n, "float32")) for n, s in (shapes | changed).items()]
    return relay.Function(params, build("nn.contrib_quantized_lstm", *params, hidden=hidden))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda: quantized(11), "dimension 2 of data is 40, expected 44"),
        (lambda: quantized(7), "as many as 7 hidden units at most"),
        (lambda: quantized(20), r"weight must have the shape \(3, 5, 4, 8, 4\), not \(2, 3, 4, 8, 4\)"),
        (
            lambda: quantized(weight=(2, 3, 4, 8, 2)),
            r"weight must have the shape \(2, 5, 4, 8, 2\), not \(2, 3, 4, 8, 2\)",
        ),
        (lambda: quantized(weight=(2, 3, 4, 4, 4)), "8 or 16 lanes"),
        (lambda: quantized(weight=(2, 3, 4, ANY, 4)), "8 or 16 lanes"),
        (lambda: quantized(totals=(2, 4, 9)), r"totals must have the shape \(2, 4, 8\)"),
        (lambda: quantized(cell=(2, 10)), "dimension 0 of cell is 2, expected 3"),
        (lambda: quantized(lengths=(3,)), "takes data, weight, factors, totals, state, cell, not 7 operands"),
    ],
)
def test_operands_of_a_quantised_layer_that_do_not_fit_are_refused(program: Any, message: str) -> None:
    with pytest.raises(TypeCheckError, match=message):
        transform.InferType()(tvm.IRModule({"main": program()}))


def test_sizes_that_do_not_fit_at_run_time_are_refused() -> None:
    function = layer("gru", 3, data=(ANY, ANY, ANY), state=(ANY, ANY), bias=(ANY,), lengths=((ANY,), "int64"))
    machine = vmkit.VirtualMachine(vmkit.compile(function))
    fits = {"data": (5, 3, 18), "weight": (2, 6, 3, 4), "state": (3, 6), "bias": (6,)}

    def run(lengths: int = 3, **changed: tuple[int, ...]) -> Any:
        given = {name: np.zeros(shape, "float32") for name, shape in (fits | changed).items()}
        return machine.run(**given, lengths=np.full(lengths, 5, "int64"))

    run()
    with pytest.raises(VMKitError, match="contrib_gru: dimension 0 of lengths is 2, expected 3"):
        run(lengths=2)
    with pytest.raises(VMKitError, match="contrib_gru: dimension 2 of data is 17, expected 18"):
        run(data=(5, 3, 17))
    with pytest.raises(VMKitError, match="contrib_gru: dimension 0 of state is 4, expected 3"):
        run(state=(4, 6))
    with pytest.raises(VMKitError, match="contrib_gru: dimension 0 of bias is 5, expected 6"):
        run(bias=(5,))
