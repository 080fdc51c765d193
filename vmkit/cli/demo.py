"""``vmkit demo``: the main job, from an ONNX file to a saved executable that runs at any batch size."""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vmkit.cli.exit_code import ExitCode

if TYPE_CHECKING:
    import numpy as np

    import vmkit

__all__ = ["add_arguments", "run"]

_BATCHES = ([4], [3, 1, 4, 1, 5])
_REPEATS = 20

T = TypeVar("T")

# Digits in a grid of 5 columns; each cell becomes 3 x 3 pixels.
_GLYPHS = {
    1: "00100 01100 00100 00100 00100 00100 01110",
    3: "01110 10001 00001 00110 00001 10001 01110",
    4: "00010 00110 01010 10010 11111 00010 00010",
    5: "11111 10000 11110 00001 00001 10001 01110",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit demo``."""
    parser.add_argument("--target", default="native", help="what to compile for (default: %(default)s, this machine)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the executable in FILE")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Run the demo; ``MISMATCH`` if a digit is read wrongly or its scores depend on the batch it is in."""
    with tempfile.TemporaryDirectory() as folder:
        return _demo(arguments.target, arguments.output or Path(folder) / "mnist.vmx")


def _demo(target: str, file: Path) -> ExitCode:
    import numpy as np

    import vmkit

    executable, seconds = _timed(lambda: _compile(target))
    print(f"compiled  mnist.onnx for {target} in {seconds:.2f} s")
    executable.export(file)
    executable, seconds = _timed(lambda: vmkit.load(file))
    print(f"saved     {file.name}, {file.stat().st_size / 1024:.0f} KiB; loaded in {seconds * 1000:.0f} ms")
    for what, specs in (("input", executable.inputs), ("output", executable.outputs)):
        for spec in specs:
            print(f"{what:9} {spec.name}: {spec}")

    machine = vmkit.VirtualMachine(executable, vmkit.device("cpu"))
    scores: dict[int, np.ndarray] = {}
    wrong = False
    for digits in _BATCHES:
        images = np.stack([_image(digit) for digit in digits])
        run_once = functools.partial(machine.run, images)
        milliseconds = 1000 * statistics.median(_timed(run_once)[1] for _ in range(_REPEATS))
        outputs = np.from_dlpack(run_once())
        read = outputs.argmax(axis=1).tolist()
        print(f"batch {len(digits)}   drawn {digits}, read {read}, {milliseconds:.3f} ms")
        wrong = wrong or read != digits
        for digit, row in zip(digits, outputs, strict=True):
            wrong = wrong or not np.allclose(row, scores.setdefault(digit, row), rtol=1e-3, atol=1e-2)
    if wrong:
        print("vmkit: a digit was read wrongly, or its scores depend on the batch it is in", file=sys.stderr)
        return ExitCode.MISMATCH
    return ExitCode.OK


def _compile(target: str) -> vmkit.Executable:
    import onnx

    import vmkit

    with resources.as_file(resources.files("vmkit") / "data" / "mnist.onnx") as path:
        model = onnx.load(path)
    module, params = vmkit.relay.frontend.from_onnx(model, shape={"Input3": ("n", 1, 28, 28)})
    return vmkit.compile(module, target=target, params=params)


def _image(digit: int) -> np.ndarray:
    import numpy as np

    cells = np.array([[float(cell) for cell in row] for row in _GLYPHS[digit].split()])
    drawn = np.zeros((28, 28))
    drawn[3:24, 6:21] = np.kron(cells, np.ones((3, 3)))
    shifted = [np.roll(drawn, offset, axis) for offset, axis in ((1, 0), (1, 1), (-1, 0), (-1, 1))]
    blurred = np.clip((drawn + sum(shifted)) / 3, 0, 1)
    return (255 * blurred)[None].astype("float32")


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start
