"""Programs whose operators are all common ones, written by simpler operators node by node.

PyTorch writes a program by simpler operators where it runs it on tensors without values. Sizes are formulas there, and
to find them again takes twenty times as long as all else of the import. Here each node keeps the sizes that the export
found. What this module does not know is left to PyTorch, with the whole program.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .arguments import arguments_of
from .simpler_rules import RULES, UnknownError

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export.graph_signature import ExportGraphSignature

__all__ = ["Writer", "with_simpler_nodes"]


def with_simpler_nodes(
    program: torch.export.ExportedProgram, decomposed: Container[Any], kept: Container[str]
) -> torch.export.ExportedProgram | None:
    """Return a program that is written by simpler operators, and changes nothing in place.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It stays as it is.
    decomposed : container
        The operators that PyTorch writes by others.
    kept : container
        The names of those that it would, but for a converter of their own.

    Returns
    -------
    program : torch.export.ExportedProgram or None
        None where an operator has no rule here, or where what is written in place may be read under another name.
    """
    from torch import fx

    writer = Writer(program.graph_module, decomposed, kept)
    try:
        writer.write_all()
        signature = _renamed(program.graph_signature, writer.names())
    except UnknownError:
        return None
    made: Any = copy(program)
    made._graph_module = fx.GraphModule(program.graph_module, writer.graph)
    made._graph_module.meta = dict(program.graph_module.meta)
    made._graph_signature = signature
    return cast("torch.export.ExportedProgram", made)


def _renamed(signature: ExportGraphSignature, names: Mapping[str, str]) -> ExportGraphSignature:
    """Return a signature of results of other names."""
    from torch.export.graph_signature import OutputKind

    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in signature.output_specs):
        raise UnknownError
    made = copy(signature)
    made.input_specs = list(signature.input_specs)
    made.output_specs = [
        replace(spec, arg=replace(spec.arg, name=names.get(spec.arg.name, spec.arg.name)))
        for spec in signature.output_specs
    ]
    return made


class Writer:
    """Writes a graph anew.

    Attributes
    ----------
    graph : fx.Graph
        What is written.
    made : dict
        What stands for the nodes of the program now: for what was written in place, what it has become.
    sharing : dict
        The nodes of the program that may share memory, by each of them.
    places : dict
        Where in the program its nodes stand; those of a block stand between it and the next.
    results : dict
        What is written for the single results of a node of the program that gives several.
    """

    def __init__(self, program: fx.GraphModule, decomposed: Container[Any], kept: Container[str]) -> None:
        from torch import fx

        self._program, self._decomposed, self._kept = program, decomposed, kept
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.sharing: dict[fx.Node, set[fx.Node]] = {}
        self.places: dict[fx.Node, float] = {}
        self.results: dict[fx.Node, list[fx.Node]] = {}

    def names(self) -> dict[str, str]:
        """Return the names of nodes by those that they had."""
        return {old.name: new.name for old, new in self.made.items() if old.graph is self._program.graph}

    def write_all(self) -> None:
        """Write what all nodes of the program become."""
        nodes = self._program.graph.nodes
        self.places.update((node, place) for place, node in enumerate(nodes))
        for node in nodes:
            self.write(node)

    def write(self, node: fx.Node) -> None:
        """Write what a node of the program becomes."""
        self.sharing[node] = {node}
        if _is_block(node):
            self._write_block(node)
        elif node.op == "get_attr" and all(map(_is_block, node.users)):
            return
        elif node.op == "call_function":
            self.made[node] = self._called(node)
        elif node.op in ("placeholder", "output"):
            self.made[node] = self._copied(node)
            self.made[node].name = node.name  # also where fx would avoid it, such as that of a function of Python
        else:
            raise UnknownError

    def call(
        self,
        node: fx.Node,
        target: Any,  # noqa: ANN401 - as fx
        *args: Any,
        value: Any = None,  # noqa: ANN401 - as fx
        is_last: bool = True,
        **named: Any,
    ) -> fx.Node:
        """Write a call for a node of the program, or a part of one; `value` is what it gives, by default the same."""
        made = self.graph.create_node("call_function", target, args, named, name=node.name if is_last else None)
        made.meta = {**node.meta, "val": node.meta["val"] if value is None else value}
        return made

    def first(self, node: fx.Node, target: Any, *args: Any) -> fx.Node:  # noqa: ANN401 - as fx
        """Write a call that gives several tensors, of which a node of the program is the first."""
        value = node.meta["val"]
        several = self.call(node, target, *args, value=(value, value), is_last=False)
        return self.call(node, operator.getitem, several, 0)

    def share(self, node: fx.Node, others: fx.Node) -> None:
        """Note that a node may share memory with another one."""
        together = self.sharing[others] | {node}
        for each in together:
            self.sharing[each] = together

    def _write_block(self, node: fx.Node) -> None:
        """Write what stands in a block in its place."""
        from torch import fx

        name, *given = [each for each in node.args if isinstance(each, fx.Node)]
        block = getattr(node.graph.owning_module, str(name.target)).graph
        results = block.output_node().args[0]
        are_nodes = isinstance(results, tuple | list) and all(isinstance(each, fx.Node) for each in results)
        if not are_nodes or len(given) != len(block.find_nodes(op="placeholder")):
            raise UnknownError
        inputs = iter(given)
        for place, each in enumerate(block.nodes, 1):
            self.places[each] = self.places[node] + place / (len(block.nodes) + 1)
        for each in block.nodes:
            if each.op == "placeholder":
                outer = next(inputs)
                self.made[each], self.sharing[each] = self.made[outer], {each}
                self.share(each, outer)
            elif each.op == "output":
                self.results[node] = [self.made[result] for result in results]
                for result in results:
                    self.share(node, result)
            else:
                self.write(each)

    def _copied(self, node: fx.Node) -> fx.Node:
        return self.graph.node_copy(node, lambda each: self.made[each])

    def _called(self, node: fx.Node) -> fx.Node:
        import torch

        target = node.target
        if getattr(target, "__module__", "") == "_operator":
            if target is not operator.getitem:
                return self._copied(node)
            several, place = cast("tuple[fx.Node, int]", node.args)
            self.share(node, several)
            return self.results[several][place] if several in self.results else self._copied(node)
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            raise UnknownError
        if target._schema.is_mutable:
            return self._written(node, target)
        for argument in target._schema.returns:
            if argument.alias_info is not None:
                self.share(node, cast("fx.Node", node.args[0]))
        return self._functional(node, target)

    def _functional(self, node: fx.Node, target: Any) -> fx.Node:  # noqa: ANN401 - as fx
        rule = RULES.get(target.__name__)
        if rule is None:
            if target in self._decomposed or (_is_composite(target) and target.__name__ not in self._kept):
                raise UnknownError
            made = self._copied(node)
            made.target = target
            return made
        from torch import fx

        args = fx.node.map_arg(cast("Any", arguments_of(node)), lambda each: self.made[each])
        return rule(self, node, list(cast("Any", args)))

    def _written(self, node: fx.Node, target: Any) -> fx.Node:  # noqa: ANN401 - as fx
        """Write an operator that changes its first operand as one that gives what that becomes."""
        import torch

        name = target._schema.name.removeprefix("aten::")
        plain = getattr(torch.ops.aten, name.removesuffix("_"), None)
        if not name.endswith("_") or plain is None or target._overloadname not in plain.overloads():
            raise UnknownError
        changed = cast("fx.Node", node.args[0])
        # Parameters and inputs are written for good, and another name of the same memory would show the change.
        others = self.sharing[changed] - {changed}
        if changed.op == "placeholder" or any(self._is_read_later(each, node) for each in others):
            raise UnknownError
        # A number that is a size has no type, and one of another type would change that of the result.
        types = {getattr(each.meta.get("val"), "dtype", None) for each in (node, *node.all_input_nodes)}
        if None in types or len(types) > 1:
            raise UnknownError
        self.share(node, changed)
        made = self._functional(node, getattr(plain, target._overloadname))
        self.made[changed] = made
        return made

    def _is_read_later(self, node: fx.Node, than: fx.Node) -> bool:
        return node.op == "placeholder" or any(self.places[user] > self.places[than] for user in node.users)


def _is_block(node: fx.Node) -> bool:
    """Say whether a node is a block of the program that computes as it would outside: nothing in other data types."""
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name == "wrap_with_set_grad_enabled" or (name == "wrap_with_autocast" and node.args[2] is False)


def _is_composite(target: Any) -> bool:  # noqa: ANN401 - as fx
    """Say whether PyTorch itself has no kernel for an operator, but writes it by others."""
    import torch

    return torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
