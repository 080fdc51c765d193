"""Programs of which other code generators compile parts: what they compute, and how they are kept."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from vmkit import byoc, relay
from vmkit.byoc import c_module
from vmkit.errors import CompileError, ExecutableError, ModelError, VMError
from vmkit.relay.dataflow_pattern import is_constant, is_op, wildcard

RNG = np.random.default_rng(0)
BOTH = pytest.mark.parametrize("name", ["ccompiler", "examplejson"])
ALL = pytest.mark.parametrize("name", ["ccompiler", "examplejson", "examplejson_native"])


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def data(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype("float32")


def run(mod: tvm.IRModule | relay.Function | vmkit.Executable, *args: Any) -> list[np.ndarray]:
    exe = mod if isinstance(mod, vmkit.Executable) else vmkit.compile(mod, target="llvm")
    result = vmkit.VirtualMachine(exe).run(*args)
    return [r.numpy() for r in (result if isinstance(result, vmkit.ADT | tuple | list) else [result])]


def assert_same(cut: byoc.Partitioned, function: relay.Function, *args: Any) -> None:
    for got, want in zip(run(cut.module, *args), run(function, *args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def network() -> relay.Function:
    """Return a layer of any number of rows, a softmax, and what uses both: two regions for others."""
    x, w = v("x", relay.Any(), 4), relay.const(data(3, 4))
    layer = relay.nn.dense(x, w)
    soft = relay.nn.softmax(relay.nn.relu(layer + relay.const(data(3))))
    return relay.Function([x], relay.Tuple([soft, relay.exp(layer) + soft]))


@ALL
def test_regions_of_unknown_sizes_with_constants_and_several_results(name: str) -> None:
    function = network()
    cut = byoc.partition(function, name)
    assert list(cut.offloaded.values()) == [["nn.dense", "add", "nn.relu", "exp"], ["add"]]
    exe = vmkit.compile(cut.module, target="llvm")
    for rows in (1, 5):
        x = data(rows, 4)
        for got, want in zip(run(exe, x), run(function, x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    kernels = {call.split("_")[0] for call in exe.primitive_ops}
    assert "nn" in kernels and "exp" not in kernels, "what is computed elsewhere is computed there alone"


@BOTH
def test_regions_around_control_flow(name: str) -> None:
    x, n = v("x", 2, 2), relay.var("n", shape=(), dtype="int32")
    i, s, loop = relay.var("i", shape=(), dtype="int32"), v("s", 2, 2), relay.Var("loop")
    one = relay.const(1, "int32")
    body = relay.If(relay.less(i, one), s, loop(relay.cast(i, "int32") - one, relay.multiply(s + x, x)))
    looped = relay.Let(loop, relay.Function([i, s], body, x.type_annotation), loop(n, relay.exp(x)))
    function = relay.Function([x, n], looped)
    cut = byoc.partition(function, name)
    assert ["exp"] in cut.offloaded.values() and ["add", "multiply"] in cut.offloaded.values()
    for count in (0, 3):
        assert_same(cut, function, data(2, 2), np.array(count, "int32"))


def test_c_broadcasts_multiplies_matrices_and_adds_a_bias_along_an_axis() -> None:
    a, b, c = v("a", relay.Any(), 1, 4), v("b", 3, 1), v("c", 3, dtype="float32")
    m = v("m", 4, relay.Any())
    product = relay.nn.matmul(m, v("k", 5, 4), transpose_a=True, transpose_b=True)
    biased = relay.nn.bias_add(relay.maximum(a, b), c, axis=1)
    function = relay.Function([a, b, c, m, product.args[1]], relay.Tuple([biased, relay.negative(product)]))
    cut = byoc.partition(function, "ccompiler")
    assert cut.kept == []
    assert_same(cut, function, data(2, 1, 4), data(3, 1), data(3), data(4, 6), data(5, 4))


def test_c_computes_in_integers() -> None:
    x, y = v("x", 3, dtype="int64"), v("y", 3, dtype="int64")
    function = relay.Function([x, y], relay.minimum(x * y, x - y))
    cut = byoc.partition(function, "ccompiler")
    assert cut.kept == []
    big = np.array([2**40, -3, 5])
    np.testing.assert_array_equal(run(cut.module, big, big + 1)[0], np.minimum(big * (big + 1), -1))


def test_a_region_may_return_what_it_takes_and_one_value_twice() -> None:
    x = v("x", 2)
    p = v("p", 2)
    e = relay.exp(p)
    attrs = {"Compiler": "ccompiler", "global_symbol": "odd", "Primitive": 1}
    odd = relay.Function([p], relay.Tuple([e, p, e, relay.const(np.float32([7, 8]))]), attrs=attrs)
    x_data = data(2)
    got = run(relay.Function([x], odd(x)), x_data)
    for result, want in zip(got, [np.exp(x_data), x_data, np.exp(x_data), [7, 8]], strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-6)


@BOTH
def test_tuples_enter_and_leave_regions(name: str) -> None:
    ty = relay.TupleType([relay.TensorType((2,)), relay.TensorType((2,))])
    x, pair = v("x", 2), relay.Var("pair", ty)
    inner = relay.Tuple([pair[0] + pair[1], relay.Tuple([relay.multiply(pair[0], pair[1])])])
    function = relay.Function([pair], inner, attrs={"Compiler": name, "global_symbol": f"pairs_{name}"})
    call = function(relay.Tuple([x, relay.nn.softmax(x)]))
    x_data = data(2)
    soft = run(relay.Function([x], relay.nn.softmax(x)), x_data)[0]
    got = run(relay.Function([x], relay.Tuple([call[0], call[1][0]])), x_data)
    np.testing.assert_allclose(got, [x_data + soft, x_data * soft], rtol=1e-6)


def test_a_tensor_that_nothing_else_computes_on_needs_no_kernels() -> None:
    x = v("x", 2)
    cut = byoc.partition(relay.Function([x], x + x), "ccompiler")
    exe = vmkit.compile(cut.module, target="llvm")
    code, lib = exe.save()
    assert exe.primitive_ops == ["tvmgen_default_ccompiler_main_0"]
    np.testing.assert_array_equal(run(vmkit.Executable.load_exec(code, lib), np.float32([1, 2]))[0], [2, 4])


FRESH = """
import numpy as np, vmkit
x = np.load("x.npy")
result = vmkit.VirtualMachine(vmkit.load("model.vmx")).run(x)
np.testing.assert_allclose(result[1].numpy(), np.load("wanted.npy"), rtol=1e-5, atol=1e-6)
print("equal")
"""


@ALL
def test_a_fresh_process_runs_what_was_exported(name: str, tmp_path: Path) -> None:
    function, x = network(), data(3, 4)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "wanted.npy", run(function, x)[1])
    vmkit.compile(byoc.partition(function, name).module, target="llvm").export(tmp_path / "model.vmx")
    root = str(Path(__file__).parents[2])
    environment = {"PYTHONPATH": root, "TVM_NUM_THREADS": "1", "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FRESH)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "equal\n", done.stderr


def test_a_missing_runtime_is_an_error_when_the_file_is_loaded(tmp_path: Path) -> None:
    @byoc.codegen("absent")
    class Absent(byoc.Graph):
        operators = ("exp",)

        @classmethod
        def load(cls, graph: Any) -> Any:
            return np.exp

    x = v("x", 2)
    exe = vmkit.compile(byoc.partition(relay.Function([x], relay.exp(x)), "absent").module, target="llvm")
    assert exe.info.runtimes == {"vmkit.byoc.run.absent": __name__}
    np.testing.assert_allclose(run(exe, np.float32([0, 1]))[0], np.exp(np.float32([0, 1])))
    exe.export(tmp_path / "model.vmx")
    tvm_ffi.registry.remove_global_func("vmkit.byoc.run.absent")
    with pytest.raises(ExecutableError, match=r"needs vmkit.byoc.run.absent, .* does not register it"):
        vmkit.load(tmp_path / "model.vmx")
    code, lib = exe.save()
    with pytest.raises(ExecutableError, match=r"needs vmkit.byoc.run.absent"):
        vmkit.Executable.load_exec(code, lib)


def test_the_report_says_what_stays_and_why() -> None:
    x, i = v("x", 2, 2), v("i", 2, 2, dtype="int32")
    body = relay.Tuple([relay.nn.softmax(relay.exp(x)), relay.exp(relay.cast(i, "float64")), relay.abs(i) + i])
    cut = byoc.partition(relay.Function([x, i], body), "examplejson")
    reasons = {k.operator: k.reason for k in cut.kept}
    assert reasons == {
        "abs": "examplejson does not take it",
        "add": "it takes float32 or float64 alone",
        "cast": "examplejson does not take it",
        "nn.softmax": "examplejson does not take it",
    }
    assert str(cut).splitlines()[0] == "examplejson gets 2 of 6 calls, in 2 functions"


@pytest.fixture(scope="module")
def npu() -> list[byoc.Region]:
    """Return the regions that a code generator with a pattern has got so far."""
    regions: list[byoc.Region] = []

    @byoc.codegen("testnpu")
    class Npu(byoc.Graph):
        operators = ("nn.relu",)

        @classmethod
        def patterns(cls) -> list[tuple[Any, ...]]:
            scaled = is_op("multiply")(wildcard(), is_constant())
            return [("testnpu.scaled", scaled, lambda call: call.checked_type.dtype == "float32")]

        def graph(self, region: byoc.Region) -> Any:
            regions.append(region)
            return {"ops": [node.op for node in region.nodes]}

        @classmethod
        def load(cls, graph: Any) -> Any:
            assert graph["ops"] == ["testnpu.scaled", "nn.relu"]
            return lambda x, scale: np.maximum(x * scale, 0)

    return regions


def test_composite_functions_are_one_node_with_their_constants(npu: list[byoc.Region]) -> None:
    x, scale = v("x", 2, 3), data(3)
    function = relay.Function([x], relay.nn.relu(relay.multiply(x, relay.const(scale))))
    cut = byoc.partition(function, "testnpu")
    assert_same(cut, function, data(2, 3))
    node = npu[-1].nodes[0]
    assert node.inner is not None and [each.op for each in node.inner.nodes] == ["multiply"]
    assert len(node.inputs) == 2 and list(npu[-1].constants) == [1]
    integers = v("i", 2, 3, dtype="int32")
    kept = byoc.partition(relay.Function([integers], relay.multiply(integers, integers)), "testnpu").kept
    assert [each.reason for each in kept] == ["no pattern of testnpu fits here, or its predicate refuses"]


def test_what_is_wrong_with_a_result_or_a_graph_is_said() -> None:
    def failing(*_: np.ndarray) -> None:
        raise KeyError("no such unit")

    made: dict[str, Any] = {}

    @byoc.codegen("testwrong")
    class Wrong(byoc.Graph):
        operators = ("exp",)

        def graph(self, region: byoc.Region) -> Any:
            return made["graph"]

        @classmethod
        def load(cls, graph: Any) -> Any:
            return made[graph]

    x = v("x", 2)
    cut = byoc.partition(relay.Function([x], relay.exp(x)), "testwrong").module
    for compute, reason in (
        (lambda x: x[:1], r"result 0 of testwrong is float32\[1\], expected float32\[2\]"),
        (lambda x: x.astype("float64"), r"result 0 of testwrong is float64\[2\], expected float32\[2\]"),
        (lambda x: (x, x), "testwrong returned 2 results where the program has 1"),
        (failing, "testwrong failed: KeyError: 'no such unit'"),
    ):
        made["graph"] = name = f"graph {len(made)}"
        made[name] = compute
        with pytest.raises(VMError, match=reason):
            run(cut, data(2))
    made["graph"] = object()
    with pytest.raises(CompileError, match="graph that testwrong made of @tvmgen_default_testwrong_main_0 is no JSON"):
        vmkit.compile(cut)
    with pytest.raises(ModelError, match=r"what is cut is a tvm.IRModule or a relay.Function, not str"):
        byoc.partition("model.onnx", "testwrong")  # type: ignore[arg-type]


def external(compiler: str, body: relay.Expr, *params: relay.Var, symbol: str = "part") -> relay.Function:
    attrs = {"Compiler": compiler, "global_symbol": symbol, "Primitive": 1}
    return relay.Function(list(params), body, attrs=attrs)


def test_functions_that_relay_registered_are_linked() -> None:
    source = c_module.module_of_c

    @tvm_ffi.register_global_func("relay.ext.testhook", override=True)
    def hook(function: relay.Function) -> tvm.runtime.Module:
        region = byoc.Region.of(str(function.attrs["global_symbol"]), function)
        code = f"""static int {region.symbol}_run(const vmkit_array* v) {{
          for (int i = 0; i < 2; ++i) ((float*)v[2].data)[i] = ((float*)v[0].data)[i] - ((float*)v[1].data)[i];
          return 0; }}"""
        return source([(region, code)])

    x, p, q = v("x", 2), v("p", 2), v("q", 2)
    part = external("testhook", relay.subtract(p, q), p, q, symbol="testhook_0")
    got = run(relay.Function([x], part(relay.exp(x), x)), np.float32([0, 1]))
    np.testing.assert_allclose(got[0], [1, np.e - 1], rtol=1e-6)


def test_what_cannot_be_linked_is_refused() -> None:
    x, p, c = v("x", 2), v("p", 2), relay.var("c", shape=(), dtype="bool")
    with pytest.raises(CompileError, match="no code generator 'ccompilr'; did you mean 'ccompiler'"):
        run(relay.Function([x], external("ccompilr", relay.exp(p), p)(x)), data(2))
    with pytest.raises(CompileError, match=r"@part is for ccompiler, which does not take nn.softmax"):
        run(relay.Function([x], external("ccompiler", relay.nn.softmax(p), p)(x)), data(2))
    flag = relay.var("flag", shape=(), dtype="bool")
    flow = relay.If(flag, p, relay.exp(p))
    with pytest.raises(CompileError, match=r"a code generator takes calls of operators .*, not If"):
        run(relay.Function([x, c], external("ccompiler", flow, p, flag)(x, c)), data(2), np.array(True))
    named = {n: external("ccompiler", relay.exp(q), q) for n, q in (("f", v("q", 2)), ("g", v("r", 2)))}
    one, other = (relay.GlobalVar(n) for n in named)
    twice = tvm.IRModule({one: named["f"], other: named["g"], "main": relay.Function([x], one(other(x)))})
    with pytest.raises(CompileError, match="@g and @f have the same global_symbol 'part'"):
        run(twice, data(2))
    with pytest.raises(CompileError, match="main itself is for another code generator"):
        run(external("ccompiler", relay.exp(p), p), data(2))
    tvm_ffi.register_global_func("relay.ext.testempty", lambda function: None, override=True)
    with pytest.raises(CompileError, match=r"relay.ext.testempty returned NoneType for @part"):
        run(relay.Function([x], external("testempty", relay.exp(p), p)(x)), data(2))


def test_a_code_generator_has_patterns_of_its_own_name() -> None:
    with pytest.raises(ModelError, match=r"patterns of 'testname' have names that begin with 'testname.', not other.x"):

        @byoc.codegen("testname")
        class Named(byoc.Graph):
            @classmethod
            def patterns(cls) -> list[tuple[Any, ...]]:
                return [("other.x", is_op("exp")(wildcard()))]

            @classmethod
            def load(cls, graph: Any) -> Any:
                return np.exp


def test_tuples_join_regions_and_are_none_by_themselves() -> None:
    @byoc.codegen("testjoin")
    class Join(byoc.Graph):
        operators = ("concatenate", "exp")

        @classmethod
        def load(cls, graph: Any) -> Any:
            assert [node["op"] for node in graph["nodes"]] == ["exp", "exp", "concatenate"]
            axis = graph["nodes"][2]["attrs"]["axis"]
            return lambda x, y: np.concatenate([np.exp(x), np.exp(y)], axis)

    x, y = v("x", 2, 2), v("y", 2, 3)
    joined = relay.Function([x, y], relay.concatenate([relay.exp(x), relay.exp(y)], axis=1))
    cut = byoc.partition(joined, "testjoin")
    assert list(cut.offloaded.values()) == [["exp", "exp", "concatenate"]]
    assert_same(cut, joined, data(2, 2), data(2, 3))
    e = relay.exp(x)
    between = relay.Function([x], relay.Tuple([relay.Tuple([e, relay.exp(relay.tanh(e))])]))
    assert list(byoc.partition(between, "testjoin").offloaded.values()) == [["exp"], ["exp"]]


@pytest.mark.parametrize(("name", "does"), [("ccompiler", "writes C"), ("examplejson_native", "computes")])
def test_what_is_for_cpus_is_not_linked_for_gpus(name: str, does: str) -> None:
    x = v("x", 2)
    cut = byoc.partition(relay.Function([x], relay.exp(x)), name)
    with pytest.raises(CompileError, match=rf"{name} {does} for a CPU, which cannot read the tensors of .* cuda"):
        vmkit.compile(cut.module, target="cuda -arch=sm_80")
