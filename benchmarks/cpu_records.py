"""Tune the kernels of the catalogue's models for a CPU: how the bundled records of its class were made.

    python -m benchmarks.cpu_records vmkit/tophub/records/x86-64-v3.json "llvm -mcpu=haswell -num-cores=1"

A file that exists is gone on with, so that a run may be ended at any time; kernels that no model has any more stay in
it until it is made anew. Networks of images are tuned for one image, and all others for every size, measured at the
second of their sizes. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import onnx

from benchmarks.catalogue import CATALOGUE, Arrays, Model, Shapes
from vmkit import tophub
from vmkit.target import canonical_target
from vmkit.tuning.extract import kernels_of, unknown_sizes


def main() -> None:
    """Tune model after model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="of records")
    parser.add_argument("target", help="a CPU that this machine's can stand for")
    parser.add_argument("models", nargs="*", help="by their names in the catalogue; all by default")
    parser.add_argument("--seconds", type=float, default=3.0, help="for how long one kernel's candidates are tried")
    options = parser.parse_args()
    for name in options.models or CATALOGUE:
        entry = CATALOGUE[name]
        model = entry.load()
        if model is None:
            print(f"{name}: its file is not here", flush=True)
            continue
        tuned, named = _to_tune(entry, model)
        kernels = kernels_of(tuned, canonical_target(options.target).primary)
        sizes = {size: named.get(size, 16) for kernel in kernels for size in unknown_sizes(kernel.function)}
        print(f"{name}: {len(kernels)} kernels, {sizes or 'one size'}", flush=True)
        tophub.tune(
            tuned, options.target, database=options.file, seconds=options.seconds, sizes=sizes,
            progress=lambda found: print(f"  {found}", flush=True),
        )  # fmt: skip


def _to_tune(entry: Model, model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Return a model, and what its unknown sizes are while its kernels run."""
    if entry.family == "convolutional":
        return entry.at(model, entry.sizes[0])[0], {}
    changed, shapes = entry.dynamic(model)
    _, inputs = entry.at(model, entry.sizes[1])
    return changed, _sizes(changed, shapes, inputs)


def _sizes(model: onnx.ModelProto, shapes: Shapes, inputs: Arrays) -> dict[str, int]:
    declared: Mapping[str, list[int | str]] = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    found = {}
    for name, array in inputs.items():
        dims = (shapes or {}).get(name) or declared[name]
        found.update({d: n for d, n in zip(dims, array.shape, strict=True) if isinstance(d, str)})
    return found


if __name__ == "__main__":
    main()
