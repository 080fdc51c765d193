"""What importing vmkit costs, offers and refuses."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vmkit
from vmkit import _version
from vmkit._later import LATER
from vmkit.errors import VersionError

PYPROJECT = (Path(__file__).parents[1] / "pyproject.toml").read_text()


def test_import_brings_in_neither_tvm_nor_onnx_nor_numpy() -> None:
    code = "import sys, vmkit, vmkit.cli; print(sorted({'tvm', 'tvm_ffi', 'onnx', 'numpy'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_compiling_for_a_cpu_brings_in_neither_gpus_nor_json_nor_workers_and_they_come_when_asked_for() -> None:
    code = """import sys, vmkit
from vmkit import relay
x = relay.var("x", shape=(2,))
function = relay.Function([x], relay.exp(x))
vmkit.compile(function, target="llvm")
print([m for m in ("vmkit.schedule.gpu", "vmkit.relay.json", "vmkit.compiler.isolated") if m in sys.modules])
print(relay.structural_equal(relay.load_json(relay.save_json(function)), function))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\nTrue\n"


def test_every_public_name_is_listed_and_has_a_home() -> None:
    assert set(vmkit.__all__) <= set(dir(vmkit))
    assert set(LATER["vmkit"]) | {"__version__"} == set(vmkit.__all__)
    assert vmkit.PassContext.__module__ == "vmkit.compiler.options"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'vmkit' has no attribute 'comple'; did you mean 'compile'"):
        vmkit.comple  # noqa: B018 - the access is what is tested


def test_the_requirements_are_those_of_the_package() -> None:
    assert f'"{_version.TVM_REQUIREMENT}"' in PYPROJECT
    assert f'"{_version.FFI_REQUIREMENT}"' in PYPROJECT


@pytest.fixture(params=["dist", "egg"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the versions that are installed, which the names of folders say, or only what is in them."""
    versions = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}

    def folders() -> Iterator[str]:
        yield "apache_tvm_ffi_tools-3.dist-info"
        yield from (f"{name.replace('-', '_')}-{each}.{request.param}-info" for name, each in versions.items())

    def metadata(name: str) -> dict[str, str]:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return {"Version": versions[name], "Summary": "Time Value of Money" if name == "tvm" else "TVM"}

    monkeypatch.setattr(_version, "_metadata_folders", folders)
    monkeypatch.setattr(importlib.metadata, "metadata", metadata)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: metadata(name)["Version"])
    return versions


@pytest.mark.parametrize("ffi", ["0.1.14.post0", "0.1.14.post1", "0.1.14.post12"])
def test_versions_that_work_are_accepted(installed: dict[str, str], ffi: str) -> None:
    installed["apache-tvm-ffi"] = ffi
    _version.require_compatible_tvm()


@pytest.mark.parametrize(
    ("package", "version", "said"),
    [
        ("apache-tvm", "0.26.1", "  apache-tvm: 0.26.1 is installed, expected 0.27.*"),
        ("apache-tvm-ffi", "0.1.14", "  apache-tvm-ffi: 0.1.14 is installed, expected >=0.1.14.post0,<0.1.15"),
        ("apache-tvm-ffi", "0.1.14rc1", "  apache-tvm-ffi: 0.1.14rc1 is installed, expected >=0.1.14.post0,<0.1.15"),
        ("apache-tvm-ffi", "0.1.15.post2", "  apache-tvm-ffi: 0.1.15.post2 is installed, expected >=0.1.14.post0"),
        ("apache-tvm-ffi", None, "  apache-tvm-ffi: not installed, expected >=0.1.14.post0"),
        ("tvm", "1.0.0", "  tvm: the package of that name on PyPI is another project (time value of money)"),
    ],
)
def test_versions_that_do_not_work_are_named(
    installed: dict[str, str], package: str, version: str | None, said: str
) -> None:
    installed[package] = version or ""
    if version is None:
        del installed[package]
    with pytest.raises(VersionError) as caught:
        _version.require_compatible_tvm()
    first, problem, mend = str(caught.value).splitlines()
    assert first == "TVM cannot be used as it is installed"
    assert problem.startswith(said)
    assert mend == (
        f"  to mend it, run: {sys.executable} -m pip install"
        ' "apache-tvm==0.27.*" "apache-tvm-ffi>=0.1.14.post0,<0.1.15"'
    )


def test_a_tvm_that_pip_does_not_know_is_not_refused(
    installed: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    del installed["apache-tvm"]
    _version.require_compatible_tvm()
    assert "TVM was not installed by pip, so its version was not checked" in caplog.text


def test_a_python_without_the_interpreter_lock_is_refused(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(VersionError, match="without its global interpreter lock"):
        _version.require_compatible_tvm()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True)
    _version.require_compatible_tvm()


def test_versions_are_told_by_the_names_of_folders() -> None:
    for name in ("apache-tvm", "apache-tvm-ffi", "no-such-package"):
        try:
            expected: str | None = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            expected = None
        assert _version._installed(name) == expected
    code = "import sys, vmkit; print(sorted({'email', 'importlib.metadata', 'tempfile'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_version_is_plain() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", vmkit.__version__)
