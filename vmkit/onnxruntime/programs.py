"""From what a session is given to a program: the model is read, changed as its options say, and compiled."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

from .._dataclasses import dataclass
from ..cache import Cache
from ..compiler import compile
from ..compiler.options import PassContext
from ..errors import ModelError, OptionError, suggest
from ..executable.executable import Executable
from ..executable.loading import load
from ..executable.scratch import scratch_folder
from ..frontend.onnx.folder import sole_file
from ..frontend.onnx.load import Loaded, read_model
from .described import ModelMetadata, NodeArg, args_of_outputs, args_of_signature, args_of_values, metadata_of
from .enumerations import GraphOptimizationLevel
from .errors import ArgumentTypeError, InvalidArgument, InvalidProtobuf, NoSuchFile, told_as_kinds
from .options import SessionOptions
from .ort_value import OrtValue

__all__ = ["Built", "Source", "export", "read_source"]

logger = logging.getLogger(__name__)

_OTHER_FORMS = (".pt2", ".tflite", ".mlir", ".relay", ".json", ".gz")  # which vmkit.compile reads
_ARCHIVE = b"PK\x03\x04"


@dataclass(frozen=True)
class Built:
    """A program, and what a session tells of it.

    Parameters
    ----------
    executable
        What runs.
    inputs, outputs, overridable
        What it takes and gives, and the initializers that a feed may give another value.
    metadata
        What the model's file says of it.
    """

    executable: Executable
    inputs: list[NodeArg]
    outputs: list[NodeArg]
    overridable: list[NodeArg]
    metadata: ModelMetadata


class Source:
    """A model that can be compiled."""

    def build(
        self, target: str | None, options: SessionOptions, disabled: Sequence[str], fed: Collection[str]
    ) -> Built:
        """Return the program for a target.

        Parameters
        ----------
        disabled
            Passes of the compiler to be left out.
        fed
            Initializers that are to be inputs.
        """
        raise NotImplementedError


def read_source(path_or_bytes: str | bytes | os.PathLike[str]) -> Source:
    """Return the model at a path, or in bytes: of ONNX, or an executable.

    Raises
    ------
    NoSuchFile
        If nothing is at the path.
    InvalidProtobuf
        If it is no model.
    """
    if isinstance(path_or_bytes, bytes | bytearray | memoryview):
        data = bytes(path_or_bytes)
        if data.startswith(_ARCHIVE):
            with scratch_folder() as folder:
                path = folder / "model.vmx"
                path.write_bytes(data)
                return _Compiled(load(path))
        return _OnnxModel(_read(data))
    if not isinstance(path_or_bytes, str | os.PathLike):
        raise ArgumentTypeError(f"a model is a path or the bytes of a file, not a {type(path_or_bytes).__name__}")
    path = Path(path_or_bytes)
    if not path.exists():
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        raise NoSuchFile(f"{path}: there is no such file{suggest(path.name, beside)}")
    if path.suffix == ".vmx":
        return _Compiled(load(path))
    if path.suffix == ".ort":
        raise InvalidProtobuf(
            f"{path}: files of onnxruntime's own format are not read; give the ONNX file it came from"
        )
    return _OtherModel(path) if path.suffix in _OTHER_FORMS else _OnnxModel(_read(sole_file(path)))


def export(executable: Executable, path: str) -> None:
    """Write what was compiled to a file that a session takes in place of the model."""
    if Path(path).suffix != ".vmx":
        raise InvalidArgument(
            f"optimized_model_filepath is {path!r}: what is compiled is no ONNX model but an executable; "
            "give a path that ends in .vmx"
        )
    with told_as_kinds():
        executable.export(path)


def _read(source: Any) -> Loaded:
    try:
        return read_model(source)
    except ModelError as error:
        raise InvalidProtobuf(str(error)) from error


class _Compiled(Source):
    """An executable."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def build(
        self, target: str | None, options: SessionOptions, disabled: Sequence[str], fed: Collection[str]
    ) -> Built:
        settings = {
            "free dimension overrides": options.sizes_by_name or options.sizes_by_denotation,
            "add_initializer": options.initializers,
            "graph_optimization_level": options.graph_optimization_level is not GraphOptimizationLevel.ORT_ENABLE_ALL,
            "disabled_optimizers": disabled,
        }
        late = [name for name, given in settings.items() if given]
        if late:
            raise InvalidArgument(f"the model is compiled already, so {', '.join(late)} cannot have an effect")
        return _of_signature(self._executable)


class _OtherModel(Source):
    """A model of another format than ONNX."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def build(
        self, target: str | None, options: SessionOptions, disabled: Sequence[str], fed: Collection[str]
    ) -> Built:
        if options.sizes_by_name or options.sizes_by_denotation or options.initializers:
            raise InvalidArgument(f"{self._path}: dimensions and initializers can be overridden in ONNX models only")
        with _optimization(options, disabled):
            return _of_signature(compile(self._path, target, cache=_cache(options)))


def _of_signature(executable: Executable) -> Built:
    inputs = args_of_signature(executable.inputs, executable.inputs)
    outputs = args_of_signature(executable.outputs, executable.inputs)
    return Built(executable, inputs, outputs, [], _kept_metadata(executable.info.model or {}))


def _kept_metadata(told: Mapping[str, Any]) -> ModelMetadata:
    """Return what a file of a session keeps of its model's metadata."""
    known = {each.name for each in fields(ModelMetadata)}
    return ModelMetadata(**{name: value for name, value in told.items() if name in known})


class _OnnxModel(Source):
    """An ONNX model."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def build(
        self, target: str | None, options: SessionOptions, disabled: Sequence[str], fed: Collection[str]
    ) -> Built:
        loaded = _changed(self._loaded, options)
        model, graph = loaded.model, loaded.model.graph
        defaults = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
        declared = list(graph.input)
        # Older files list every initializer as an input; none of those can be given another value.
        overridable = [value for value in declared if value.name in defaults and model.ir_version >= 4]
        with _optimization(options, disabled):
            executable = compile(_without_initializers(loaded, fed) if fed else loaded, target, cache=_cache(options))
        metadata = metadata_of(model)
        executable.info = replace(executable.info, model=asdict(metadata))
        return Built(
            executable,
            args_of_values(value for value in declared if value.name not in defaults),
            args_of_outputs(graph, executable.signature),
            args_of_values(overridable),
            metadata,
        )


def _optimization(options: SessionOptions, disabled: Sequence[str]) -> AbstractContextManager[Any]:
    """Return the compiler's options; those in force where the session says nothing of them."""
    level = options.graph_optimization_level
    if level is GraphOptimizationLevel.ORT_ENABLE_ALL and not disabled:
        return nullcontext()
    context: AbstractContextManager[Any] = PassContext(opt_level=level.opt_level, disabled_pass=list(disabled))
    return context


def _cache(options: SessionOptions) -> Cache | bool:
    """Return the cache that a session looks in first; False for none, also where the default one cannot be used."""
    if options.enable_profiling or options.cache is False:
        return False  # what comes from a file has no sources, by which a profile tells kernels of a group apart
    if options.cache is not True:
        return Cache(options.cache)
    try:
        return Cache()
    except OptionError as error:
        logger.warning("sessions compile their models each time: %s", error)
        return False


def _copied(loaded: Loaded) -> Loaded:
    model = onnx.ModelProto()
    model.CopyFrom(loaded.model)
    return replace(loaded, model=model, weights=dict(loaded.weights))


def _changed(loaded: Loaded, options: SessionOptions) -> Loaded:
    """Return a model with the sizes and the initializers that the options have for it."""
    if not (options.sizes_by_name or options.sizes_by_denotation or options.initializers):
        return loaded
    loaded = _copied(loaded)
    _fix_sizes(loaded.model.graph, options.sizes_by_name, options.sizes_by_denotation)
    return _with_initializers(loaded, options.initializers)


def _without_initializers(loaded: Loaded, names: Collection[str]) -> Loaded:
    """Return a model in which some inputs have no value of their own."""
    loaded = _copied(loaded)
    graph = loaded.model.graph
    kept = [each for each in graph.initializer if each.name not in names]
    sparse = [each for each in graph.sparse_initializer if each.values.name not in names]
    del graph.initializer[:], graph.sparse_initializer[:]
    graph.initializer.extend(kept)
    graph.sparse_initializer.extend(sparse)
    return replace(loaded, weights={name: each for name, each in loaded.weights.items() if name not in names})


def _fix_sizes(graph: onnx.GraphProto, by_name: Mapping[str, int], by_denotation: Mapping[str, int]) -> None:
    """Give dimensions of a name or a denotation their size, wherever the graph declares them."""
    named = dict(by_name)
    values = (*graph.input, *graph.output, *graph.value_info)
    dims = [dim for value in values for dim in value.type.tensor_type.shape.dim]
    for dim in dims:
        if dim.denotation in by_denotation and not dim.HasField("dim_value"):
            named.setdefault(dim.dim_param, by_denotation[dim.denotation])
            dim.dim_value = by_denotation[dim.denotation]
    named.pop("", None)
    for dim in dims:
        if dim.HasField("dim_param") and dim.dim_param in named:
            dim.dim_value = named[dim.dim_param]


def _with_initializers(loaded: Loaded, values: Mapping[str, OrtValue]) -> Loaded:
    """Return a model with other values of its initializers."""
    graph = loaded.model.graph
    places = {each.name: at for at, each in enumerate(graph.initializer)}
    unknown = [f"{name!r}{suggest(name, places)}" for name in values if name not in places]
    if unknown:
        raise InvalidArgument(f"the model has no initializer {', '.join(unknown)}")
    for name, value in values.items():
        old = graph.initializer[places[name]]
        if value.element_type() != old.data_type or value.shape() != list(old.dims):
            raise InvalidArgument(
                f"initializer {name!r} is of element type {old.data_type} and shape {list(old.dims)}, "
                f"but the value given of {value.element_type()} and {value.shape()}"
            )
        old.CopyFrom(numpy_helper.from_array(value.numpy(), name))
    return replace(loaded, weights={name: each for name, each in loaded.weights.items() if name not in values})
