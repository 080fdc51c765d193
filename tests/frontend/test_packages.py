"""Ways in whose packages are not installed, and files that are not what their names say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import vmkit
from vmkit.errors import ModelError, UnavailableError


@pytest.mark.parametrize(("suffix", "package"), [(".pt2", "torch"), (".tflite", "tflite"), (".mlir", "jax")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str
) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"")
    with pytest.raises(
        UnavailableError, match=f"model{suffix}: .* needs the package .?{package}.*: pip install .?{package}"
    ):
        vmkit.compile(path)


def test_a_file_that_is_no_tflite(tmp_path: Path) -> None:
    pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")
    (tmp_path / "model.tflite").write_bytes(b"something else")
    with pytest.raises(ModelError, match=r"model.tflite is no TFLite model: it has b'thin' where"):
        vmkit.compile(tmp_path / "model.tflite")
