"""What a session and a run are told: onnxruntime's SessionOptions and RunOptions."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import suggest
from .coverage import WITHOUT_EFFECT, with_refused_members
from .enumerations import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from .errors import ArgumentTypeError, Fail, InvalidArgument
from .ort_value import OrtValue

__all__ = ["RunOptions", "SessionOptions", "set_default_logger_severity", "set_global_thread_pool_sizes"]

logger = logging.getLogger("vmkit.onnxruntime")

CACHE_ENTRY = "vmkit.cache"

# onnxruntime's severities, from verbose to fatal.
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_WARNING = 2


class _Option:
    """An attribute of one type."""

    def __init__(self, kind: type, default: Any) -> None:
        self.kind = kind
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, options: _Options | None, owner: type) -> Any:
        return self if options is None else options._set.get(self.name, self.default)

    def __set__(self, options: _Options, value: Any) -> None:
        taken = (bool, int) if self.kind is bool else self.kind
        if not isinstance(value, taken) or (self.kind is int and isinstance(value, bool)):
            raise ArgumentTypeError(f"{self.name} is {value!r}, expected a value of {self.kind.__name__}")
        options._set[self.name] = self.kind(value)


class _Options:
    """Attributes of known names, and entries of a configuration."""

    _names: tuple[str, ...] = ()
    _own_entries: tuple[str, ...] = ()
    _set: dict[str, Any]
    _entries: dict[str, str]
    log_severity_level: Any

    def __init_subclass__(cls) -> None:
        cls._names = tuple(name for name, value in vars(cls).items() if isinstance(value, _Option))

    def __init__(self) -> None:
        self.__dict__["_set"] = {}
        self.__dict__["_entries"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}; there are {', '.join(self._names)}")
        object.__setattr__(self, name, value)

    def _add_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentTypeError(
                f"an entry of a configuration is a key and a value that are str, not {key!r}: {value!r}"
            )
        if key.startswith("vmkit.") and key not in self._own_entries:
            raise InvalidArgument(f"there is no configuration entry {key!r}{suggest(key, self._own_entries)}")
        self._entries[key] = value

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise Fail(f"{type(self).__name__} has no configuration entry {key!r}")
        return self._entries[key]

    def told(self) -> None:
        """Log, once for each, what is set and changes nothing; of a configuration's entries, all but vmkit's own."""
        if self.log_severity_level > _WARNING:
            return
        for name, reason in WITHOUT_EFFECT.items():
            if name in self._names and self._set.get(name, default := getattr(type(self), name).default) != default:
                _log_once(f"{type(self).__name__}.{name} has no effect: {reason}")
        for key in self._entries.keys() - self._own_entries:
            _log_once(f"the configuration entry {key!r} has no effect: it is for onnxruntime's own kernels")


@functools.cache
def _log_once(text: str) -> None:
    logger.warning(text)


@with_refused_members
class SessionOptions(_Options):
    """How a session compiles and runs its model.

    Attributes
    ----------
    intra_op_num_threads : int
        The most threads that a run uses; 0 for what :class:`vmkit.VirtualMachine` chooses.
    graph_optimization_level : GraphOptimizationLevel
        The compiler's ``opt_level``: 0 to 3.
    enable_cpu_mem_arena : bool
        Whether memory is kept for the next run.
    enable_profiling : bool
        Whether runs are profiled, which makes them slower; ``session.end_profiling()`` writes the file.
    profile_file_prefix : str
        What the name of that file begins with.
    optimized_model_filepath : str
        Where to write what was compiled: a path that ends in ``.vmx``, which a session takes in place of a model.
    use_per_session_threads : bool
        False for as many threads as :func:`set_global_thread_pool_sizes` was told.
    log_severity_level : int
        Above 2, nothing is logged of options that have no effect; -1 and up to 2, each is, once.
    """

    enable_cpu_mem_arena = _Option(bool, True)
    enable_mem_pattern = _Option(bool, True)
    enable_mem_reuse = _Option(bool, True)
    enable_profiling = _Option(bool, False)
    execution_mode = _Option(ExecutionMode, ExecutionMode.ORT_SEQUENTIAL)
    execution_order = _Option(ExecutionOrder, ExecutionOrder.DEFAULT)
    graph_optimization_level = _Option(GraphOptimizationLevel, GraphOptimizationLevel.ORT_ENABLE_ALL)
    inter_op_num_threads = _Option(int, 0)
    intra_op_num_threads = _Option(int, 0)
    log_severity_level = _Option(int, -1)
    log_verbosity_level = _Option(int, 0)
    logid = _Option(str, "")
    optimized_model_filepath = _Option(str, "")
    profile_file_prefix = _Option(str, "onnxruntime_profile_")
    use_deterministic_compute = _Option(bool, False)
    use_per_session_threads = _Option(bool, True)

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["sizes_by_name"] = {}
        self.__dict__["sizes_by_denotation"] = {}
        self.__dict__["initializers"] = {}

    sizes_by_name: Mapping[str, int]
    sizes_by_denotation: Mapping[str, int]
    initializers: Mapping[str, OrtValue]

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Give every dimension of a name one size."""
        self.__dict__["sizes_by_name"][str(dim_name)] = _size(dim_name, dim_value)

    def add_free_dimension_override_by_denotation(self, dim_denotation: str, dim_value: int) -> None:
        """Give every dimension that the model denotes so, such as ``DATA_BATCH``, one size."""
        self.__dict__["sizes_by_denotation"][str(dim_denotation)] = _size(dim_denotation, dim_value)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Give an initializer of the model another value, of its data type and shape."""
        if not isinstance(value, OrtValue):
            raise ArgumentTypeError(
                f"the value of initializer {name!r} is a {type(value).__name__}, expected an OrtValue"
            )
        self.__dict__["initializers"][str(name)] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Give some initializers of the model other values."""
        if len(names) != len(values):
            raise InvalidArgument(f"{len(names)} names of initializers, but {len(values)} values")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    _own_entries = (CACHE_ENTRY,)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry of the configuration.

        ``vmkit.cache`` says where what is compiled is kept for the next session: ``"1"`` for
        :func:`vmkit.cache.default_folder`, which is the default, ``"0"`` for nowhere, or a folder. No other entry has
        an effect, which is logged once.
        """
        self._add_entry(key, value)

    @property
    def cache(self) -> bool | str:
        """Where compiled models are kept, as :func:`vmkit.compile` takes it."""
        said = self._entries.get(CACHE_ENTRY, "1")
        return said == "1" if said in ("0", "1") else said

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry of the configuration; Fail if there is none."""
        return self._entry(key)

    def has_providers(self) -> bool:
        """Say whether providers were added here: never, they are the session's own arguments."""
        return False

    @property
    def num_threads(self) -> int | None:
        """The most threads of a run; None for the machine's own choice."""
        asked = self.intra_op_num_threads if self.use_per_session_threads else _global_threads[0]
        if asked < 0:
            raise InvalidArgument(f"intra_op_num_threads is {asked}, expected 0 or a number of threads")
        return asked or None


@with_refused_members
class RunOptions(_Options):
    """How one run is made.

    Attributes
    ----------
    terminate : bool
        Whether runs that begin with these options fail. A run that has begun ends by itself.
    """

    log_severity_level = _Option(int, -1)
    log_verbosity_level = _Option(int, 0)
    logid = _Option(str, "")
    only_execute_path_to_fetches = _Option(bool, False)
    terminate = _Option(bool, False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry of the configuration. None has an effect, which is logged once."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry of the configuration; Fail if there is none."""
        return self._entry(key)


_global_threads = [0]


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int = 0) -> None:
    """Say how many threads sessions use whose ``use_per_session_threads`` is False."""
    _global_threads[0] = int(intra_op_num_threads)


def set_default_logger_severity(severity: int) -> None:
    """Have vmkit log what is of a severity or worse: 0 all, 1 information, 2 warnings, 3 errors, 4 fatal ones."""
    if not isinstance(severity, int) or not 0 <= severity < len(_LEVELS):
        raise InvalidArgument(f"the severity is {severity!r}, expected 0 to {len(_LEVELS) - 1}")
    logging.getLogger("vmkit").setLevel(_LEVELS[severity])


def _size(name: str, size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ArgumentTypeError(f"the size of dimension {name!r} is {size!r}, expected an int that is not negative")
    return size
