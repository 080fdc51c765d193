"""Every operator of Relay as C: it computes what the virtual machine does, or is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
from tests.mlf.built import build
from tests.relay.op.samples import SAMPLES, Given
from vmkit import relay
from vmkit.errors import CompileError, ModelError, TypeCheckError

pytestmark = pytest.mark.nightly

REASONS = (
    "known when it is compiled",
    "known at run time only",
    "which C does not have",
    "C has no counterpart",
    "C gets tensors alone",
    "C has no elements of",
    "is no function of C's math.h",
    "C needs inputs of known sizes",
    "is the memory of",
)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_operator(name: str, tmp_path: Path) -> None:
    given = Given(False)
    call = SAMPLES[name](given)
    function = relay.Function(given.params, call)
    try:
        vmkit.mlf.export(function, tmp_path / "operator.tar")
    except (ModelError, CompileError, TypeCheckError) as error:
        assert any(reason in str(error) for reason in REASONS), error
        return
    got = build(tmp_path / "operator.tar").run(*given.arrays)
    result = vmkit.VirtualMachine(vmkit.compile(function, "llvm"), "cpu", num_threads=1).run(*given.arrays)
    for one, expected in zip(got, result if isinstance(result, list | tuple) else [result], strict=True):
        array = expected.numpy().ravel()
        np.testing.assert_allclose(one, array, rtol=1e-4 if array.dtype.kind == "f" else 0, atol=1e-6)
