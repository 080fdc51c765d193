"""Programs of which oneDNN computes parts: what it takes, and that the results stay what they were."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from benchmarks import models, transformers
from vmkit import byoc, relay
from vmkit.byoc.onednn.library import found

try:
    importlib.import_module("vmkit.byoc.onednn.runtime")
except ImportError as error:
    pytest.skip(f"oneDNN: {error}", allow_module_level=True)

nn = relay.nn
RNG = np.random.default_rng(0)


def data(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype("float32")


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def c(*shape: int) -> relay.Constant:
    return relay.const(data(*shape))


def results(module: Any, *args: np.ndarray) -> list[np.ndarray]:
    made = vmkit.VirtualMachine(vmkit.compile(module, target="llvm")).run(*args)
    return [r.numpy() for r in (made if isinstance(made, vmkit.ADT | tuple | list) else [made])]


def assert_same(function: relay.Function | tvm.IRModule, *sets: tuple[np.ndarray, ...]) -> byoc.Partitioned:
    """Compare a function cut for oneDNN with itself, for each set of arguments; return the cut one."""
    cut = byoc.partition(function, "onednn")
    ours, plain = (vmkit.VirtualMachine(vmkit.compile(m, target="llvm")) for m in (cut.module, function))
    for args in sets:
        pairs = [
            [r.numpy() for r in (m if isinstance(m, vmkit.ADT | tuple | list) else [m])]
            for m in (ours.run(*args), plain.run(*args))
        ]
        for i, (got, want) in enumerate(zip(*pairs, strict=True)):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"result {i}")
    return cut


def operators(cut: byoc.Partitioned) -> list[str]:
    return [name for names in cut.offloaded.values() for name in names]


def test_convolutions_of_all_ranks_layouts_and_groups() -> None:
    x1, x2, x3 = v("x1", 2, 6, 9), v("x2", 1, 6, 8, 7), v("x3", 1, 2, 4, 5, 6)
    last = relay.transpose(x2, axes=[0, 2, 3, 1])
    body = [
        nn.conv1d(x1, c(4, 6, 3), padding=(2, 1), strides=2, channels=4, kernel_size=3),
        nn.conv2d(x2, c(6, 1, 3, 3), padding=(1, 2, 0, 1), groups=6, channels=6, kernel_size=(3, 3)),
        nn.conv2d(x2, c(4, 3, 3, 2), strides=(2, 1), dilation=(2, 3), groups=2, channels=4, kernel_size=(3, 2)),
        nn.conv2d(last, c(3, 3, 6, 4), data_layout="NHWC", kernel_layout="HWIO", channels=4, kernel_size=(3, 3)),
        nn.conv3d(x3, c(3, 2, 2, 3, 3), padding=(0, 1, 1), channels=3, kernel_size=(2, 3, 3)),
    ]
    cut = assert_same(
        relay.Function([x1, x2, x3], relay.Tuple(body)), (data(2, 6, 9), data(1, 6, 8, 7), data(1, 2, 4, 5, 6))
    )
    assert cut.kept == [] and sorted(operators(cut)).count("nn.conv2d") == 3


def test_what_follows_is_computed_with_convolutions_and_products() -> None:
    n = tvm.tirx.Var("n", "int64")
    x, y = v("x", n, 8, 6, 6), v("y", n, 3, 8)
    one = relay.add(nn.conv2d(x, c(8, 8, 3, 3), padding=(1, 1)), c(8, 1, 1))
    act = nn.relu(one)
    summed = nn.leaky_relu(relay.add(nn.bias_add(nn.conv2d(act, c(8, 8, 1, 1)), c(8)), act), 0.1)
    twice = relay.add(nn.conv2d(summed, c(8, 8, 1, 1)), summed)  # and needed again, so it must not be written over
    same = nn.softmax(relay.add(nn.conv2d(twice, c(8, 8, 1, 1)), twice))  # what is added is what it reads
    clipped = relay.clip(nn.conv2d(twice, c(4, 8, 1, 1)), -0.5, 0.5)
    layer = relay.add(c(16), nn.dense(y, c(16, 8)))
    half = relay.multiply(layer, relay.add(relay.erf(relay.divide(layer, relay.const(2.0**0.5))), relay.const(1.0)))
    gelu = relay.multiply(half, relay.const(0.5))
    swish = nn.dense(gelu, c(8, 16))
    swish = relay.multiply(relay.sigmoid(swish), swish)
    scaled = relay.add(nn.dense(swish, c(8, 8)), relay.const(2.0))
    function = relay.Function([x, y], relay.Tuple([clipped, relay.add(same, summed), scaled]))
    sets = [(data(m, 8, 6, 6), data(m, 3, 8)) for m in (2, 1, 2)]
    cut = assert_same(function, *sets)
    assert cut.kept == []
    assert sorted(operators(cut)) == [
        "add",
        "nn.softmax",
        "onednn.convolution_activation",
        "onednn.convolution_bias",
        "onednn.convolution_bias",
        "onednn.convolution_bias_activation",
        "onednn.convolution_bias_sum_activation",
        "onednn.product_activation",
        "onednn.product_bias",
        "onednn.product_bias_activation",
    ]


def test_products_of_stacks_and_of_seen_factors() -> None:
    q, k = v("q", 2, 5, 3, 4), v("k", 2, 6, 3, 4)
    n = relay.Any()
    m = v("m", 1, n, 4)
    left, right = (relay.transpose(t, axes=[0, 2, 1, 3]) for t in (q, k))
    flat = [relay.reshape(t, (6, -1, 4)) for t in (left, right)]
    scores = nn.softmax(relay.divide(relay.reshape(nn.batch_matmul(*flat), (2, 3, 5, 6)), relay.const(2.0)), axis=-1)
    body = [
        relay.transpose(scores, axes=[0, 2, 1, 3]),
        nn.batch_matmul(m, flat[0]),
        nn.batch_matmul(flat[0], c(1, 4, 3), transpose_b=False),
        nn.matmul(relay.reshape(m, (-1, 4)), relay.reshape(m, (-1, 4)), transpose_a=True),
        nn.dense(relay.transpose(q, axes=[0, 2, 1, 3]), c(7, 4)),
    ]
    function = relay.Function([q, k, m], relay.Tuple(body))
    cut = assert_same(function, *[(data(2, 5, 3, 4), data(2, 6, 3, 4), data(1, rows, 4)) for rows in (3, 1)])
    assert cut.kept == []


def test_pools_and_normalisations() -> None:
    x, y = v("x", 2, 3, 9, 8), v("y", 2, 4, 6)
    stats = [c(3), c(3), c(3), relay.const(np.abs(data(3)) + 0.1)]
    normal = nn.batch_norm(x, *stats)[0]
    body = [
        nn.max_pool2d(x, pool_size=(3, 2), strides=(2, 2), padding=(1, 0), ceil_mode=True),
        nn.avg_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)),
        nn.avg_pool2d(x, pool_size=(3, 3), strides=(2, 1), padding=(1, 1), count_include_pad=True),
        nn.max_pool2d(relay.transpose(x, axes=[0, 2, 3, 1]), pool_size=(2, 2), strides=(1, 1), layout="NHWC"),
        nn.global_avg_pool2d(x),
        nn.max_pool1d(y, pool_size=(2,), strides=(2,), dilation=(2,)),
        nn.relu(normal),
        nn.batch_norm(nn.max_pool2d(x, pool_size=(2, 2)), *stats, scale=False, epsilon=1e-3)[0],
        nn.layer_norm(y, c(6), c(6)),
        nn.layer_norm(relay.transpose(y, axes=[0, 2, 1]), c(4), c(4), center=False),
        nn.softmax(y, axis=1),
        nn.log_softmax(y),
    ]
    cut = assert_same(relay.Function([x, y], relay.Tuple(body)), (data(2, 3, 9, 8), data(2, 4, 6)))
    assert cut.kept == [] and {"onednn.batch_norm", "onednn.batch_norm_relu"} <= set(operators(cut))


def test_single_elements_broadcasting_and_views_beside_what_is_worth_a_call() -> None:
    n = relay.Any()
    x, y, z = v("x", n, 4), v("y", n, 1), v("z", 4)
    soft = nn.softmax(x)
    body = [
        relay.subtract(y, soft),
        relay.divide(z, relay.exp(relay.add(soft, y))),
        relay.maximum(relay.minimum(soft, z), relay.negative(soft)),
        relay.sqrt(relay.abs(relay.multiply(relay.expand_dims(soft, 0), relay.log(relay.add(soft, soft))))),
        relay.concatenate([soft, relay.tanh(soft)], axis=1),
        nn.bias_add(relay.transpose(soft), relay.reshape(y, (-1,)), axis=1),
    ]
    function = relay.Function([x, y, z], relay.Tuple(body))
    cut = assert_same(function, *[(data(rows, 4), data(rows, 1), data(4)) for rows in (3, 1)])
    assert len(operators(cut)) == 19 and cut.kept == []


def test_layouts_are_kept_between_operators_and_weights_are_packed_once(capfd: pytest.CaptureFixture[str]) -> None:
    x = v("x", 1, 16, 12, 12)
    layer = nn.relu(nn.conv2d(x, c(16, 16, 3, 3), padding=(1, 1)))
    layer = relay.add(nn.conv2d(layer, c(16, 16, 3, 3), padding=(1, 1)), layer)
    body = nn.softmax(nn.batch_flatten(nn.max_pool2d(layer, pool_size=(2, 2))))
    exe = vmkit.compile(byoc.partition(relay.Function([x], body), "onednn").module, target="llvm")
    machines = [vmkit.VirtualMachine(exe) for _ in range(2)]
    library = ctypes.CDLL(str(found()[1] / "libdnnl.so.3"))
    assert library.dnnl_set_verbose(1) == 0
    for machine in (*machines, machines[0]):
        machine.run(data(1, 16, 12, 12))
    library.dnnl_set_verbose(0)
    ran = [line.split(",") for line in capfd.readouterr().out.splitlines() if ",exec," in line]
    kinds = [next(part for part in line if part in KINDS) for line in ran]
    one_run = kinds[2 : 2 + (len(kinds) - 2) // 3]
    assert kinds == ["reorder", "reorder", *one_run * 3], "two weights are packed, once for all machines"
    assert [kind for kind in one_run if kind != "reorder"] == ["convolution", "convolution", "pooling", "softmax"]
    # One at each edge and, as the library chooses on some processors, one between two convolutions; not one for each.
    assert one_run.count("reorder") <= 3


KINDS = ("convolution", "pooling", "reorder", "softmax")


def test_batches_of_nothing_are_computed() -> None:
    x = v("x", relay.Any(), 3, 5, 5)
    body = nn.relu(nn.conv2d(x, c(4, 3, 3, 3)))
    function = relay.Function([x], nn.dense(nn.batch_flatten(body), c(2, 36)))
    assert_same(function, (data(0, 3, 5, 5),), (data(2, 3, 5, 5),))


def test_calls_at_the_same_time_and_of_many_shapes_do_not_meet() -> None:
    x, w = v("x", relay.Any(), 16), data(16, 16)
    function = relay.Function([x], nn.softmax(nn.dense(nn.relu(nn.dense(x, relay.const(w))), relay.const(w))))
    exe = vmkit.compile(byoc.partition(function, "onednn").module, target="llvm")
    wrong: list[int] = []

    def work(seed: int) -> None:
        machine, random = vmkit.VirtualMachine(exe, num_threads=1 + seed % 2), np.random.default_rng(seed)
        for rows in [*range(1, 40), 3, 7]:
            a = random.uniform(-1, 1, (rows, 16)).astype("float32")
            z = np.maximum(a @ w.T, 0) @ w.T
            want = np.exp(z - z.max(1, keepdims=True))
            want /= want.sum(1, keepdims=True)
            if not np.allclose(machine.run(a).numpy(), want, rtol=1e-4, atol=1e-6):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_regions_in_a_loop_beside_those_of_another_library(tmp_path: Path) -> None:
    x, n = v("x", relay.Any(), 4), v("n", dtype="int32")
    i, s, loop = v("i", dtype="int32"), v("s", relay.Any(), 4), relay.Var("loop")
    one, w = relay.const(1, "int32"), data(4, 4)
    step = nn.softmax(nn.relu(nn.dense(s, relay.const(w))))
    body = relay.If(relay.less(i, one), s, loop(i - one, step))
    looped = relay.Let(loop, relay.Function([i, s], body, x.type_annotation), loop(n, x))
    double = relay.cast(x, "float64")
    function = relay.Function([x, n], relay.Tuple([looped, nn.dense(double, relay.const(w.astype("float64")))]))
    first = byoc.partition(function, "onednn")
    assert operators(first) == ["onednn.product_activation", "nn.softmax"]
    has_blas = importlib.util.find_spec("scipy_openblas32") is not None
    both = byoc.partition(first.module, "openblas").module if has_blas else first.module
    exe, a = vmkit.compile(both, target="llvm"), data(3, 4)
    exe.export(tmp_path / "model.vmx")
    want = results(function, a, np.array(2, "int32"))
    np.savez(tmp_path / "arrays.npz", a=a, looped=want[0], product=want[1])
    environment = {k: e for k, e in os.environ.items() if k in ("PATH", "HOME", "TVM_FFI_CACHE_DIR")}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "TVM_NUM_THREADS": "1", "ONEDNN_ROOT": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FRESH], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "equal\n", done.stderr


FRESH = """
import os, numpy as np, vmkit
try:
    vmkit.load("model.vmx")
except vmkit.errors.ExecutableError as error:
    assert "load_from_bytes.onednn" in str(error) and "pip install 'vmkit[onednn]'" in str(error), error
else:
    raise AssertionError("a missing library is an error when the file is loaded")
del os.environ["ONEDNN_ROOT"]
arrays = np.load("arrays.npz")
got = vmkit.VirtualMachine(vmkit.load("model.vmx")).run(arrays["a"], np.array(2, "int32"))
np.testing.assert_allclose(got[0].numpy(), arrays["looped"], rtol=1e-4)
np.testing.assert_allclose(got[1].numpy(), arrays["product"], rtol=1e-4)
print("equal")
"""


WHOLE = """
import numpy as np, vmkit
*args, want = np.load("arrays.npz").values()
made = vmkit.VirtualMachine(vmkit.load("model.vmx")).run(*args)
np.testing.assert_array_equal((made if hasattr(made, "numpy") else made[0]).numpy(), want)
print("equal")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["resnet50", "bert_base"])
def test_whole_models(name: str, tmp_path: Path) -> None:
    if name == "resnet50":
        model, sizes = models.load("resnet50"), [(1,), (2,)]
        assert model is not None
        changed, shapes = models.with_batch(model, "n")
        mod = relay.frontend.from_onnx(changed, shapes)[0]
        sets = [tuple(models.batched_inputs(changed, *size).values()) for size in sizes]
    else:
        mod = relay.frontend.from_onnx(transformers.encoder(layers=12))[0]
        sets = [tuple(transformers.encoder_inputs(*size).values()) for size in ((1, 16), (2, 64))]
    cut = assert_same(mod, *sets)
    exe = vmkit.compile(cut.module, target="llvm")
    made = vmkit.VirtualMachine(exe).run(*sets[0])
    np.savez(tmp_path / "arrays.npz", *sets[0], (made if hasattr(made, "numpy") else made[0]).numpy())
    exe.export(tmp_path / "model.vmx")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", WHOLE], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "equal\n", done.stderr
    taken_, stays = sum(map(len, cut.offloaded.values())), {k.operator for k in cut.kept}
    if name == "resnet50":
        assert stays == set() and taken_ == 58
    else:  # what looks up the words and says which of them count
        assert len(cut.offloaded) == 1 and not stays & {"nn.dense", "nn.batch_matmul", "nn.layer_norm", "nn.softmax"}
