"""What is known of a processor and of a GPU by their targets."""

from __future__ import annotations

import pytest
from tvm.target import Target

from vmkit.target.gpu import gpu_of
from vmkit.target.llvm import description_of
from vmkit.target.processor import CACHES, MATRIX_CACHES, Caches, cores_of, processor_of
from vmkit.target.vectors import VectorUnit

KIB = 1024


def cpu(name: str, triple: str = "x86_64-linux-gnu", **options: object) -> Target:
    return Target({"kind": "llvm", "mtriple": triple, "mcpu": name, **options})


@pytest.mark.parametrize(
    ("target", "vectors"),
    [
        (cpu("x86-64"), VectorUnit(4, 8, 16)),
        (cpu("haswell"), VectorUnit(8, 12, 16)),
        (cpu("skylake-avx512"), VectorUnit(16, 16, 32)),
        (cpu("znver4"), VectorUnit(16, 16, 32, passes=2)),
        (cpu("znver5"), VectorUnit(16, 16, 32)),
        (cpu("znver4", mattr=["-avx512f"]), VectorUnit(8, 12, 16)),
        (cpu("znver4", **{"vector-width": 256}), VectorUnit(8, 12, 16)),
        (cpu("znver4", **{"vector-width": 512}), VectorUnit(16, 16, 32, passes=2)),
        (cpu("cortex-a72", "aarch64-linux-gnu"), VectorUnit(4, 16, 28)),
        (cpu("", "riscv64-linux-gnu"), VectorUnit(4, 8, 16)),
    ],
    ids=[
        "x86-64",
        "AVX2",
        "AVX-512",
        "AVX-512 in halves",
        "AVX-512 of Zen 5",
        "without it",
        "256 bits",
        "512 bits",
        "NEON",
        "another",
    ],
)
def test_the_vector_unit_follows_from_features(target: Target, vectors: VectorUnit) -> None:
    assert processor_of(target).vectors == vectors


@pytest.mark.parametrize(
    ("name", "lanes", "group", "has_tiles", "permutes_bytes"),
    [
        ("haswell", 8, 2, False, False),
        ("skylake-avx512", 16, 2, False, False),
        ("cascadelake", 16, 4, False, False),
        ("znver4", 16, 4, False, True),
        ("sapphirerapids", 16, 4, True, True),
    ],
)
def test_the_integer_unit_is_the_best_of_those_that_there_are(
    name: str, lanes: int, group: int, has_tiles: bool, permutes_bytes: bool
) -> None:
    unit = processor_of(cpu(name)).integers
    assert unit is not None and (unit.lanes, unit.group, unit.has_tiles) == (lanes, group, has_tiles)
    assert unit.permutes_bytes == permutes_bytes


def test_a_matrix_unit_is_for_programs_on_linux() -> None:
    assert processor_of(cpu("sapphirerapids")).matrix is not None
    assert processor_of(cpu("sapphirerapids", "x86_64-pc-windows-msvc")).matrix is None
    assert processor_of(cpu("znver4")).matrix is None


def test_a_processor_without_special_instructions_has_none() -> None:
    found = processor_of(cpu("cortex-a72", "aarch64-linux-gnu"))
    assert (found.integers, found.matrix, found.cores) == (None, None, 1)


def test_cores_are_those_that_the_target_says() -> None:
    assert processor_of(cpu("znver4", **{"num-cores": 6})).cores == cores_of(cpu("", **{"num-cores": 6})) == 6


def test_parts_of_caches_are_in_bytes() -> None:
    assert Caches(32 * KIB, 1024 * KIB, 64) == CACHES and MATRIX_CACHES.second == 2048 * KIB
    parts = {
        "three_quarters_of_first": 24,
        "sixteenth_of_second": 64,
        "quarter_of_second": 256,
        "half_of_second": 512,
        "five_eighths_of_second": 640,
        "three_quarters_of_second": 768,
    }
    assert {name: getattr(CACHES, name) // KIB for name in parts} == parts
    assert (MATRIX_CACHES.sixteenth_of_second, MATRIX_CACHES.half_of_second) == (128 * KIB, 1024 * KIB)


def test_a_target_is_described_as_llvm_asks_for_it() -> None:
    target = cpu("znver4", mattr=["-avx512f", "+aes"])
    assert description_of(target) == ("x86_64-linux-gnu", "znver4", ("-avx512f", "+aes"))


@pytest.mark.parametrize(
    ("arch", "multiprocessors", "has_tensor_cores"),
    [("sm_61", 80, False), ("sm_70", 80, True), ("sm_80", 108, True), ("sm_85", 108, True), ("sm_90a", 132, True)],
)
def test_a_gpu_is_as_the_nearest_one_below(arch: str, multiprocessors: int, has_tensor_cores: bool) -> None:
    gpu = gpu_of(Target({"kind": "cuda", "arch": arch}))
    assert (gpu.multiprocessors, gpu.has_tensor_cores, gpu.vector) == (multiprocessors, has_tensor_cores, 16)


def test_a_gpu_has_the_limits_that_its_target_says() -> None:
    target = Target({"kind": "vulkan", "max_num_threads": 128, "max_shared_memory_per_block": 16384})
    assert (gpu_of(target).threads, gpu_of(target).shared, gpu_of(target).vector) == (128, 16384, 4)


@pytest.mark.parametrize(
    ("distance", "lines"),
    [(64, 512), (196, 512), (784, 512), (128, 256), (2304, 128), (2048, 16), (4096, 8), (65536, 8)],
)
def test_lines_that_lie_a_power_of_two_apart_share_places(distance: int, lines: int) -> None:
    assert CACHES.lines_apart(distance) == lines
