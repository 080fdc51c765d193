"""``tvm.contrib.debugger.debug_executor``: a model run node by node, so that each value and each time can be seen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.runtime import Device, Tensor
from tvm.runtime.module import BenchmarkResult

from vmkit.errors import InputError, suggest
from vmkit.profiling import Count, Duration, Percent, Report
from vmkit.relay.ir import Constant
from vmkit.values.param_dict import save_param_dict

from .built_module import BuiltModule
from .graph_executor import built_of
from .graph_module import GraphModule
from .graph_program import Node, value_of
from .graph_values import leaves
from .memory_plan import graph_order

__all__ = ["GraphModuleDebug", "create"]


def create(
    graph_json_str: str,
    libmod: BuiltModule | tvm.runtime.Module,
    device: Device | Sequence[Device],
    dump_root: str | Path | None = None,
) -> GraphModuleDebug:
    """Return a built model on a device, to be run node by node.

    Parameters
    ----------
    graph_json_str, libmod, device
        As for ``graph_executor.create``.
    dump_root : path, optional
        A folder for the graph and, after each run, for the values of all nodes.
    """
    devices: list[Any] = list(device) if isinstance(device, list | tuple) else [device]
    built = built_of(graph_json_str, libmod, devices)
    return GraphModuleDebug(built["debug_create"](built.libmod_name, *devices), devices, graph_json_str, dump_root)


class GraphModuleDebug(GraphModule):
    """A model that is run node by node.

    A node is an operator, or several that were fused: what the graph lists. The model itself is run in larger steps,
    in other layouts and with packed weights: the times of nodes do not add up to its time.

    Parameters
    ----------
    module : GraphModule
        What ``lib["debug_create"]("default", device)`` gave.
    device : Device or list of Device
        Where it runs.
    graph_json_str : str
        The graph.
    dump_root : path, optional
        As for :func:`create`.
    """

    def __init__(
        self,
        module: GraphModule,
        device: Device | Sequence[Device],
        graph_json_str: str,
        dump_root: str | Path | None = None,
    ) -> None:
        super().__init__(module)
        self._device = device[0] if isinstance(device, list | tuple) else device
        built = module.built
        if built is None:
            raise InputError("a model is run node by node from what relay.build gave for it: lib['debug_create'](...)")
        devices: list[Any] = list(device) if isinstance(device, list | tuple) else [device]
        self._main, nodes = built.source.nodes(devices)
        computing = {node.expr: node for node in nodes}
        # As the graph counts: parameters, constants and what is computed; tuples are no nodes.
        order = [expr for expr in graph_order(self._main) if expr in computing or not hasattr(expr, "fields")]
        self._order = [expr for expr in order if not hasattr(expr, "tuple_value")]
        self._computing: dict[Any, Node] = computing
        self._node_names = [node["name"] for node in json.loads(graph_json_str)["nodes"]]
        self._known: dict[Any, Any] = {}
        self._dump = None if dump_root is None else Path(dump_root)
        if self._dump is not None:
            self._dump.mkdir(parents=True, exist_ok=True)
            (self._dump / "_tvmdbg_graph_dump.json").write_text(graph_json_str)
        own = (self.debug_get_output, self.profile, self.run_individual, self.run_individual_node)
        self._functions.update({function.__name__: function for function in own})

    def run(self, **inputs: Any) -> None:
        """Run the model node by node on the inputs that are set."""
        self._run_nodes(lambda node, values: node.function(*values), **inputs)

    def _run_nodes(self, call: Callable[[Node, list[Any]], Any], **inputs: Any) -> None:
        self.set_input(**inputs)
        self._set_missing()
        known = {param: self._inputs[name] for param, name in zip(self._main.params, self._names, strict=True)}
        for expr, node in self._computing.items():
            known[expr] = call(node, [value_of(argument, known) for argument in node.arguments])
        self._known = known
        self._outputs = list(leaves(value_of(self._main.body, known)))
        if self._dump is not None:
            tensors = {f"{name}____{at}": t for name in self._node_names for at, t in enumerate(self._values_of(name))}
            (self._dump / "output_tensors.params").write_bytes(save_param_dict(tensors))

    def debug_get_output(self, node: int | str, out: Tensor | None = None) -> Tensor:
        """Return what a node, by its place in the graph or its name, gave in the last run, or copy it into a tensor."""
        found = self._values_of(node)[0]
        return found if out is None else found.copyto(out)

    def _values_of(self, node: int | str) -> list[Tensor]:
        if not self._known:
            raise InputError("there are no values yet, call run first")
        expr = self._order[self._place(node)]
        value = expr.data if isinstance(expr, Constant) else self._known[expr]
        return [v if isinstance(v, Tensor) else tvm.runtime.tensor(v) for v in leaves(value)]

    def _place(self, node: int | str) -> int:
        if isinstance(node, int) and 0 <= node < len(self._order):
            return node
        if node not in self._node_names:
            raise InputError(f"the graph has no node {node!r}{suggest(str(node), self._node_names)}")
        return self._node_names.index(str(node))

    def run_individual(
        self, number: int, repeat: int = 1, min_repeat_ms: int = 0, **options: Any
    ) -> list[tuple[float, ...]]:
        """Return for each node of the graph the seconds that it takes, `repeat` times; 0 for what is not computed."""
        taken = [
            self.run_individual_node(at, number, repeat, min_repeat_ms, **options) for at in range(len(self._order))
        ]
        return [tuple(each.results) for each in taken]

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """Return the seconds that one node takes, as `repeat` means of at least `number` calls each.

        Calls go on until `min_repeat_ms` have passed; after each `repeats_to_cooldown` of them the processor rests.
        `limit_zero_time_iterations` is of no use here: no call takes no time.
        """
        if not self._known:
            self.run()
        node = self._computing.get(self._order[self._place(index)])
        if node is None:
            return BenchmarkResult([0.0] * repeat)
        values = [value_of(argument, self._known) for argument in node.arguments]
        means = []
        for at in range(repeat):
            means.append(_mean_seconds(lambda: node.function(*values), number, min_repeat_ms / 1000))
            if (at + 1) % repeats_to_cooldown == 0:
                time.sleep(cooldown_interval_ms / 1000)
        return BenchmarkResult(means)

    def profile(self, collectors: None = None, **input_dict: Any) -> Report:
        """Return what one run did, node by node."""
        if collectors:
            raise InputError("TVM reads no hardware counters any more: leave out collectors")
        rows: list[tuple[str, float, str]] = []
        names = {expr: name for expr, name in zip(self._order, self._node_names, strict=True)}

        def timed(node: Node, values: list[Any]) -> object:
            begin = time.perf_counter()
            result = node.function(*values)
            shapes = ", ".join(str(ty.checked_type) for ty in node.arguments)
            rows.append((names[node.expr], 1e6 * (time.perf_counter() - begin), shapes))
            return result

        self._run_nodes(timed, **input_dict)
        whole = sum(taken for _, taken, _ in rows) or 1.0
        device = str(self._device)
        calls = [
            {
                **{"Name": name, "Duration (us)": Duration(taken), "Percent": Percent(100 * taken / whole)},
                **{"Device": device, "Count": Count(1), "Argument Shapes": shapes},
            }
            for name, taken, shapes in rows
        ]
        return Report(calls, {device: {"Duration (us)": Duration(whole)}}, {"Executor": "Graph"})

    def exit(self) -> None:
        """Give up the values of the last run."""
        self._known = {}


def _mean_seconds(call: Callable[[], object], number: int, least: float) -> float:
    count, begin = 0, time.perf_counter()
    while True:
        for _ in range(number):
            call()
        count += number
        taken = time.perf_counter() - begin
        if taken >= least:
            return taken / count
