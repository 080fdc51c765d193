"""An ONNX file in, an executable for every batch size out.

The digit classifier that comes with vmkit declares a batch of 1. Here the batch gets a name instead, ``n``, so that
one compilation serves all sizes. The executable is saved to one file, loaded again, and run on several batches.
"""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path

import numpy as np

import vmkit

BATCHES = (1, 3, 16)


def build(path: Path) -> None:
    """Compile the model for this machine and write the executable to `path`."""
    with resources.as_file(resources.files("vmkit") / "data" / "mnist.onnx") as model:
        executable = vmkit.compile(model, shapes={"Input3": ("n", 1, 28, 28)})
    executable.export(path)


def main() -> None:
    """Save, load, and run at several sizes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mnist.vmx"
        build(path)
        executable = vmkit.load(path)
    print(executable.signature)

    machine = vmkit.VirtualMachine(executable, "cpu")
    images = np.random.default_rng(0).uniform(0, 255, (max(BATCHES), 1, 28, 28)).astype("float32")
    one_by_one = np.concatenate([machine.run(image[None]).numpy() for image in images])
    for batch in BATCHES:
        scores = machine.run(images[:batch]).numpy()
        # A row of scores does not depend on the batch that its image is in.
        np.testing.assert_allclose(scores, one_by_one[:batch], rtol=1e-4, atol=1e-2)
        print(f"batch {batch}: scores {scores.shape}")


if __name__ == "__main__":
    main()
