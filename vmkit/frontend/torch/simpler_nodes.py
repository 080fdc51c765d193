"""Programs whose operators are all common ones, written by simpler operators node by node.

PyTorch writes a program by simpler operators where it runs it on tensors without values. Sizes are formulas there, and
to find them again takes twenty times as long as all else of the import. Here each node keeps the sizes that the export
found. What this module does not know is left to PyTorch, with the whole program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from .arguments import arguments_of, dtype_of

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export.graph_signature import ExportGraphSignature

__all__ = ["with_simpler_nodes"]

_Rule: TypeAlias = "Callable[[_Writer, fx.Node, list[Any]], fx.Node]"


class _UnknownError(Exception):
    """Something of a program is left to PyTorch."""


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

    writer = _Writer(fx.Graph(), decomposed, kept)
    try:
        for place, node in enumerate(program.graph_module.graph.nodes):
            writer.places[node] = place
        for node in program.graph_module.graph.nodes:
            writer.write(node)
        signature = _renamed(program.graph_signature, writer.names())
    except _UnknownError:
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
        raise _UnknownError
    made = copy(signature)
    made.input_specs = list(signature.input_specs)
    made.output_specs = [
        replace(spec, arg=replace(spec.arg, name=names.get(spec.arg.name, spec.arg.name)))
        for spec in signature.output_specs
    ]
    return made


class _Writer:
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
        Where in the program its nodes stand.
    """

    def __init__(self, graph: fx.Graph, decomposed: Container[Any], kept: Container[str]) -> None:
        self.graph, self._decomposed, self._kept = graph, decomposed, kept
        self.made: dict[fx.Node, fx.Node] = {}
        self.sharing: dict[fx.Node, set[fx.Node]] = {}
        self.places: dict[fx.Node, int] = {}

    def names(self) -> dict[str, str]:
        """Return the names of nodes by those that they had."""
        return {old.name: new.name for old, new in self.made.items()}

    def write(self, node: fx.Node) -> None:
        """Write what a node of the program becomes."""
        self.sharing[node] = {node}
        if node.op == "call_function":
            self.made[node] = self._called(node)
        elif node.op in ("placeholder", "output"):
            self.made[node] = self._copied(node)
            self.made[node].name = node.name  # also where fx would avoid it, such as that of a function of Python
        else:
            raise _UnknownError

    def call(self, node: fx.Node, target: Any, *args: Any, value: Any = None, is_last: bool = True) -> fx.Node:  # noqa: ANN401 - as fx
        """Write a call for a node of the program, or a part of one; `value` is what it gives, by default the same."""
        made = self.graph.create_node("call_function", target, args, name=node.name if is_last else None)
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

    def _copied(self, node: fx.Node) -> fx.Node:
        return self.graph.node_copy(node, lambda each: self.made[each])

    def _called(self, node: fx.Node) -> fx.Node:
        import torch

        target = node.target
        if getattr(target, "__module__", "") == "_operator":
            if target is operator.getitem:
                self.share(node, cast("fx.Node", node.args[0]))
            return self._copied(node)
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            raise _UnknownError
        if target._schema.is_mutable:
            return self._written(node, target)
        for argument in target._schema.returns:
            if argument.alias_info is not None:
                self.share(node, cast("fx.Node", node.args[0]))
        return self._functional(node, target)

    def _functional(self, node: fx.Node, target: Any) -> fx.Node:  # noqa: ANN401 - as fx
        rule = _RULES.get(target.__name__)
        if rule is None:
            if target in self._decomposed or (_is_composite(target) and target.__name__ not in self._kept):
                raise _UnknownError
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
            raise _UnknownError
        changed = cast("fx.Node", node.args[0])
        # Parameters and inputs are written for good, and another name of the same memory would show the change.
        others = self.sharing[changed] - {changed}
        if changed.op == "placeholder" or any(self._is_read_later(each, node) for each in others):
            raise _UnknownError
        # A number that is a size has no type, and one of another type would change that of the result.
        types = {getattr(each.meta.get("val"), "dtype", None) for each in (node, *node.all_input_nodes)}
        if None in types or len(types) > 1:
            raise _UnknownError
        self.share(node, changed)
        made = self._functional(node, getattr(plain, target._overloadname))
        self.made[changed] = made
        return made

    def _is_read_later(self, node: fx.Node, than: fx.Node) -> bool:
        return node.op == "placeholder" or any(self.places[user] > self.places[than] for user in node.users)


def _is_composite(target: Any) -> bool:  # noqa: ANN401 - as fx
    """Say whether PyTorch itself has no kernel for an operator, but writes it by others."""
    import torch

    return torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")


def _aten() -> Any:  # noqa: ANN401 - it is made of attributes
    import torch

    return torch.ops.aten


def _convolution(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, weight, bias, stride, padding, dilation, groups = args
    rank = len(node.meta["val"].shape) - 2
    if len(data.meta["val"].shape) != rank + 2 or isinstance(padding, str):
        raise _UnknownError
    ways = ([each] if isinstance(each, int) else list(each) for each in (stride, padding, dilation))
    return w.call(node, _aten().convolution.default, data, weight, bias, *ways, False, [0] * rank, groups)


def _normalized(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, weight, bias, mean, variance, is_training, momentum, epsilon, _ = args
    if is_training or any(each is None for each in (weight, bias, mean, variance)):
        raise _UnknownError
    target = _aten()._native_batch_norm_legit_no_training.default
    return w.first(node, target, data, weight, bias, mean, variance, momentum, epsilon)


def _layer(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, shape, weight, bias, epsilon, _ = args
    if weight is None or bias is None:
        raise _UnknownError
    return w.first(node, _aten().native_layer_norm.default, data, shape, weight, bias, epsilon)


def _largest(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, size, stride, *rest = args
    if len(data.meta["val"].shape) != 4:
        raise _UnknownError
    return w.first(node, _aten().max_pool2d_with_indices.default, data, size, stride or size, *rest)


def _adapted(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, size = args
    if list(size) == [1, 1]:
        return w.call(node, _aten().mean.dim, data, [-1, -2], True)
    return w.call(node, _aten()._adaptive_avg_pool2d.default, data, list(size))


def _kept(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return what an operator drops elements of in training alone."""
    _, _, is_training = args
    if is_training:
        raise _UnknownError
    return _same(w, node, args)


def _same(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return what an operator is taken of, whose elements lie otherwise in memory at most."""
    w.share(node, cast("fx.Node", node.args[0]))
    return cast("fx.Node", args[0])


def _cut(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return the pieces of a tensor along an axis."""
    data, _, axis = args
    w.share(node, cast("fx.Node", node.args[0]))
    sizes = [each.shape[axis] for each in node.meta["val"]]
    if not all(isinstance(size, int) for size in sizes):
        raise _UnknownError
    return w.call(node, _aten().split_with_sizes.default, data, sizes, axis)


def _viewed(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    """Return another shape of a tensor, which importers take from what is known of the node."""
    w.share(node, cast("fx.Node", node.args[0]))
    shape = [size if isinstance(size, int) else -1 for size in node.meta["val"].shape]
    return w.call(node, _aten().view.default, args[0], shape)


def _swapped(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, first, second = args
    axes = list(range(len(node.meta["val"].shape)))
    axes[first], axes[second] = axes[second], axes[first]
    return w.call(node, _aten().permute.default, data, axes)


def _of_rows(name: str) -> _Rule:
    def softmax(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
        data, axis, dtype = args
        if dtype is not None:
            raise _UnknownError
        return w.call(node, getattr(_aten(), name).default, data, axis, False)

    return softmax


def _limited(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    data, low, high = [*args, 0, 6][:3] if len(args) == 1 else args
    return w.call(node, _aten().clamp.default, data, low, high)


def _as_it_is(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    return w.call(node, node.target, *args)


def _attended(w: _Writer, node: fx.Node, args: list[Any]) -> fx.Node:
    query, key, value, mask, dropout, _, scale, is_grouped = args
    sizes = [each.meta["val"].shape for each in (query, key, value)]
    is_plain = dropout == 0 and not is_grouped and isinstance(scale, float | None) and isinstance(sizes[0][-1], int)
    masks = () if mask is None else (mask,)
    types = {dtype_of(each) for each in (query, key, value)}
    is_plain = is_plain and types == {"float32"} and all(dtype_of(each) in ("bool", "float32") for each in masks)
    if not is_plain or any(len(shape) != 4 for shape in sizes):
        raise _UnknownError
    return w.call(node, node.target, *args)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("conv1d.default", "conv2d.default", "conv3d.default"), _convolution),
    **dict.fromkeys(("chunk.default", "split.Tensor"), _cut),
    **dict.fromkeys(("contiguous.default", "detach.default"), _same),
    **dict.fromkeys(("dropout.default", "feature_dropout.default"), _kept),
    **dict.fromkeys(("flatten.using_ints", "reshape.default", "squeeze.dim", "unflatten.int"), _viewed),
    **dict.fromkeys(("hardtanh.default", "relu6.default"), _limited),
    "adaptive_avg_pool2d.default": _adapted,
    "batch_norm.default": _normalized,
    "layer_norm.default": _layer,
    **dict.fromkeys(("linear.default", "sym_size.int"), _as_it_is),
    "log_softmax.int": _of_rows("_log_softmax"),
    "max_pool2d.default": _largest,
    "scaled_dot_product_attention.default": _attended,
    "softmax.int": _of_rows("_softmax"),
    "transpose.int": _swapped,
}
"""How operators are written by simpler ones, or left as they are for :data:`.undecomposed.UNDECOMPOSED`."""
