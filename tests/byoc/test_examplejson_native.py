"""The runtime in C++: what it computes, what it keeps, what it refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tvm

from vmkit import byoc, relay
from vmkit.byoc.examplejson import ExampleJSON
from vmkit.byoc.examplejson_runtime import create
from vmkit.errors import CompileError

RNG = np.random.default_rng(0)


def region(body: relay.Expr, *params: relay.Var) -> byoc.Region:
    """Return an expression as a region of the name ``f``."""
    typed = relay.transform.InferType()(tvm.IRModule({"f": relay.Function(list(params), body)}))
    return byoc.Region.of("f", typed["f"])


def call(module: tvm.runtime.Module, shape: tuple[int, ...], *args: np.ndarray) -> np.ndarray:
    out = tvm.runtime.tensor(np.zeros(shape, args[0].dtype))
    module["f"](*map(tvm.runtime.tensor, args), out)
    found: np.ndarray = out.numpy()
    return found


def graph_of(operator: str, dtype: str, *shapes: tuple[int, ...]) -> dict[str, Any]:
    params = [relay.var(f"x{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]
    return region(relay.op.entry(operator).builder(*params), *params).to_json()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operators_compute_as_numpy_does(dtype: str) -> None:
    a, b = (RNG.uniform(-1, 1, shape).astype(dtype) for shape in ((2, 1, 3), (4, 3)))
    a[0, 0, 0] = b[1, 1] = np.nan
    for operator in ExampleJSON.operators:
        args = {1: [a], 2: [a, b]}[1 if operator in ("exp", "tanh", "nn.relu") else 2]
        if operator == "nn.dense":
            args = [a[:, 0], b]
        want = ExampleJSON.load(graph_of(operator, dtype, *[arg.shape for arg in args]))(*args)[0]
        made = create(json.dumps({"f": graph_of(operator, dtype, *[arg.shape for arg in args])}))
        np.testing.assert_allclose(call(made, want.shape, *args), want, rtol=1e-5, err_msg=operator)


def test_a_module_is_saved_and_loaded() -> None:
    text = json.dumps({"f": graph_of("add", "float32", (2,), (2,))})
    module = create(text)
    assert module.kind == "examplejson" and json.loads(module.inspect_source()) == json.loads(text)
    load = tvm.get_global_func("ffi.Module.load_from_bytes.examplejson")
    ones = np.ones(2, "float32")
    np.testing.assert_array_equal(call(load(text.encode()), (2,), ones, ones), [2, 2])


def test_what_cannot_be_run_is_an_error() -> None:
    graph = graph_of("add", "float32", (2,), (2,))
    ones = np.ones(2, "float32")
    with pytest.raises(ValueError, match="result 0 has another shape"):
        call(create(json.dumps({"f": graph})), (3,), ones, ones)
    with pytest.raises(ValueError, match="dimensions 2 and 3 cannot be broadcast"):
        call(create(json.dumps({"f": graph})), (2,), ones, np.ones(3, "float32"))
    with pytest.raises(TypeError, match="2 arguments and 1 results got 2 tensors"):
        call(create(json.dumps({"f": graph})), (2,), ones)
    with pytest.raises(TypeError, match="float32 or float64"):
        call(create(json.dumps({"f": graph})), (2,), ones.astype("int32"), ones.astype("int32"))
    with pytest.raises(ValueError, match="there is no value 9"):
        create(json.dumps({"f": {**graph, "outputs": [9]}}))
    with pytest.raises(ValueError, match="there is no operator sinh"):
        call(create(json.dumps({"f": {**graph, "nodes": [{**graph["nodes"][0], "op": "sinh"}]}})), (2,), ones, ones)


def test_a_module_without_the_functions_of_its_regions_is_an_error() -> None:
    @byoc.codegen("testempty")
    class Empty(byoc.RuntimeModule):
        operators = ("exp",)
        kind = "examplejson"
        runtime = "vmkit.byoc.examplejson_runtime"

        def module(self, regions: Any) -> tvm.runtime.Module:
            return create("{}")

    x = relay.var("x", shape=(2,))
    cut = byoc.partition(relay.Function([x], relay.exp(x)), "testempty")
    with pytest.raises(CompileError, match=r"testempty returned a module of kind 'examplejson' for .* has no function"):
        byoc.link_functions(cut.module)
