"""Writes small exported graphs into one archive, for tests that have no torch.

``python -m benchmarks.exported.samples tests/data/exported.zip``.

Matrices and filters are left out, as what an exporter makes of a family is its graph: whoever reads a sample fills them
with random numbers of the same shape. Vectors stay, for variances and the like are not any number.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from .exporters import build, export
from .family import load

SAMPLES = {
    "bert_eager": "dynamo", "distilbert": "script", "vit": "script", "vit_fixed": "dynamo", "clip": "dynamo",
    "gpt2": "script", "gpt2_eager": "dynamo", "llama": "dynamo", "qwen": "script", "t5_encoder": "script",
    "t5_decoder": "dynamo", "whisper_encoder": "script", "whisper_decoder": "dynamo", "mobilenet_v3": "script",
    "unet_interpolated": "dynamo", "detector": "dynamo", "tagger": "script", "beam_search": "script",
}  # fmt: skip
_SMALL = 256


def without_matrices(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its larger tensors of floats emptied, and without what only helps to debug."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1 and math.prod(tensor.dims) >= _SMALL:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    for node in model.graph.node:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    for value in (*model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Export, and write the archive."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exported.samples", description=__doc__)
    parser.add_argument("archive", type=Path)
    archive = parser.parse_args(arguments).archive
    families = load()
    with (
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as written,
    ):
        for name, exporter in SAMPLES.items():
            path = export(families[name], build(families[name]), exporter, Path(folder) / f"{name}.onnx")
            sample = without_matrices(onnx.load(path)).SerializeToString(deterministic=True)
            written.writestr(zipfile.ZipInfo(path.name), sample, zipfile.ZIP_LZMA)


if __name__ == "__main__":
    main()
