"""What models take of a Cortex-M4 as C, in bytes and instructions: ``python -m benchmarks.microcontroller [names]``.

The peer is emx-onnx-cgen (``pip install emx-onnx-cgen``), which writes C of ONNX models as well; where it is not
installed, its rows are left out. Both are built by arm-none-eabi-gcc with the same options, run by qemu-system-arm,
which counts instructions, and compared.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import vmkit
from tests.mlf.machines import CORTEX_M4, build_for, built_with
from tests.mlf.networks import ds_cnn, quantized, quantized_cnn
from tests.places import TOP

PEER = "emx-onnx-cgen"
OBJECT = "llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4 -mfloat-abi=hard"
NETWORKS: dict[str, Callable[[Path], onnx.ModelProto]] = {
    "mnist": lambda _: onnx.load(TOP / "vmkit" / "data" / "mnist.onnx"),
    "ds-cnn": lambda _: ds_cnn(),
    "int8 ds-cnn": lambda folder: quantized(ds_cnn(), folder),
    "int8 cnn": lambda _: quantized_cnn(),
}
HEADER = (
    "model",
    "C by",
    "flash, bytes",
    "memory, bytes",
    "instructions",
    "of the peer's flash",
    "of its instructions",
)


@dataclass(frozen=True)
class Row:
    """What a model takes; `memory` is what is written beside inputs and outputs, be it static or on the stack."""

    flash: int
    memory: int
    instructions: int
    outputs: Sequence[np.ndarray]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.microcontroller", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"by default all: {', '.join(NETWORKS)}")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in NETWORKS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    print(_line(HEADER), _line(["---"] * len(HEADER)), sep="\n", flush=True)
    for name in given.names or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            _print_rows(name, Path(folder))
    return 0


def _print_rows(name: str, folder: Path) -> None:
    model = NETWORKS[name](folder)
    inputs = _inputs(model)
    rows = {"vmkit": _vmkit(model, inputs, folder / "c"), "vmkit, LLVM": _vmkit(model, inputs, folder / "o", OBJECT)}
    peer = None
    if shutil.which(PEER):
        peer = rows[PEER] = _peer(model, inputs, folder / "peer")
    expected = vmkit.VirtualMachine(vmkit.compile(model, "llvm"), "cpu", num_threads=1).run(*inputs).numpy().ravel()
    # A number of 8 bits may be the next one, as the peer computes with floats.
    tolerance = 1 if expected.dtype.kind in "iu" else 0.01 if "int8" in name else 1e-4 * np.abs(expected).max()
    for by, row in rows.items():
        np.testing.assert_allclose(row.outputs[0].astype("float64"), expected, rtol=0, atol=tolerance)
        ratios = ["", ""] if peer is None or row is peer else _ratios(row, peer)
        print(_line([name, by, f"{row.flash:,}", f"{row.memory:,}", f"{row.instructions:,}", *ratios]), flush=True)


def _ratios(row: Row, peer: Row) -> list[str]:
    return [f"{row.flash / peer.flash:.2f}", f"{row.instructions / peer.instructions:.2f}"]


def _inputs(model: onnx.ModelProto) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    weights = {each.name for each in model.graph.initializer}
    made = []
    for each in model.graph.input:
        if each.name not in weights:
            shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
            is_float = dtype.kind == "f"
            made.append(rng.random(shape).astype(dtype) if is_float else rng.integers(0, 256, shape).astype(dtype))
    return made


def _vmkit(model: onnx.ModelProto, inputs: list[np.ndarray], folder: Path, target: str = "c") -> Row:
    folder.mkdir()
    vmkit.mlf.export(model, folder / "model.tar", model_name="net", target=target)
    firmware = build_for(CORTEX_M4, folder / "model.tar", "net")
    outputs = firmware.run(*inputs)
    flash, memory = firmware.sizes()
    return Row(flash, memory, firmware.instructions, outputs)


def _peer(model: onnx.ModelProto, inputs: list[np.ndarray], folder: Path) -> Row:
    """Return what the peer's C takes, all of whose memory is on the stack."""
    vmkit.mlf.export(model, folder.with_suffix(".tar"), model_name="net")  # for the names of the wrapper
    vmkit.mlf.load(folder.with_suffix(".tar")).extract(folder)
    source = folder / "codegen/host/src/net_lib0.c"
    for each in source.parent.glob("*.c"):
        each.unlink()
    onnx.save(model, folder / "model.onnx")
    options = ["--large-weight-threshold", "0", "--large-temp-threshold", "0", "--restrict-arrays"]
    command = [PEER, "compile", str(folder / "model.onnx"), str(source), "--model-name", "net", *options]
    subprocess.run(command, check=True, capture_output=True)
    head = re.search(r"^void net\((.*?)\) \{", source.read_text(), re.M | re.S)
    assert head is not None
    (folder / "runtime/src/tvm_wrapper.c").write_text(_wrapper(head[1]))
    firmware = built_with(CORTEX_M4, folder, "net", ("-fstack-usage",))
    outputs = firmware.run(*inputs)
    frames = [line.split("\t")[:2] for line in source.with_suffix(".su").read_text().splitlines()]
    return Row(firmware.sizes()[0], max(int(size) for _, size in frames), firmware.instructions, outputs)


def _wrapper(params: str) -> str:
    """Return the functions of the wrapper for the peer's entry of one input and one output."""
    plain = params.replace("restrict ", "")
    (given, image), (made, result) = re.findall(r"(\w+) (\w+(?:\[\d+\])+)", plain)
    lines = ["#include <stdint.h>", '#include "tvm_wrapper.h"', f"void net({plain});"]
    for side, ctype, declared in (("Input", given, image), ("Output", made, result)):
        name = declared.partition("[")[0]
        lines += [
            f"static {ctype} {declared};",
            f"size_t TVMWrap_GetNum{side}s(void) {{ return 1; }}",
            f"void* TVMWrap_Get{side}Ptr(int index) {{ (void)index; return {name}; }}",
            f"size_t TVMWrap_Get{side}Size(int index) {{ (void)index; return sizeof {name}; }}",
        ]
    call = f"net((const void*){image.partition('[')[0]}, {result.partition('[')[0]});"
    lines += ["int TVMWrap_Init(void) { return 0; }", f"int TVMWrap_Run(void) {{ {call} return 0; }}", ""]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
