"""Loading an executable: signatures are asked for where they are given, and its code goes when it does."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import vmkit
from vmkit import relay
from vmkit.errors import ExecutableError


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    x = relay.var("x", shape=(relay.Any(),))
    return vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm")


def test_an_executable_is_signed_and_its_signature_asked_for(executable: vmkit.Executable, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    executable.export(tmp_path / "signed.vmx", sign=key)
    executable.export(tmp_path / "plain.vmx")
    loaded = vmkit.load(tmp_path / "signed.vmx", trusted_keys=[key.public_key()])
    assert vmkit.VirtualMachine(loaded).run(np.zeros(2, "float32")).numpy().tolist() == [1, 1]
    with pytest.raises(ExecutableError, match="the file is not signed"):
        vmkit.load(tmp_path / "plain.vmx", trusted_keys=[key.public_key()])


def test_libraries_are_unmapped_when_their_executable_goes(executable: vmkit.Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "model.vmx")
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists the mappings of a process")

    def mapped() -> int:
        gc.collect()
        return sum("lib0.so" in line for line in maps.read_text().splitlines())

    before, results = mapped(), []
    for _ in range(5):
        machine = vmkit.VirtualMachine(vmkit.load(tmp_path / "model.vmx"))
        assert mapped() > before
        results.append(machine.run(np.ones(3, "float32")))
        del machine
    assert mapped() == before
    # Results stay when the code that computed them is gone.
    for result in results:
        np.testing.assert_allclose(result.numpy(), np.exp(np.ones(3)), rtol=1e-6)
