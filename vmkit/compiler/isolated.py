"""Compiling in another process: what ends TVM or LLVM, or never returns from them, is an error for the caller.

What is compiled, and the options and records that are in force, go to the worker as plain values; the executable comes
back as its file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from ..cache import Cache
from ..errors import ModelError, OptionError
from ..executable.executable import Executable
from ..executable.loading import load
from ..executable.scratch import scratch_folder
from ..isolation import Limits, run_isolated
from ..relay.ir import Function
from ..relay.json import load_json, save_json
from ..target import canonical_target
from ..tophub.choosing import entered, in_force
from ..tophub.records import Record, Records
from ..values.param_dict import save_param_dict
from .options import PassContext, current_options
from .surroundings import Surroundings

__all__ = ["PortableModel", "Request", "compile_isolated"]

_JOB = "vmkit.compiler.in_worker:compile_to"


@dataclass(frozen=True)
class PortableModel:
    """A model as it goes to another process.

    Attributes
    ----------
    form : str
        ``path``, ``onnx``, or ``json`` for a module or function.
    content : str or bytes
        Of that form.
    """

    form: str
    content: str | bytes

    @staticmethod
    def of(model: Any) -> PortableModel:
        """Return the form of a model; ModelError for one that has none."""
        if isinstance(model, str | os.PathLike):
            return PortableModel("path", os.fspath(model))
        if isinstance(model, bytes | bytearray | memoryview):
            return PortableModel("onnx", bytes(model))
        if hasattr(model, "SerializeToString"):
            try:
                return PortableModel("onnx", model.SerializeToString())
            except ValueError as error:
                raise ModelError(
                    f"the model cannot go to another process: {error}; save it to a file and pass its path"
                ) from error
        if isinstance(model, tvm.IRModule | Function):
            return PortableModel("json", save_json(model))
        raise ModelError(
            "with isolated=True a model is a path, the bytes of an ONNX file, an onnx.ModelProto, a tvm.IRModule or a "
            f"relay.Function, not {type(model).__name__}; save it to a file and pass its path"
        )

    def model(self) -> Any:
        """Return the model."""
        return load_json(str(self.content)) if self.form == "json" else self.content


@dataclass(frozen=True)
class Request:
    """All that a compilation depends on, as plain values."""

    model: PortableModel
    target: Any
    target_host: Any
    plan: dict[str, Any] | None
    entered_target: str | None
    params: bytes
    shapes: Mapping[str, Sequence[Any]] | None
    cache: bool | str
    options: tuple[int, list[str], list[str], dict[str, Any]]
    records: list[dict[str, Any]]

    @staticmethod
    def of(
        model: Any,
        target: Any,
        target_host: Any,
        params: Mapping[str, Any],
        shapes: Mapping[str, Sequence[Any]] | None,
        cache: object,
    ) -> Request:
        """Return the request for what is in force in this thread; OptionError for what stays in its process."""
        surroundings = Surroundings.capture()
        if surroundings.has_instruments or surroundings.database is not None:
            what = "instruments of passes" if surroundings.has_instruments else "a MetaSchedule database"
            raise OptionError(
                f"isolated=True compiles in another process, where {what} cannot go; leave one of them out"
            )
        options = current_options()
        is_plain = _is_plain(target) and _is_plain(target_host)
        config = {name: _plain(name, value) for name, value in options.config.items()}
        return Request(
            PortableModel.of(model),
            target if is_plain else None,
            target_host if is_plain else None,
            None if is_plain else canonical_target(target, target_host).to_json(),
            None if surroundings.target is None else str(surroundings.target),
            bytes(save_param_dict(params)),
            shapes,
            _plain_cache(cache),
            (options.opt_level, sorted(options.required), sorted(options.disabled), config),
            [record.to_json() for record in in_force()],
        )

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Have options and records in force as they were for the caller."""
        level, required, disabled, config = self.options
        with contextlib.ExitStack() as stack:
            stack.enter_context(PassContext(level, required, disabled, None, config))
            stack.enter_context(entered(Records(map(Record.from_json, self.records))))
            if self.entered_target is not None:
                stack.enter_context(Target(json.loads(self.entered_target)))
            yield


def compile_isolated(request: Request, limits: Limits) -> Executable:
    """Return the executable that another process compiles.

    Raises
    ------
    CompileTimeoutError, CompileMemoryError
        When it passes a limit.
    CompileError
        When the process ends by itself.
    """
    name = str(request.model.content) if request.model.form == "path" else "the model"
    with scratch_folder() as folder:
        path = folder / "compiled.vmx"
        run_isolated(_JOB, request, str(path), what=f"{name} was compiled", limits=limits)
        return load(path)


def _plain(name: str, value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): _plain(name, each) for key, each in value.items()}
        case Sequence():
            return [_plain(name, each) for each in value]
    raise OptionError(
        f"the option {name} is a {type(value).__name__}, which cannot go to another process; leave out isolated=True"
    )


def _is_plain(value: object) -> bool:
    """Tell whether a target is said in words, which the worker reads, and refuses where they are wrong."""
    match value:
        case None | bool() | int() | float() | str():
            return True
        case Mapping():
            return all(map(_is_plain, [*value, *value.values()]))
        case list() | tuple():
            return all(map(_is_plain, value))
    return False


def _plain_cache(cache: object) -> bool | str:
    match cache:
        case None | bool():
            return bool(cache)
        case str() | os.PathLike():
            return os.fspath(cache)
        case Cache():
            return str(cache.folder)
    raise OptionError(f"cache is {cache!r}, expected True, False, a folder or a vmkit.cache.Cache")
