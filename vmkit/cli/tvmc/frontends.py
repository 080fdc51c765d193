"""``tvm.driver.tvmc.frontends``: models out of files, by the format that a suffix or the caller names."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import ModelError, suggest
from .exceptions import TVMCException, TVMCImportError
from .input_shapes import Shapes, of_inputs, of_shapes
from .model import TVMCModel

if TYPE_CHECKING:
    import tvm

__all__ = [
    "ALL_FRONTENDS",
    "Frontend",
    "KerasFrontend",
    "OnnxFrontend",
    "PaddleFrontend",
    "PyTorchFrontend",
    "RelayFrontend",
    "StableHLOFrontend",
    "TFLiteFrontend",
    "TensorflowFrontend",
    "get_frontend_by_name",
    "get_frontend_names",
    "guess_frontend",
    "lazy_import",
    "load_model",
]

Loaded = tuple["tvm.IRModule", dict[str, Any]]


class Frontend(ABC):
    """What reads models of a format."""

    format: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]

    @classmethod
    def name(cls) -> str:
        """Return what ``--model-format`` calls the format."""
        return cls.format

    @classmethod
    def suffixes(cls) -> list[str]:
        """Return the suffixes of its files, without the dot."""
        return list(cls.endings)

    @abstractmethod
    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: object) -> Loaded:
        """Return the module of a file, and the values of its parameters by name.

        Parameters
        ----------
        path : str
            The file.
        shape_dict : mapping, optional
            Shapes of inputs by name.
        **kwargs
            Arguments of the importer that it stands for.
        """


class OnnxFrontend(Frontend):
    """ONNX: :func:`vmkit.relay.frontend.from_onnx`, whose arguments :meth:`load` takes."""

    format, endings = "onnx", ("onnx",)

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        onnx = lazy_import("onnx")
        from vmkit.relay.frontend import from_onnx

        _require_file(path)
        try:
            header = onnx.load(path, load_external_data=False)
        except Exception as error:
            # Whoever catches protobuf's error has it, too.
            undecoded = type("UndecodedModel", (TVMCException, type(error)), {"__doc__": "A file that is no model."})
            raise undecoded(f"{path}: not an ONNX model: {error}") from error
        mod, params = from_onnx(path, shape=of_inputs(header.graph, dict(shape_dict or {})) or None, **kwargs)
        return mod, dict(params)


class RelayFrontend(Frontend):
    """Relay's text. Parameters of ``main`` that have no value are inputs."""

    format, endings = "relay", ("relay",)

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        from vmkit.relay.text import parse

        _refuse(self, kwargs)
        _require_file(path)
        mod = parse(Path(path).read_text(encoding="utf-8"), Path(path).name)
        return of_shapes(mod, shape_dict), {}


class PyTorchFrontend(Frontend):
    """Programs of ``torch.export`` (``.pt2``); TorchScript is not read."""

    format, endings = "pytorch", ("pt2", "pth", "zip")

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        lazy_import("torch")
        _refuse(self, kwargs)
        _require_file(path)
        if Path(path).suffix in (".pth", ".zip"):
            raise TVMCException(
                f"{path}: TVM reads TorchScript no more; save the model by torch.export.save to a .pt2, or as ONNX"
            )
        from vmkit.frontend.torch import from_pt2

        return of_shapes(from_pt2(Path(path)), shape_dict), {}


class TFLiteFrontend(Frontend):
    """TFLite; shapes are as in the file."""

    format, endings = "tflite", ("tflite",)

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        lazy_import("tflite.Model")
        _refuse(self, kwargs)
        _require_file(path)
        from vmkit.frontend.tflite import from_tflite

        try:
            mod = from_tflite(Path(path))
        except ModelError as error:
            raise TVMCException(str(error)) from error
        return of_shapes(mod, shape_dict), {}


class StableHLOFrontend(Frontend):
    """StableHLO's text, as jax writes it."""

    format, endings = "stablehlo", ("mlir",)

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        _refuse(self, kwargs)
        _require_file(path)
        from vmkit.frontend.stablehlo import from_stablehlo

        return of_shapes(from_stablehlo(Path(path).read_text(encoding="utf-8"), Path(path).name), shape_dict), {}


class _GoneFrontend(Frontend):
    package: ClassVar[str]

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: object) -> Loaded:
        raise TVMCImportError(
            f"models of {self.format} ({self.package}) are not imported by today's TVM; export the model to ONNX"
        )


class KerasFrontend(_GoneFrontend):
    """Keras; its importer is gone from TVM."""

    format, endings, package = "keras", ("h5",), "tensorflow"


class TensorflowFrontend(_GoneFrontend):
    """TensorFlow's graphs; their importer is gone from TVM."""

    format, endings, package = "pb", ("pb",), "tensorflow"


class PaddleFrontend(_GoneFrontend):
    """PaddlePaddle; its importer is gone from TVM."""

    format, endings, package = "paddle", ("pdmodel",), "paddle"


ALL_FRONTENDS: tuple[type[Frontend], ...] = (
    *(KerasFrontend, OnnxFrontend, TensorflowFrontend, TFLiteFrontend, PyTorchFrontend, PaddleFrontend),
    *(RelayFrontend, StableHLOFrontend),
)


def lazy_import(pkg_name: str, from_pkg_name: str | None = None, hide_stderr: bool = False) -> ModuleType:
    """Import a package when it is needed.

    Raises
    ------
    TVMCImportError
        If it is not installed.
    """
    try:
        return importlib.import_module(pkg_name, from_pkg_name)
    except ImportError as error:
        raise TVMCImportError(
            f'package "{pkg_name}" is not installed; pip install {pkg_name.partition(".")[0]}'
        ) from error


def get_frontend_names() -> list[str]:
    """Return the names of the formats."""
    return [frontend.name() for frontend in ALL_FRONTENDS]


def get_frontend_by_name(name: str) -> Frontend:
    """Return what reads a format; TVMCException if there is none of that name."""
    for frontend in ALL_FRONTENDS:
        if name == frontend.name():
            return frontend()
    known = get_frontend_names()
    raise TVMCException(
        f"unrecognized frontend '{name}'{suggest(name, known)}; supported frontends are: {', '.join(known)}"
    )


def guess_frontend(path: str) -> Frontend:
    """Return what reads a file, by its suffix; TVMCException for one that nothing reads."""
    suffix = Path(path).suffix.lstrip(".").lower()
    for frontend in ALL_FRONTENDS:
        if suffix in frontend.suffixes():
            return frontend()
    raise TVMCException(
        f"cannot infer the model format of {path!r}; --model-format is one of {', '.join(get_frontend_names())}"
    )


def load_model(
    path: str, model_format: str | None = None, shape_dict: Shapes | None = None, **kwargs: object
) -> TVMCModel:
    """Return the model in a file.

    Parameters
    ----------
    path : str
        The file.
    model_format : str, optional
        One of :func:`get_frontend_names`; by default what the suffix says.
    shape_dict : mapping, optional
        Shapes of inputs by name.
    **kwargs
        Arguments of the importer, such as ``freeze_params`` of ONNX's.

    Raises
    ------
    TVMCException
        For a format that there is not, and shapes that the model does not take.
    TVMCImportError
        If a package that the format needs is not there, or TVM reads the format no more.
    FileNotFoundError
        If there is no such file.
    """
    frontend = get_frontend_by_name(model_format) if model_format else guess_frontend(path)
    mod, params = frontend.load(path, shape_dict, **kwargs)
    return TVMCModel(mod, params)


def _require_file(path: str) -> None:
    if not Path(path).is_file():
        beside = [each.name for each in Path(path).parent.iterdir()] if Path(path).parent.is_dir() else []
        raise FileNotFoundError(f"{path}: there is no such file{suggest(Path(path).name, beside)}")


def _refuse(frontend: Frontend, options: Mapping[str, object]) -> None:
    if options:
        raise TVMCException(f"{', '.join(options)}: reading {frontend.name()} takes no such argument")
