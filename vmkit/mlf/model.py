"""A model as the files and the metadata of the Model Library Format's full-model style."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

import tvm
from tvm.target import Target

from .. import relay
from .._dataclasses import dataclass
from ..byoc.region import Region
from ..target.plan import command_line
from .c_kernels import kernels_source
from .c_main import MainWriter
from .foreign import ForeignCode
from .graph import Graph, graph_of, packed_source
from .kernels import Kernel
from .objects import object_file, object_module
from .packed import packed_entry, packed_head
from .planning import Plan
from .program import Program
from .templates import template_files
from .wrapper import wrapper_files

__all__ = ["ALIGNMENT", "Model"]

_LONGEST_SYMBOL = 80
ALIGNMENT = 16
"""Of the workspace at least, in bytes."""


@dataclass(frozen=True)
class Model:
    """A model, compiled.

    Attributes
    ----------
    name : str
        An identifier of C, which all its names contain.
    target : Target
        What it is for.
    program, plan, kernels
        What runs, where its tensors are, and the kernels that it calls.
    text : str
        The model in Relay's text, or in Relax's where it never was Relay.
    text_suffix : str
        ``relay`` or ``relax``.
    alignment : int
        Of the workspace, in bytes.
    executor : str
        ``aot``, an entry in C, or ``graph``, a description for a runtime.
    target_text : str
        How the description names the target; by default as on a command line.
    graph_metadata : mapping of str to str
        What stands in the JSON beside a graph.
    interface : str
        How the entry in C takes tensors: ``c``, in structs of pointers, or ``packed``, as TVM's C runtime calls it.
    sources : mapping of str to (Region, str)
        The C of other code generators that the program calls, by the functions.
    """

    name: str
    target: Target
    program: Program
    plan: Plan
    kernels: Mapping[str, Kernel]
    text: str
    text_suffix: str
    alignment: int
    executor: str = "aot"
    target_text: str = ""
    graph_metadata: Mapping[str, str] = field(default_factory=dict)
    interface: str = "c"
    sources: Mapping[str, tuple[Region, str]] = field(default_factory=dict)

    @cached_property
    def symbols(self) -> dict[str, str]:
        """The name of each kernel's function."""
        return {name: _symbol(self.name, name) for name in self.kernels}

    @cached_property
    def writer(self) -> MainWriter:
        """What writes the entry."""
        entry, declared = f"tvmgen_{self.name}_run", []
        if self.interface == "packed":
            said = "/* The same, as TVM's C runtime calls it: of DLTensors, those of the inputs first. */"
            declared, entry = [said, f"{packed_head(entry)};", ""], f"{entry}_unpacked"
        return MainWriter(
            *(self.name, self.program, self.plan, self.kernels, self.symbols, self.alignment, entry, self.foreign),
            declared,
        )

    @cached_property
    def foreign(self) -> ForeignCode:
        """The functions of other code generators."""
        return ForeignCode(f"tvmgen_{self.name}", self.sources)

    def files(self) -> dict[str, bytes]:
        """Return the files of the model, by their places in the archive."""
        made = self._entry_files() if self.graph is None else self._graph_files(self.graph)
        made[f"src/{self.name}.{self.text_suffix}"] = self.text.encode()
        if self.target.kind.name == "c":
            made[f"codegen/host/src/{self.name}_lib1.c"] = kernels_source(self.kernels, self.functions).encode()
        else:
            made[f"codegen/host/lib/{self.name}_lib0.o"] = object_file(self.built_kernels)
        return made

    @cached_property
    def functions(self) -> Mapping[str, str]:
        """The name of the function that each kernel itself is."""
        return self.symbols if self.graph is None else self.inner

    @cached_property
    def built_kernels(self) -> tvm.runtime.Module:
        """The kernels for an ``llvm`` target."""
        return object_module(self.kernels, self.functions, self.target)

    def code(self, form: str) -> str | None:
        """Return the code in C, ``c``, or that of the kernels in LLVM's IR or as assembly, ``ll`` and ``asm``.

        None where there is no such code for the target.
        """
        if form == "c":
            sources = {place: text for place, text in self.files().items() if place.startswith("codegen/host/src/")}
            return "\n".join(sources[place].decode() for place in sorted(sources))
        if self.target.kind.name == "llvm" and form in ("ll", "asm"):
            return str(self.built_kernels.inspect_source(form))
        return None

    @cached_property
    def graph(self) -> Graph | None:
        """The program as a graph, if that is wanted."""
        return (
            graph_of(self.program, self.kernels, self.symbols, self.graph_metadata)
            if self.executor == "graph"
            else None
        )

    @property
    def inner(self) -> dict[str, str]:
        """The names of the kernels' own functions, where those of their names have another convention."""
        return {name: f"{symbol}_kernel" for name, symbol in self.symbols.items()}

    def _graph_files(self, graph: Graph) -> dict[str, bytes]:
        return {
            f"codegen/host/src/{self.name}_lib0.c": packed_source(self.kernels, self.symbols, self.inner).encode(),
            f"executor-config/graph/{self.name}.graph": graph.text.encode(),
            f"parameters/{self.name}.params": bytes(relay.save_param_dict(graph.params)),
        }

    def _entry_files(self) -> dict[str, bytes]:
        source, name = "codegen/host/src", self.name
        texts = {
            f"{source}/{name}_lib0.c": self.writer.source(),
            f"codegen/host/include/tvmgen_{name}.h": self.writer.header(),
            **wrapper_files(self.writer),
            **template_files(self.writer),
        }
        if self.interface == "packed":
            texts[f"{source}/{name}_lib2.c"] = packed_entry(self.writer)
        if self.sources:
            texts[f"{source}/{name}_lib3.c"] = self.foreign.file()
        made = {place: text.encode() for place, text in texts.items()}
        # Constants are arrays in the code; the file is there for whoever looks for it.
        made[f"parameters/{name}.params"] = bytes(relay.save_param_dict({}))
        return made

    @property
    def workspace_bytes(self) -> int:
        """The bytes between inputs and outputs: of the one workspace, or of a graph's storages and largest kernel."""
        if self.graph is None:
            return self.plan.size
        inside = [each for each in self.graph.storage if "input_binding" not in each]
        between = [each["size_bytes"] for each in inside if each["storage_id"] not in self.graph.results]
        own = max((sum(kernel.workspace_sizes) for kernel in self.kernels.values()), default=0)
        return sum(between) + own

    @property
    def constant_bytes(self) -> int:
        """The bytes of constants: of arrays in the code, or of a graph's parameters."""
        if self.graph is None:
            return self.writer.constant_bytes()
        return sum(each.nbytes for each in self.graph.params.values())

    def metadata(self, export_datetime: str) -> dict[str, Any]:
        """Return what ``metadata.json`` says of the model."""
        inputs = {name: {"size": t.nbytes, "dtype": t.dtype} for name, t in self.program.inputs}
        outputs = {name: {"size": t.nbytes, "dtype": t.dtype} for name, t in self.program.outputs}
        main = {
            "device": 1,
            "workspace_size_bytes": self.workspace_bytes,
            "constants_size_bytes": self.constant_bytes,
            "io_size_bytes": sum(t.nbytes for _, t in (*self.program.inputs, *self.program.outputs)),
            "inputs": inputs,
            "outputs": outputs,
        }
        operators = [
            {
                "function_name": self.symbols[name],
                "workspace": [{"device": 1, "workspace_size_bytes": sum(kernel.workspace_sizes)}],
            }
            for name, kernel in self.kernels.items()
        ]
        return {
            "model_name": self.name,
            "export_datetime": export_datetime,
            "memory": {
                **({} if self.graph is None else {"sids": self.graph.storage}),
                "functions": {"main": [main], "operator_functions": operators},
            },
            "target": [self.target_text or command_line(self.target)],
            "executors": [self.executor],
            "style": "full-model",
            "external_dependencies": [],
        }


def _symbol(model: str, kernel: str) -> str:
    """Return the name of a kernel's function: a long one is cut, and ends in a digest of what it was."""
    name = f"tvmgen_{model}_{re.sub(r'[^A-Za-z0-9_]', '_', kernel)}"
    if len(name) <= _LONGEST_SYMBOL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_SYMBOL - 17]}_{digest}"
