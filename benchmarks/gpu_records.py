"""Records for the class ``cuda`` that are computed, not measured: made on a machine with CUDA's compiler and no GPU.

    python -m benchmarks.gpu_records vmkit/tophub/records/cuda.json

The kernels are the matrix products and convolutions of ResNet-50, for one image and for any number, and of BERT-base,
for one text of 128 words and for any. Decisions are ranked by the model of `vmkit.schedule.gpu.occupancy`; the best few
are compiled and ranked again with the registers that a thread takes, those that spill left out. A record that
`vmkit.tophub.tune` measures on a GPU replaces one of these.
"""

from __future__ import annotations

import datetime
import logging
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm.target import Target

from benchmarks import transformers
from benchmarks.models import load, with_batch
from vmkit._version import __version__
from vmkit.compiler import to_module
from vmkit.relay import transform
from vmkit.schedule import gpu
from vmkit.schedule.gpu import tensor_tiles, tiles
from vmkit.schedule.gpu.occupancy import resident_blocks, seconds
from vmkit.schedule.gpu.product import product_of
from vmkit.target import canonical_target
from vmkit.target.gpu import gpu_of
from vmkit.tophub import Record, Records, target_class
from vmkit.tuning.extract import Kernel, kernels_of

logger = logging.getLogger(__name__)

ARCH = "sm_80"
COMPILED = 2  # decisions of each kernel whose registers are looked at
RULES = {tiles.RULE.name: tiles, tensor_tiles.RULE.name: tensor_tiles}


def models() -> Iterator[tuple[tvm.IRModule, Any]]:
    """Yield the models, each with its parameters, in float32 and then in float16."""
    resnet, bert = load("resnet50"), transformers.encoder(layers=1)
    assert resnet is not None
    words = {"ids": [1, 128], "mask": [1, 128]}
    loaded = [
        to_module(model, shapes=shapes)
        for model, shapes in ((bert, words), (bert, None), (resnet, None), with_batch(resnet, "n"))
    ]
    yield from loaded
    for module, params in loaded:
        yield transform.ToMixedPrecision("float16")(transform.InferType()(module)), params


def record_of(kernel: Kernel, target: Target) -> Record | None:
    """Return the record of a kernel of matrix products; None for others."""
    if kernel.rule.name not in RULES:
        return None
    own, limits = RULES[kernel.rule.name], gpu_of(target)
    schedule = gpu.prepared(kernel.function)
    product = product_of(schedule)
    assert product is not None
    sizes = tiles.sizes_of(product)

    def modelled(decisions: Any, registers: int | None = None) -> float:
        return seconds(sizes, own.tile_of(product, decisions, limits, registers), limits)

    default = kernel.rule.decide(schedule, target)
    ranked = sorted(kernel.rule.candidates(schedule, target), key=modelled)
    found: list[tuple[float, Any, int]] = []
    for decisions in dict.fromkeys([default, *ranked[:COMPILED]]):
        registers = registers_of(gpu.scheduled(schedule, kernel.rule, target, decisions), target)
        if registers is not None:
            found.append((modelled(decisions, registers), decisions, registers))
    if not found:
        return None
    taken, decisions, registers = min(found, key=lambda each: each[0])
    of_default = next((s for s, d, _ in found if d == default), math.inf)
    blocks = resident_blocks(own.tile_of(product, decisions, limits, registers), limits)
    return Record(
        kernel.workload,
        kernel.rule.to_json(decisions),
        target_class(target),
        ARCH,
        float(f"{of_default if math.isfinite(of_default) else modelled(default) * 2:.4g}"),
        float(f"{taken:.4g}"),
        __version__,
        version("apache-tvm"),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        f"occupancy model, {ARCH}: {registers} registers by ptxas, {blocks} blocks on a multiprocessor",
    )


def registers_of(function: tirx.PrimFunc, target: Target) -> int | None:
    """Return how many registers a thread of a kernel takes, by CUDA's assembler; None if they do not suffice."""
    module = tvm.compile(tvm.IRModule({"kernel": function.with_attr("global_symbol", "kernel")}), target).mod
    source = next(each.inspect_source() for each in module.imports if each.kind.startswith("cuda"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source)
        command = ["nvcc", f"-arch={ARCH}", "-cubin", "-Xptxas", "-v", str(path), "-o", f"{folder}/kernel.cubin"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    if any(int(count) for count in re.findall(r"(\d+) bytes spill", said)):
        return None
    return max(int(count) for count in re.findall(r"Used (\d+) registers", said))


def main(path: Path) -> None:
    """Write the records to a file, those that were measured kept."""
    target = canonical_target(f"cuda -arch={ARCH}").primary
    known = Records.read(path) if path.exists() else Records()
    records = Records([record for record in known if record.basis == "measured"])
    for module, params in models():
        for kernel in kernels_of(module, target, params):
            if records.exact(kernel.workload, target_class(target)) is None:
                made = record_of(kernel, target)
                records += Records([made] if made is not None else [])
                logger.info("%s: %s", kernel.name, None if made is None else made.decisions)
                records.write(path)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1]))
