"""Archives built with gcc as a firmware's build would, and called."""

from __future__ import annotations

import ctypes
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FLAGS", "Built", "build"]

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1")


class Built:
    """The library of an archive's one model; `folder` has the archive's files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.library = ctypes.CDLL(str(folder / "model.so"))
        self.metadata: dict[str, Any] = json.loads((folder / "metadata.json").read_text())
        self.main = self.metadata["modules"][name]["memory"]["functions"]["main"][0]

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """Return the outputs, flat."""
        given = [np.ascontiguousarray(each) for each in inputs]
        for each, facts in zip(given, self.main["inputs"].values(), strict=True):
            assert (each.nbytes, str(each.dtype)) == (facts["size"], facts["dtype"])
        outputs = [
            np.zeros(f["size"] // np.dtype(f["dtype"]).itemsize, f["dtype"]) for f in self.main["outputs"].values()
        ]
        entry = getattr(self.library, f"tvmgen_{self.name}_run")
        assert entry(_pointers(given), _pointers(outputs)) == 0
        return outputs

    def workspace(self) -> np.ndarray:
        """Return the bytes of the workspace, which stay those of the library."""
        size = max(self.main["workspace_size_bytes"], 1)
        return np.frombuffer((ctypes.c_uint8 * size).in_dll(self.library, f"tvmgen_{self.name}_workspace"), np.uint8)

    def used_bytes(self, *inputs: np.ndarray) -> int:
        """Return the last byte of the workspace that a run writes."""
        changed = np.zeros(len(self.workspace()), bool)
        for paint in (0x5A, 0xC3):
            self.workspace()[:] = paint
            self.run(*inputs)
            changed |= self.workspace() != paint
        return int(changed.nonzero()[0].max()) + 1 if changed.any() else 0


def _pointers(arrays: list[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[each.ctypes.data for each in arrays])


def build(archive: Path, name: str = "default", flags: tuple[str, ...] = FLAGS) -> Built:
    """Return an archive's model, built of nothing but the archive, the C library and libm."""
    folder = archive.with_suffix("")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    sources = [*folder.glob("codegen/host/src/*.c"), *folder.glob("runtime/src/*.c")]
    includes = [f"-I{folder / place}" for place in ("codegen/host/include", "runtime/include")]
    command = ["gcc", *flags, "-shared", "-fPIC", "-o", str(folder / "model.so"), *map(str, sources), *includes, "-lm"]
    done = subprocess.run([*command, "-Wl,--no-undefined"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Built(folder, name)
