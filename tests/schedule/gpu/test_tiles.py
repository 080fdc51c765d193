"""Matrix products and convolutions for a GPU, without one: their sources run on the CPU, barriers and all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

import vmkit
from tests.schedule.gpu.cuda_on_cpu import cuda_source, run_source
from tests.schedule.gpu.gpu_on_cpu import TARGET
from vmkit import relay, tophub
from vmkit.compiler.handed import Handed
from vmkit.compiler.options import CompilerOptions
from vmkit.compiler.pipeline import optimize_relax
from vmkit.compiler.stages import fused_kernels, to_relax
from vmkit.schedule import gpu
from vmkit.schedule.gpu import elements, tensor_tiles, tiles
from vmkit.schedule.gpu.launch import launch_problem
from vmkit.schedule.gpu.occupancy import Sizes, Tile, resident_blocks, seconds
from vmkit.target.gpu import gpu_of
from vmkit.tophub import Records, choosing
from vmkit.tophub.workload import workload_of

nn = relay.nn
m, n, k, h = (tirx.Var(name, "int64") for name in "mnkh")
# What unknown sizes are when kernels run. What an image of "h" columns loses at its ends has a name of its own.
SIZES = {"m": 37, "n": 3, "k": 21, "h": 9, "s": 9 - 2}


def conv(data: Sequence[Any], weight: Sequence[int], dtype: str = "float32", **attributes: Any) -> relay.Function:
    """Return a convolution with a bias, an input added and an activation."""
    x = relay.var("x", shape=tuple(data), dtype=dtype)
    random = np.random.default_rng(1)
    w, b = (relay.const(random.uniform(-1, 1, s).astype(dtype)) for s in (tuple(weight), (weight[0], 1, 1)))
    y = relay.add(nn.conv2d(x, w, **attributes), b)
    return relay.Function([x], nn.relu(y))


def dense(rows: Any, units: int, size: int, dtype: str = "float32") -> relay.Function:
    """Return a dense layer with GELU's neighbour, x * sigmoid(x), behind it: a sum that is used twice."""
    x = relay.var("x", shape=(rows, size), dtype=dtype)
    y = nn.dense(x, relay.const(np.random.default_rng(1).uniform(-1, 1, (units, size)).astype(dtype)))
    return relay.Function([x], relay.multiply(y, relay.sigmoid(y)))


def products(batch: Any, rows: Any, columns: Any, size: Any, dtype: str = "float32") -> relay.Function:
    """Return a batch of products."""
    x, y = (relay.var(name, shape=(batch, s, size), dtype=dtype) for name, s in (("x", rows), ("y", columns)))
    return relay.Function([x, y], nn.batch_matmul(x, y))


KERNELS: dict[str, Callable[[], relay.Function]] = {
    "conv 3x3": lambda: conv((1, 16, 9, 11), (24, 16, 3, 3), padding=(1, 1)),
    "conv 1x1 with a stride": lambda: conv((2, 16, 9, 9), (40, 16, 1, 1), strides=(2, 2)),
    "conv 7x7 of 3 channels": lambda: conv((1, 3, 17, 17), (20, 3, 7, 7), strides=(2, 2), padding=(3, 3)),
    "dilated conv": lambda: conv((1, 8, 11, 11), (20, 8, 3, 3), padding=(2, 2), dilation=(2, 2)),
    "grouped conv": lambda: conv((1, 32, 7, 7), (64, 8, 3, 3), padding=(1, 1), groups=4),
    "conv of any images": lambda: conv((n, 16, 7, 7), (24, 16, 3, 3), padding=(1, 1)),
    "conv of images of any size": lambda: conv((n, 16, h, h), (24, 16, 3, 3), padding=(1, 0)),
    "dense": lambda: dense(37, 70, 48),
    "dense of any rows": lambda: dense(m, 70, 50),
    "products": lambda: products(3, 33, 40, 24),
    "products of any sizes": lambda: products(n, m, m, 24),
    "products of any sums": lambda: products(2, 20, 24, k),
}
HALF: dict[str, Callable[[], relay.Function]] = {
    "conv": lambda: conv((1, 16, 9, 11), (24, 16, 3, 3), "float16", padding=(1, 1), strides=(2, 2)),
    "conv of any images": lambda: conv((n, 16, 7, 7), (24, 16, 3, 3), "float16", padding=(1, 1)),
    "dense": lambda: dense(37, 70, 72, "float16"),
    "products of any sizes": lambda: products(n, m, 40, 24, "float16"),
}
BY_TILES = [
    tiles.Decisions(32, 32, 16, 4, 4, 1, True),
    tiles.Decisions(64, 32, 8, 8, 4, 1, False),
    tiles.Decisions(32, 32, 8, 4, 4, 2, True),
]
BY_WARPS = [
    tensor_tiles.Decisions(32, 32, 32, 2, 1, 1, True),
    tensor_tiles.Decisions(64, 32, 16, 2, 2, 1, False),
    tensor_tiles.Decisions(32, 32, 16, 1, 2, 2, True),
]


def kernels_of(function: relay.Function) -> dict[str, tirx.PrimFunc]:
    """Return the kernels of a function, fused and not scheduled yet."""
    module = fused_kernels(function, TARGET)
    return {v.name_hint: f for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}


@cache
def kernel_of(name: str, is_half: bool = False) -> tirx.PrimFunc:
    made = kernels_of((HALF if is_half else KERNELS)[name]())
    (found,) = [f for each, f in made.items() if any(word in each for word in ("conv2d", "dense", "matmul"))]
    return found


def operands_of(kernel: tirx.PrimFunc) -> list[np.ndarray]:
    random = np.random.default_rng(0)

    def known(var: Any) -> Any:
        return tirx.IntImm(str(var.ty.dtype), SIZES[var.name])

    def size(dim: Any) -> int:
        return int(Analyzer().simplify(tvm_ffi.structural_map(dim, (tirx.Var, known))))

    return [
        random.uniform(-1, 1, [size(d) for d in param.ty.shape]).astype(str(param.ty.dtype)) for param in kernel.params
    ]


def plain_result(kernel: tirx.PrimFunc, operands: list[np.ndarray]) -> np.ndarray:
    """Return what the kernel computes as it was written."""
    run = tvm.compile(tvm.IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")}), "llvm")["kernel"]
    tensors = [tvm.runtime.tensor(operand) for operand in operands]
    run(*tensors)
    return tensors[-1].numpy()


def source_result(made: tirx.PrimFunc, operands: list[np.ndarray], folder: Path) -> np.ndarray:
    own = [*operands[:-1], np.full_like(operands[-1], np.nan)]
    run_source(made, TARGET, own, folder)
    return own[-1]


@pytest.mark.parametrize("name", KERNELS)
def test_the_source_of_tiles_computes_the_products(name: str, tmp_path: Path) -> None:
    kernel = kernel_of(name)
    plain, operands = gpu.prepared(kernel), operands_of(kernel)
    expected = plain_result(kernel, operands)
    # Sizes that are not known are never summed in parts.
    others = BY_TILES[:2] if "any" in name else BY_TILES
    chosen = others[list(KERNELS).index(name) % len(others)]
    for at, decisions in enumerate([tiles.RULE.decide(plain, TARGET), chosen]):
        made = gpu.scheduled(plain, tiles.RULE, TARGET, decisions)
        (folder := tmp_path / str(at)).mkdir()
        np.testing.assert_allclose(source_result(made, operands, folder), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.nightly  # importing TVM's intrinsics for tensor cores alone takes tens of seconds on a busy machine
@pytest.mark.parametrize("name", HALF)
def test_the_source_for_tensor_cores_computes_the_products(name: str, tmp_path: Path) -> None:
    kernel = kernel_of(name, True)
    plain, operands = gpu.prepared(kernel), operands_of(kernel)
    expected = plain_result(kernel, operands)
    others = BY_WARPS[:2] if "any" in name else BY_WARPS
    chosen = others[list(HALF).index(name) % len(others)]
    for at, decisions in enumerate([tensor_tiles.RULE.decide(plain, TARGET), chosen]):
        made = gpu.scheduled(plain, tensor_tiles.RULE, TARGET, decisions)
        (folder := tmp_path / str(at)).mkdir()
        np.testing.assert_allclose(source_result(made, operands, folder), expected, rtol=2e-3, atol=2e-3)


def test_elements_that_lie_together_are_read_and_written_together(tmp_path: Path) -> None:
    x, y = (relay.var(name, shape=(5, 9, 64)) for name in "xy")
    (kernel,) = kernels_of(relay.Function([x, y], nn.relu(relay.add(x, y)))).values()
    plain, operands = gpu.prepared(kernel), operands_of(kernel)
    made = gpu.scheduled(plain, elements.RULE, TARGET, elements.Decisions(32, 4))
    source = cuda_source(tvm.compile(tvm.IRModule({"kernel": made.with_attr("global_symbol", "kernel")}), TARGET).mod)
    assert source.count("*(float4*)") >= 3
    result = source_result(made, operands, tmp_path)
    np.testing.assert_allclose(result, plain_result(kernel, operands), rtol=1e-4, atol=1e-5)


def test_operands_are_read_sixteen_bytes_at_a_time_and_conditions_stay_out_of_the_sums() -> None:
    plain = gpu.prepared(kernel_of("conv 3x3"))
    made = gpu.scheduled(plain, tiles.RULE, TARGET, tiles.Decisions(32, 32, 16, 4, 4, 1, False))
    source = cuda_source(tvm.compile(tvm.IRModule({"kernel": made.with_attr("global_symbol", "kernel")}), TARGET).mod)
    body = source[source.index("__global__") :]
    assert body.count("*(float4*)(gv") + body.count("*(float4*)(x") >= 1
    sums = body[body.rindex("__syncthreads()") :]
    inner = sums[: sums.index("+ (left")]
    assert "if (" not in inner


CANDIDATES = [*KERNELS, *(pytest.param(f"half {each}", marks=pytest.mark.nightly) for each in HALF)]


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_can_be_launched_and_hold_the_default(name: str) -> None:
    is_half = name.startswith("half ")
    rule = tensor_tiles.RULE if is_half else tiles.RULE
    plain = gpu.prepared(kernel_of(name.removeprefix("half "), is_half))
    found = list(rule.candidates(plain, TARGET))
    assert rule.decide(plain, TARGET) in found and len(set(found)) == len(found) >= 8
    for decisions in found[:: max(1, len(found) // 2)]:
        made = gpu.scheduled(plain, rule, TARGET, decisions)
        assert launch_problem(made, TARGET) is None
        assert rule.from_json(rule.to_json(decisions)) == decisions


def test_a_block_takes_what_the_target_has() -> None:
    small = tvm.target.Target({"kind": "cuda", "arch": "sm_80", "max_shared_memory_per_block": 6000})
    plain = gpu.prepared(kernel_of("dense"))
    limits = gpu_of(small)
    assert limits.shared == 6000 and limits.multiprocessors == 108
    for decisions in tiles.RULE.candidates(plain, small):
        assert (decisions.rows + decisions.columns) * decisions.step * 4 <= 6000
    assert tensor_tiles.RULE.decide(gpu.prepared(kernel_of("dense", True)), tvm.target.Target("metal")) is None


def test_the_model_counts_blocks_registers_and_rounds() -> None:
    limits = gpu_of(TARGET)
    tile = Tile(64, 64, 16, 1, 128, 8192, 128, 48.0, 1.0, True)
    assert resident_blocks(tile, limits) == 4  # 65536 registers of 128 for each of 128 threads
    assert resident_blocks(replace(tile, registers=32, shared=40_000), limits) == 4  # 164 KiB
    assert resident_blocks(replace(tile, registers=300), limits) == 0
    half, one_round, two = (seconds(Sizes(1, 64, 64 * count, 1024), tile, limits) for count in (54, 108, 109))
    assert half == one_round < two
    assert seconds(Sizes(1, 64, 64, 8192), replace(tile, parts=8), limits) < seconds(
        Sizes(1, 64, 64, 8192), tile, limits
    )


def residual_net() -> relay.Function:
    """Return a small net as ResNet is: a stem, blocks with and without a convolution beside them, a classifier."""
    random = np.random.default_rng(0)

    def layer(x: Any, inner: int, outer: int, size: int, stride: int) -> Any:
        w = relay.const(random.uniform(-0.2, 0.2, (outer, inner, size, size)).astype("float32"))
        norms = [relay.const(random.uniform(0.5, 1, outer).astype("float32")) for _ in range(4)]
        pad = (size // 2, size // 2)
        return nn.batch_norm(nn.conv2d(x, w, strides=(stride, stride), padding=pad), *norms)[0]

    images = relay.var("images", shape=(n, 3, 32, 32))
    x = nn.max_pool2d(nn.relu(layer(images, 3, 16, 7, 2)), (3, 3), (2, 2), padding=(1, 1))
    x = nn.relu(relay.add(layer(nn.relu(layer(x, 16, 16, 3, 1)), 16, 16, 3, 1), x))
    x = nn.relu(relay.add(layer(nn.relu(layer(x, 16, 32, 3, 2)), 32, 32, 1, 1), layer(x, 16, 32, 1, 2)))
    x = nn.batch_flatten(nn.global_avg_pool2d(x))
    return relay.Function([images], nn.softmax(nn.dense(x, relay.const(np.ones((10, 32), "float32")))))


def attention_layer() -> relay.Function:
    """Return a layer as BERT has: products, softmax over rows, a normalisation."""
    random = np.random.default_rng(0)
    x, (heads, width) = relay.var("x", shape=(n, m, 32)), (2, 16)

    def linear(y: Any, inner: int, outer: int) -> Any:
        w = relay.const(random.uniform(-0.2, 0.2, (outer, inner)).astype("float32"))
        return nn.bias_add(nn.dense(y, w), relay.const(np.ones(outer, "float32")), axis=-1)

    def split(y: Any) -> Any:
        y = relay.transpose(relay.reshape(y, (0, 0, heads, width)), (0, 2, 1, 3))
        return relay.reshape(y, (-3, 0, 0))

    q, key, v = (split(linear(x, 32, 32)) for _ in range(3))
    mixed = nn.batch_matmul(nn.softmax(nn.batch_matmul(q, key)), relay.transpose(v, (0, 2, 1)))
    mixed = relay.transpose(relay.reshape(mixed, (-4, -1, heads, 0, 0)), (0, 2, 1, 3))
    y = relay.add(x, linear(relay.reshape(mixed, (0, 0, -3)), 32, 32))
    ones = relay.const(np.ones(32, "float32"))
    y = nn.layer_norm(y, ones, ones)
    return relay.Function([x], relay.add(y, linear(nn.relu(linear(y, 32, 64)), 64, 32)))


@pytest.mark.parametrize("net", [residual_net, attention_layer])
def test_every_product_of_a_net_is_computed_in_tiles_and_all_kernels_are_counted(net: Callable[[], Any]) -> None:
    lowered, _, _ = to_relax(Handed(net()), {}, TARGET, CompilerOptions())
    module = optimize_relax(lowered.module, TARGET, CompilerOptions())
    kernels = {v.name_hint: f for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
    launched = {name: f for name, f in kernels.items() if not f.attrs.get("tirx.is_host_func", False)}
    rules = {name: str(f.attrs[gpu.RULE]) for name, f in launched.items()}
    of_products = {rule for name, rule in rules.items() if any(w in name for w in ("conv2d", "dense", "matmul"))}
    assert of_products == {"gpu.tiles"}
    assert not {"gpu.spread", "gpu.loops"} & set(rules.values())
    executable = vmkit.compile(net(), target="cuda -arch=sm_80")
    assert sum(executable.info["kernels"].values()) == len(launched)
    assert cuda_source(executable.module).count("__global__ void") >= len(launched)


def test_bundled_records_are_legal_and_found() -> None:
    function = conv((1, 64, 56, 56), (64, 64, 3, 3), padding=(1, 1))
    (kernel,) = [f for each, f in kernels_of(function).items() if "conv2d" in each]
    plain = gpu.prepared(kernel)
    default = tiles.RULE.decide(plain, TARGET)
    with tophub.context(TARGET) as records:
        record = records.exact(workload_of(plain, tiles.RULE), "cuda")
        assert record is not None and record.basis.startswith("occupancy model, sm_80: ")
        how, decisions = next(iter(choosing.choose(plain, tiles.RULE, TARGET, default)))
        assert (how, tiles.RULE.to_json(decisions)) == ("tuned", record.decisions)
        larger = conv((2, 64, 56, 56), (64, 64, 3, 3), padding=(1, 1))
        (other,) = [f for each, f in kernels_of(larger).items() if "conv2d" in each]
        choices = choosing.choose(gpu.prepared(other), tiles.RULE, TARGET, default)
        assert next(iter(choices))[0] in ("generalised", "default")
    executable = vmkit.compile(function, target="cuda -arch=sm_80")
    assert executable.info["kernels"]["tuned"] == 1
    assert len(Records.read(tophub.RECORDS / "cuda.json")) >= 40


def test_other_kinds_read_one_element_at_a_time() -> None:
    plain = gpu.prepared(kernel_of("dense"))
    metal = tvm.target.Target("metal")
    made = gpu.scheduled(plain, tiles.RULE, metal, tiles.RULE.decide(plain, metal))
    vectors: list[Any] = []

    def note(loop: tirx.For) -> None:
        if int(loop.kind) == tirx.ForKind.VECTORIZED:
            vectors.append(loop)

    tvm_ffi.structural_walk(made.body, (tirx.For, note))
    assert not vectors
