"""Every public name of the installed onnxruntime package works or is refused with a reason."""

from __future__ import annotations

import importlib
from enum import IntEnum

import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

import vmkit
from vmkit import onnxruntime as ort
from vmkit.errors import VMKitError
from vmkit.onnxruntime import coverage, errors
from vmkit.onnxruntime.capi import onnxruntime_pybind11_state as own_state
from vmkit.onnxruntime.errors import NotImplemented

# What the package's own module has as a module, not as its interface.
INTERNAL = {"capi", "contextlib", "cuda_version", "import_capi_exception", "onnxruntime_validation", "package_name"}
INTERNAL |= {"version", "experimental", "backend"}
NAMES = sorted(name for name in dir(onnxruntime) if not name.startswith("_") and name not in INTERNAL)
CLASSES = [
    *("ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata"),
    *("NodeArg", "OrtAllocatorType", "OrtDevice", "OrtMemType", "OrtValue", "RunOptions", "SessionOptions"),
]
MEMBERS = [
    (cls, name) for cls in CLASSES for name in sorted(dir(getattr(onnxruntime, cls))) if not name.startswith("_")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_here_or_refused(name: str) -> None:
    if name in coverage.REFUSED:
        with pytest.raises(NotImplemented, match=f"{name} has no counterpart: "):
            getattr(ort, name)
    else:
        assert name in ort.__all__
        getattr(ort, name)


@pytest.mark.parametrize(("cls", "name"), MEMBERS)
def test_a_member_is_here_or_refused(cls: str, name: str) -> None:
    own = getattr(ort, cls)
    if name in coverage.REFUSED_MEMBERS.get(cls, {}):
        with pytest.raises(NotImplemented, match=rf"{cls}\.{name} has no counterpart: "):
            getattr(own, name)()
    else:
        member = next(iter(own)) if issubclass(own, IntEnum) else own
        assert hasattr(member, name) or name in own.__dataclass_fields__


def test_the_tables_have_only_names_that_there_are() -> None:
    # Folders of the package, which are imported by themselves.
    folders = {"datasets", "quantization", "tools", "training", "transformers"}
    assert set(coverage.REFUSED) - folders <= set(NAMES)
    assert not set(coverage.REFUSED) & set(ort.__all__)
    for cls, members in coverage.REFUSED_MEMBERS.items():
        assert set(members) <= {name for each, name in MEMBERS if each == cls}
    options = {name for cls, name in MEMBERS if cls in ("SessionOptions", "RunOptions")}
    assert set(coverage.WITHOUT_EFFECT) <= options


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if hasattr(getattr(onnxruntime, cls), "__members__")])
def test_choices_have_the_numbers_of_onnxruntime(cls: str) -> None:
    theirs = {name: int(value) for name, value in getattr(onnxruntime, cls).__members__.items()}
    assert {name: int(value) for name, value in getattr(ort, cls).__members__.items()} == theirs
    one = next(iter(theirs))
    assert str(getattr(getattr(ort, cls), one)) == str(getattr(getattr(onnxruntime, cls), one))


@pytest.mark.parametrize("cls", ["SessionOptions", "RunOptions"])
def test_options_have_the_defaults_of_onnxruntime(cls: str) -> None:
    theirs, own = getattr(onnxruntime, cls)(), getattr(ort, cls)()
    names = [name for each, name in MEMBERS if each == cls and not callable(getattr(theirs, name))]
    assert len(names) >= 5
    for name in names:
        value, wanted = getattr(own, name), getattr(theirs, name)
        assert int(value) == int(wanted) if hasattr(wanted, "name") else value == wanted


def test_errors_have_their_kinds() -> None:
    kinds = [name for name in dir(state) if isinstance(getattr(state, name), type)]
    kinds = [name for name in kinds if issubclass(getattr(state, name), Exception)]
    own = [name for name in own_state.__all__ if hasattr(errors, name)]
    assert sorted(own) == sorted(kinds)
    assert all(issubclass(getattr(own_state, name), VMKitError) for name in kinds)
    assert ort.capi.onnxruntime_pybind11_state is own_state


def test_the_session_is_a_name_of_vmkit_itself() -> None:
    assert vmkit.InferenceSession is ort.InferenceSession
    assert vmkit.onnxruntime is ort


def test_an_unknown_name_suggests_close_ones() -> None:
    with pytest.raises(AttributeError, match="did you mean 'InferenceSession'"):
        ort.InferenceSesion  # noqa: B018 - the access is what is tested


@pytest.mark.parametrize("inner", ["_pybind_state", "onnxruntime_pybind11_state", "onnxruntime_inference_collection"])
def test_inner_modules_have_what_the_package_has(inner: str) -> None:
    theirs = importlib.import_module(f"onnxruntime.capi.{inner}")
    own = importlib.import_module(f"vmkit.onnxruntime.capi.{inner}")
    assert getattr(ort.capi, inner) is own
    for name in own.__all__:
        assert hasattr(theirs, name)
        assert getattr(own, name) is getattr(errors if hasattr(errors, name) else ort, name)


def test_telemetry_can_be_switched_off() -> None:
    onnxruntime.disable_telemetry_events()
    ort.disable_telemetry_events()
    with pytest.raises(NotImplemented, match="vmkit collects nothing"):
        _ = ort.enable_telemetry_events
