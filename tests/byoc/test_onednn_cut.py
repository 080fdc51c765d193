"""What is cut for oneDNN, and why the rest is not; the library itself is not needed for that."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

import vmkit
from benchmarks import transformers
from vmkit import byoc, relay
from vmkit.byoc.onednn.graph import graph_of
from vmkit.byoc.onednn.library import found
from vmkit.byoc.onednn.operators import taken
from vmkit.errors import CompileError

nn = relay.nn


def v(name: str, *shape: int | relay.Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def c(*shape: int) -> relay.Constant:
    return relay.const(np.ones(shape, "float32"))


def operators(body: relay.Expr) -> list[str]:
    cut = byoc.partition(relay.Function(relay.analysis.free_vars(body), body), "onednn")
    return [name for names in cut.offloaded.values() for name in names]


def test_a_region_is_a_graph_of_primitives_with_what_follows_them() -> None:
    x = v("x", 1, 4, 8, 8)
    made = relay.add(nn.bias_add(nn.conv2d(x, c(4, 4, 3, 3), padding=(1, 1)), c(4)), x)
    function = relay.Function([x], relay.clip(made, 0.0, 6.0))
    module = byoc.partition(function, "onednn").module
    (part,) = [f for f in module.functions.values() if f.attrs.get("Compiler")]
    graph = json.loads(json.dumps(graph_of(byoc.Region.of("f", part))))
    (node,) = graph["nodes"]
    assert graph["arguments"] == [0, 1, 2] and graph["constants"] == [1, 2] and node["kind"] == "convolution"
    assert (node["attrs"]["padding_before"], node["attrs"]["groups"]) == ([1, 1], 1)
    assert [(after["op"], after["beta"], after["operand"]) for after in node["after"]] == [
        ("bias", 0.0, 2),
        ("sum", 0.0, 0),
        ("clip", 6.0, -1),
    ]


def test_what_is_added_must_be_a_bias_or_a_tensor_like_the_result() -> None:
    x, y = v("x", 1, 4, 8, 8), v("y", 4, relay.Any(), 8)
    conv = nn.conv2d(x, c(4, 4, 1, 1))
    assert operators(relay.add(conv, v("rows", 1, 1, 8, 1))) == ["nn.conv2d", "add"]
    assert operators(relay.add(nn.dense(y, c(8, 8)), v("z", 1, relay.Any(), 8))) == ["nn.dense", "add"]
    other = nn.conv2d(x, c(4, 4, 1, 1))
    assert sorted(operators(nn.relu(relay.add(conv, other)))) == ["nn.conv2d", "onednn.convolution_bias_activation"]
    half = nn.conv2d(
        v("h", 1, 4, 8, 8, dtype="float16"), relay.const(np.ones((4, 4, 1, 1), "float16")), out_dtype="float32"
    )
    assert operators(relay.add(nn.bias_add(conv, c(4)), half)) == ["onednn.convolution_bias", "add"]
    both = operators(relay.Tuple([nn.relu(conv), conv]))  # a result that is needed by itself
    assert sorted(both) == ["nn.conv2d", "nn.relu"]


def test_scales_paddings_and_flat_rows_are_folded_before_the_cut() -> None:
    x, s = v("x", 1, 4, 9, 9), relay.var("s", relay.TensorType((tvm.tirx.Var("b", "int64"), 3, 8)))
    padded = nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    normal = nn.batch_norm(nn.conv2d(padded, c(6, 4, 3, 3)), c(6), c(6), c(6), c(6))[0]
    assert operators(nn.relu(normal)) == ["onednn.convolution_bias_activation"]
    batch = s.type_annotation.shape[0]
    flat = nn.dense(relay.reshape(s, (batch * 3, 8)), c(5, 8))
    assert operators(relay.add(relay.reshape(flat, (batch, 3, 5)), c(5))) == ["onednn.product_bias"]


def test_cheap_operators_stay_with_kernels_that_fuse_them() -> None:
    x = v("x", 2, 2)
    cut = byoc.partition(relay.Function([x], relay.exp(x + x)), "onednn")
    assert cut.offloaded == {}
    assert {k.reason for k in cut.kept} == {"what onednn takes around it is not worth a call"}


def test_what_is_not_taken_says_why() -> None:
    x, i = v("x", 1, 4, 5, 5), v("i", 2, 3, dtype="int32")
    gelu = relay.multiply(
        relay.multiply(x, relay.add(relay.erf(relay.divide(x, relay.const(1.0))), relay.const(1.0))), relay.const(0.5)
    )
    reasons = {
        "it takes float32 alone, not int32": nn.dense(i, i),
        "which it chooses itself": nn.max_pool2d(v("b", 1, 1, 5, 5, 4), pool_size=(2, 2), layout="NCHW4c"),
        "it counts padding": nn.avg_pool2d(x, pool_size=(2, 2), ceil_mode=True, count_include_pad=True),
        "padded by more than a window": nn.max_pool2d(x, pool_size=(2, 2), padding=(2, 2)),
        "the last of 2 to 5 axes": nn.layer_norm(x, c(4), c(4), axis=1),
        "more than one of its dimensions": nn.batch_flatten(v("r", *[relay.Any()] * 3)),
    }
    for reason, call in reasons.items():
        typed = relay.transform.InferType()(
            tvm.IRModule({"main": relay.Function(relay.analysis.free_vars(call), call)})
        )
        found = taken(typed["main"].body)
        assert isinstance(found, str) and reason in found, (reason, found)
    assert "onednn.gelu" not in operators(nn.softmax(gelu))


def test_an_older_or_other_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_ROOT", str(tmp_path))
    with pytest.raises(ImportError, match=r"oneDNN is not installed .* pip install 'vmkit\[onednn\]'"):
        found()
    headers = tmp_path / "include" / "oneapi" / "dnnl"
    headers.mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdnnl.so").touch()
    (headers / "dnnl_config.h").write_text("#define DNNL_CPU_RUNTIME DNNL_RUNTIME_SYCL\n")
    (headers / "dnnl_version.h").write_text("#define DNNL_VERSION_MAJOR 2\n")
    with pytest.raises(ImportError, match="is of version 2, not 3"):
        found()
    (headers / "dnnl_version.h").write_text("#define DNNL_VERSION_MAJOR 3\n")
    with pytest.raises(ImportError, match="computes by DNNL_RUNTIME_SYCL, not by OpenMP"):
        found()


def test_all_layers_of_an_encoder_of_any_size_are_one_region() -> None:
    mod = relay.frontend.from_onnx(transformers.encoder(layers=2, hidden=8, heads=2, inner=16))[0]
    cut = byoc.partition(mod, "onednn")
    ((names,), stays) = cut.offloaded.values(), {k.operator for k in cut.kept}
    assert names.count("onednn.product_bias_sum") == 4 and names.count("nn.softmax") == 2
    assert not stays & {"reshape", "transpose", "nn.dense", "nn.batch_matmul", "nn.layer_norm"}


def test_without_the_library_compiling_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_ROOT", str(tmp_path))
    monkeypatch.delitem(sys.modules, byoc.onednn.OneDNN.runtime, raising=False)
    x = v("x", 2, 3)
    cut = byoc.partition(relay.Function([x], nn.softmax(x)), "onednn")
    with pytest.raises(CompileError, match=r"oneDNN is not installed .* pip install 'vmkit\[onednn\]'"):
        vmkit.compile(cut.module, target="llvm")
