"""The graph executor's form: a graph whose nodes, run one after another on its storages, compute the model."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vmkit
from tests.mlf.built import FLAGS
from tests.mlf.graphs import run
from tests.mlf.networks import keyword_spotting
from vmkit import relay
from vmkit.errors import CompileError, ExecutableError, OptionError


def test_the_graph_computes_the_model(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((1, 1, 25, 10), dtype="float32")
    network = keyword_spotting()
    vmkit.mlf.export(network, tmp_path / "aot.tar")
    expected = vmkit.mlf.load(tmp_path / "aot.tar").build().run(x)
    metadata = vmkit.mlf.export(network, tmp_path / "graph.tar", executor="graph")["modules"]["default"]
    library = vmkit.mlf.load(tmp_path / "graph.tar")
    assert metadata["executors"] == ["graph"] and "codegen/host/include/tvmgen_default.h" not in library.files
    with pytest.raises(ExecutableError, match="'default' has no entry in C"):
        library.build()
    params = relay.load_param_dict(library.files["parameters/default.params"])
    constants = {name: value.numpy() for name, value in params.items()}
    storage = metadata["memory"]["sids"]
    assert [each.get("input_binding") for each in storage if "input_binding" in each] == ["x", *constants]
    main = metadata["memory"]["functions"]["main"][0]
    assert main["constants_size_bytes"] == sum(each.nbytes for each in constants.values())
    shared = [each["size_bytes"] for each in storage if "input_binding" not in each]
    assert sum(shared) <= main["workspace_size_bytes"] + main["outputs"]["scores"]["size"] < 20_000
    library.extract(tmp_path / "out")
    sources = list(map(str, (tmp_path / "out").glob("codegen/host/src/*.c")))
    made = tmp_path / "graph.so"
    subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", "-o", str(made), *sources, "-lm"], check=True)
    graph = json.loads(library.files["executor-config/graph/default.graph"])
    sizes = [each["size_bytes"] for each in storage]
    (got,) = run(graph, ctypes.CDLL(str(made)), {"x": x, **constants}, sizes)
    np.testing.assert_allclose(got, expected[0], rtol=1e-5)


def test_outputs_that_are_inputs_and_what_no_graph_has(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2,))
    metadata = vmkit.mlf.export(relay.Function([x], relay.Tuple([x, x + x])), tmp_path / "a.tar", executor="graph")
    graph = json.loads(vmkit.mlf.load(tmp_path / "a.tar").files["executor-config/graph/default.graph"])
    assert graph["heads"] == [[0, 0, 0], [1, 0, 0]]
    assert metadata["modules"]["default"]["memory"]["sids"] == [
        {"storage_id": 0, "size_bytes": 8, "input_binding": "x"},
        {"storage_id": 1, "size_bytes": 8},
    ]
    flag = relay.var("flag", shape=(), dtype="bool")
    branch = relay.Function([flag, x], relay.If(flag, relay.exp(x), x))
    with pytest.raises(CompileError, match="a graph has no branch; the executor 'aot' takes it"):
        vmkit.mlf.export(branch, tmp_path / "b.tar", executor="graph")
    with pytest.raises(OptionError, match="expected 'aot' or 'graph', got 'vm'"):
        vmkit.mlf.export(branch, tmp_path / "b.tar", executor="vm")
    assert not (tmp_path / "b.tar").exists()
