"""Which device a session runs on: onnxruntime's execution providers, of which there is one for each kind of device.

A list of providers says which are wanted, the best first. The first that is here runs the whole model. That one of
them is not here is a warning, as in onnxruntime; that none is, is an error, where onnxruntime takes the CPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

import tvm

from .._dataclasses import dataclass
from ..errors import suggest
from .errors import ArgumentTypeError, EPFail, InvalidArgument

__all__ = ["Provider", "choose_provider", "get_all_providers", "get_available_providers", "get_device"]

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_KINDS = {_CUDA: "cuda", _CPU: "cpu"}
# Those of onnxruntime that are for devices or compilers which vmkit does not drive.
_OTHERS = (
    "TensorrtExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "NvTensorRtRtxExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "OpenVINOExecutionProvider",
    "DnnlExecutionProvider",
    "VitisAIExecutionProvider",
    "QNNExecutionProvider",
    "NnapiExecutionProvider",
    "VSINPUExecutionProvider",
    "JsExecutionProvider",
    "CoreMLExecutionProvider",
    "ArmNNExecutionProvider",
    "ACLExecutionProvider",
    "DmlExecutionProvider",
    "RknpuExecutionProvider",
    "WebNNExecutionProvider",
    "WebGpuExecutionProvider",
    "XnnpackExecutionProvider",
    "CANNExecutionProvider",
    "AzureExecutionProvider",
)


@dataclass(frozen=True)
class Provider:
    """An execution provider that is here.

    Parameters
    ----------
    name
        Onnxruntime's name of it.
    options
        What it was told; ``device_id`` is the one that has an effect.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def target(self) -> str | None:
        """What to compile for: None for this machine's processor."""
        return None if self.name == _CPU else _KINDS[self.name]

    @property
    def device(self) -> str:
        """Where to run."""
        return "cpu" if self.name == _CPU else f"{_KINDS[self.name]}:{self.options.get('device_id', '0')}"


def get_available_providers() -> list[str]:
    """Return the providers whose devices are here, the best first."""
    return [name for name, kind in _KINDS.items() if kind == "cpu" or tvm.runtime.device(kind, 0).exist]


def get_all_providers() -> list[str]:
    """Return the providers that vmkit has, the best first."""
    return list(_KINDS)


def get_device() -> str:
    """Return the kind of the best device that is here: ``GPU`` or ``CPU``."""
    return "GPU" if _CUDA in get_available_providers() else "CPU"


def choose_provider(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
) -> Provider:
    """Return the first of some providers that is here; that of the CPU if none are named.

    Raises
    ------
    InvalidArgument
        For a list that is none, or a name that onnxruntime does not have.
    EPFail
        If none of them is here.
    """
    named = _named(providers, provider_options)
    known = [*_KINDS, *_OTHERS]
    strange = [f"{name!r}{suggest(name, known)}" for name in named if name not in known]
    if strange:
        raise InvalidArgument(f"there is no execution provider {', '.join(strange)}; here are {_here()}")
    available = get_available_providers()
    for name in named:
        if name not in available:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. Available providers: {_here()}",
                stacklevel=4,
            )
    found = [Provider(name, MappingProxyType(options)) for name, options in named.items() if name in available]
    if not named:
        return Provider(_CPU)
    if not found:
        raise EPFail(
            f"none of the providers {', '.join(named)} is here, and nothing else is taken in their place; "
            f"here are {_here()}: add one of them to the list"
        )
    return found[0]


def _here() -> str:
    return ", ".join(get_available_providers())


def _named(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
) -> dict[str, dict[str, str]]:
    """Return the options of providers by name, in their order."""
    if providers is None:
        return {}
    if not isinstance(providers, Sequence) or isinstance(providers, str):
        raise ArgumentTypeError(f"providers is {providers!r}, expected a list of names")
    if provider_options is not None and len(provider_options) != len(providers):
        raise InvalidArgument(f"{len(providers)} providers, but options for {len(provider_options)}")
    named: dict[str, dict[str, str]] = {}
    for at, provider in enumerate(providers):
        match provider:
            case str():
                name, options = provider, provider_options[at] if provider_options is not None else {}
            case (str(name), Mapping() as options) if provider_options is None:
                pass
            case _:
                raise InvalidArgument(f"provider {provider!r}: expected a name, or a name and a dict of options")
        if name in named:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=5)
            continue
        named[name] = {str(key): str(value) for key, value in options.items()}
    return named
