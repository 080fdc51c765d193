"""Code generators by name: what each takes, what it makes of that, and how it is loaded."""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm.ir.op import register_op_attr

from ..errors import CompileError, ModelError, VMError, suggest
from ..relay.ir import Call, Op
from ..relay.op import entry
from ..relay.op.contrib.register import PatternRow, register_pattern_table
from ..relay.transform.registry import ModuleTransform
from .region import Region

__all__ = ["CODEGENS", "CSource", "Codegen", "Graph", "RuntimeModule", "codegen", "loader_name", "runtime_name"]

Arrays: TypeAlias = Sequence[npt.NDArray[Any]]
Compute: TypeAlias = Callable[..., Any]
"""Takes arrays; returns one or a sequence of them."""

CODEGENS: dict[str, Codegen] = {}
C = TypeVar("C", bound="type[Codegen]")


class Codegen(ABC):  # noqa: B024 - what is made is the business of the classes below
    """What a code generator is; derive from one of the three classes below and register it by :func:`codegen`.

    Attributes
    ----------
    operators : sequence of str
        The operators that it takes, each where :meth:`takes` agrees.
    """

    operators: ClassVar[Sequence[str]] = ()

    @classmethod
    def patterns(cls) -> Sequence[PatternRow]:
        """Return rows of a pattern table: names that begin with the code generator's, patterns, perhaps predicates."""
        return ()

    @classmethod
    def takes(cls, call: Call) -> bool | str:
        """Say whether a call, whose type is known, of one of the `operators` is taken: True, or why it is not."""
        return True

    @classmethod
    def preparation(cls) -> Sequence[ModuleTransform]:
        """Return the passes that a program goes through before :func:`partition` cuts it."""
        return ()

    @classmethod
    def is_worth(cls, operators: Sequence[str]) -> bool:
        """Say whether a region of these operators and composite functions is better off with this code generator."""
        return True


class CSource(Codegen):
    """A code generator that writes C. What it writes becomes a part of the executable's library.

    The C compiler of :meth:`vmkit.Executable.export` compiles it, for the target of that.
    """

    @abstractmethod
    def source(self, region: Region) -> str:
        """Return C that defines ``static int <symbol>_run(const vmkit_array* values)``.

        It gets the arguments and then the results of the region, each with ``data``, ``ndim`` and ``shape``, and
        returns 0, or anything else where it fails. The text is compiled as C and as C++.
        """


class Graph(Codegen):
    """A code generator that makes a JSON graph, which its own class runs, also in the process that loads it.

    There the module of the class is imported, so the class belongs in one that can be.
    """

    def graph(self, region: Region) -> Any:  # noqa: ANN401 - JSON values
        """Return the region as JSON values; by default :meth:`.Region.to_json`."""
        return region.to_json()

    @classmethod
    @abstractmethod
    def load(cls, graph: Any) -> Compute:  # noqa: ANN401 - JSON values
        """Return the function that computes what :meth:`graph` described.

        It takes the arguments of the region as numpy arrays, which it must not change, and returns its results: an
        array, or a sequence of them. It is made once for each graph in a process.
        """


class RuntimeModule(Codegen):
    """A code generator that makes a runtime module of a kind of its own, written in C++ against tvm-ffi.

    The module knows how it is saved: ``SaveToBytes``, and in the process that loads it the global function
    ``ffi.Module.load_from_bytes.<kind>``.

    Attributes
    ----------
    kind : str
        What the modules call their kind.
    runtime : str
        The Python module whose import registers the functions that load modules of the kind.
    reads_cpu_alone : bool
        Whether its functions read the memory of tensors on a CPU alone; for other devices nothing is compiled then.
    """

    kind: ClassVar[str]
    runtime: ClassVar[str]
    reads_cpu_alone: ClassVar[bool] = False

    @abstractmethod
    def module(self, regions: Sequence[Region]) -> tvm.runtime.Module:
        """Return a module with a function of each region's symbol, which takes its arguments and then its results."""


def loader_name(kind: str) -> str:
    """Return the name of the packed function that loads runtime modules of a kind."""
    return f"ffi.Module.load_from_bytes.{kind}"


def runtime_name(name: str) -> str:
    """Return the name of the packed function that runs the graphs of a code generator."""
    return f"vmkit.byoc.run.{name}"


def codegen(name: str) -> Callable[[C], C]:
    """Register the decorated class as the code generator of a name; one of that name gives way.

    Relay's passes then know what it takes: its operators have the attribute ``target.<name>``, and its patterns are
    the table ``relay.op.contrib.get_pattern_table(name)``.

    Parameters
    ----------
    name : str
        The name, which the attribute ``Compiler`` of functions has.

    Examples
    --------
    >>> from vmkit import byoc
    >>> @byoc.codegen("doubling")
    ... class Doubling(byoc.Graph):
    ...     operators = ("nn.relu",)
    ...     @classmethod
    ...     def load(cls, graph):
    ...         return lambda x: x.clip(0)
    >>> byoc.CODEGENS["doubling"].operators
    ('nn.relu',)
    """

    def register(cls: C) -> C:
        if not (isinstance(cls, type) and issubclass(cls, CSource | Graph | RuntimeModule)):
            raise ModelError(f"code generator {name!r} must derive from vmkit.byoc.CSource, Graph or RuntimeModule")
        patterns = list(cls.patterns())
        wrong = [str(row[0]) for row in patterns if not str(row[0]).startswith(f"{name}.")]
        if wrong:
            raise ModelError(f"the patterns of {name!r} have names that begin with '{name}.', not {', '.join(wrong)}")
        for operator in cls.operators:
            register_op_attr(entry(operator).name, f"target.{name}", _taking(cls), level=15)
        if patterns:
            register_pattern_table(name, cls.patterns)
        if issubclass(cls, Graph):
            tvm_ffi.register_global_func(runtime_name(name), _running(name, cls), override=True)
        CODEGENS[name] = cls()
        return cls

    return register


def find(name: str) -> Codegen:
    """Return the code generator of a name; CompileError with close names when there is none."""
    if name not in CODEGENS:
        raise CompileError(
            f"there is no code generator {name!r}{suggest(name, CODEGENS)}; register one with vmkit.byoc.codegen, or "
            f"as the global function relay.ext.{name}"
        )
    return CODEGENS[name]


def _taking(cls: type[Codegen]) -> Callable[[Call], bool]:
    def takes(call: Call) -> bool:
        return isinstance(call.op, Op) and call.op.name in cls.operators and cls.takes(call) is True

    return takes


def _running(name: str, cls: type[Graph]) -> Callable[..., None]:
    """Return the packed function that runs graphs: it takes one as text, the arguments, and what results go into."""

    @functools.cache
    def loaded(text: str) -> tuple[Compute, int]:
        described: Mapping[str, Any] = json.loads(text)
        return cls.load(described["graph"]), int(described["results"])

    def run(text: str, *tensors: tvm.runtime.Tensor) -> None:
        compute, count = loaded(str(text))
        try:
            made = compute(*[tensor.numpy() for tensor in tensors[:-count]])
        except Exception as error:
            raise VMError(f"{name} failed: {type(error).__name__}: {error}") from error
        results = list(made) if isinstance(made, list | tuple) else [made]
        places = tensors[-count:]
        if len(results) != count:
            raise VMError(f"{name} returned {len(results)} results where the program has {count}")
        for i, (result, place) in enumerate(zip(results, places, strict=True)):
            array = np.asarray(result)
            if array.shape != tuple(place.shape) or str(array.dtype) != str(place.dtype):
                raise VMError(
                    f"result {i} of {name} is {array.dtype}{list(array.shape)}, expected "
                    f"{place.dtype}{list(place.shape)}"
                )
            place.copyfrom(array)

    return run
