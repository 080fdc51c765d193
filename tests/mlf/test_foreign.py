"""C of other code generators in archives: called on tensors of the workspace, of constants, inputs and outputs."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

import vmkit
from tests.mlf.built import build
from vmkit import byoc, relay
from vmkit.errors import CompileError, ExecutableError

nn = relay.nn


def test_regions_run_between_kernels_and_inside_of_branches(tmp_path: Path) -> None:
    flag, x, weight = (
        relay.var("flag", shape=(), dtype="bool"),
        relay.var("x", shape=(2, 3)),
        np.ones((4, 3), "float32"),
    )
    hidden = nn.relu(nn.dense(x, relay.const(weight)) + relay.const(np.arange(4, dtype="float32")))
    soft = nn.softmax(hidden)
    chosen = relay.If(flag, soft + hidden, nn.softmax(soft - relay.const(2.0)))
    program = relay.Function([flag, x], relay.Tuple([chosen, hidden, relay.exp(relay.sum(hidden))]))
    cut = byoc.partition(program, "ccompiler")
    assert sum(map(len, cut.offloaded.values())) == 6
    vmkit.mlf.export(cut.module, tmp_path / "model.tar")
    built = build(tmp_path / "model.tar")
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1)
    image = np.random.default_rng(0).uniform(-1, 1, (2, 3)).astype("float32")
    for choice in (np.array(True), np.array(False)):
        for got, want in zip(built.run(choice, image), machine.run(choice, image), strict=True):
            np.testing.assert_allclose(got, want.numpy().ravel(), rtol=1e-5)
    assert len(vmkit.mlf.load(tmp_path / "model.tar").build().run(np.array(True), image)) == 3


def test_a_tensor_that_a_region_reads_keeps_its_type(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 3), dtype="int8")
    wide = nn.softmax(relay.cast(x, "float32"))
    counted = relay.cast(relay.reverse(relay.cast(x, "int32") - relay.const(5), axis=1), "int32")
    program = relay.Function([x], relay.Tuple([relay.multiply(counted, counted), wide]))
    vmkit.mlf.export(byoc.partition(program, "ccompiler").module, tmp_path / "model.tar")
    given = np.arange(6, dtype="int8").reshape(2, 3)
    got, _ = build(tmp_path / "model.tar").run(given)
    np.testing.assert_array_equal(got, ((given.astype("int32") - 5)[:, ::-1] ** 2).ravel())


def test_what_fails_ends_the_entry_and_what_is_no_c_is_refused(tmp_path: Path) -> None:
    @byoc.codegen("testfailing")
    class Failing(byoc.CSource):
        operators = ("exp",)

        def source(self, region: byoc.Region) -> str:
            return f"static int {region.symbol}_run(const vmkit_array* values) {{ return values[0].ndim; }}"

    x = relay.var("x", shape=(2, 3))
    program = relay.Function([x], relay.exp(x))
    vmkit.mlf.export(byoc.partition(program, "testfailing").module, tmp_path / "model.tar")
    with pytest.raises(ExecutableError, match="tvmgen_default_run returned -1"):
        vmkit.mlf.load(tmp_path / "model.tar").build().run(np.zeros((2, 3), "float32"))
    with tarfile.open(tmp_path / "model.tar") as tar:
        header = tar.extractfile("./codegen/host/include/tvmgen_default.h")
        assert header is not None and b"Returns 0, or -1 if C of another code generator fails." in header.read()
    with pytest.raises(CompileError, match=r"a graph has no C of other code generators, tvmgen_default_testfailing"):
        vmkit.mlf.export(byoc.partition(program, "testfailing").module, tmp_path / "no.tar", executor="graph")
    with pytest.raises(CompileError, match=r"tvmgen_default_examplejson_main_0: of what other .* the C .* alone"):
        vmkit.mlf.export(byoc.partition(program, "examplejson").module, tmp_path / "no.tar")
    assert not (tmp_path / "no.tar").exists()
