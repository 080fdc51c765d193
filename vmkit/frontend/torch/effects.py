"""What programs of PyTorch do beside computing: the errors that they raise, in the order that tokens give them.

PyTorch threads a token through each operator with an effect, ``with_effects(token, operator, ...)``. What is imported
runs in its order anyway: the operators are called plainly, and the tokens go from the inputs and results.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, tirx

from ...relay.ir import dims
from .arguments import Converter, Importing, arguments_of

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["EFFECTS", "read_number", "require_none", "require_room", "without_tokens"]


def without_tokens(program: torch.export.ExportedProgram) -> None:
    """Call the operators that have effects plainly in a program, which is changed."""
    graph = program.graph_module.graph
    wrapped = [node for node in graph.nodes if getattr(node.target, "__name__", "") == "with_effects"]
    if not wrapped:
        return
    for node in wrapped:
        token, called, *args = node.args
        with graph.inserting_before(node):
            plain = graph.call_function(cast("Any", called), tuple(args), node.kwargs)
        value = node.meta.get("val")
        results = value[1:] if isinstance(value, tuple | list) else ()
        plain.meta["val"] = results[0] if len(results) == 1 else tuple(results)
        for user in list(node.users):
            assert user.target is operator.getitem
            at = cast("int", user.args[1])
            if at == 0:
                user.replace_all_uses_with(cast("fx.Node", token))
            elif len(results) == 1:
                user.replace_all_uses_with(plain)
            else:
                user.update_arg(0, plain)
                user.update_arg(1, at - 1)
                continue
            graph.erase_node(user)
        graph.erase_node(node)
    _forget_tokens(program)


def _forget_tokens(program: torch.export.ExportedProgram) -> None:
    """Take the tokens from the inputs and the results of a program."""
    from torch.export.graph_signature import InputKind, OutputKind

    graph, signature = program.graph_module.graph, program.graph_signature
    taken = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.TOKEN}
    output = graph.output_node()
    given = cast("tuple[Any, ...]", output.args[0])
    kept = [
        (value, spec)
        for value, spec in zip(given, signature.output_specs, strict=True)
        if spec.kind is not OutputKind.TOKEN
    ]
    output.args = (tuple(value for value, _ in kept),)
    for node in list(graph.find_nodes(op="placeholder")):
        if node.name in taken:
            graph.erase_node(node)
    signature.input_specs = [spec for spec in signature.input_specs if spec.kind is not InputKind.TOKEN]
    signature.output_specs = [spec for _, spec in kept]
    program.graph_module.recompile()


def read_number(importer: Importing, value: relax.Expr, name: str) -> tirx.Var:
    """Return the one element of a tensor, an integer from 0 on, as a number that a run reads.

    Nothing says that it is no other one: :func:`require_room` is for what is made in sizes of it.
    """
    emit, op = importer.block_builder.emit, relax.op
    row = emit(op.reshape(emit(op.astype(value, "int64")), relax.ShapeExpr([1])))
    number = tirx.Var(name, "int64")
    importer.block_builder.match_cast(emit(op.tensor_to_shape(row)), relax.ShapeType([number]))
    importer.read_sizes.add([number])
    return number


def require_room(importer: Importing, shape: Sequence[tirx.Expr], dtype: str, name: str) -> None:
    """Check, before a tensor is made whose sizes are read from data, that they are those of a tensor."""
    if not any(symbol in importer.read_sizes.symbols for symbol in dims.symbols(list(shape))):
        return
    condition = importer.read_sizes.condition(relax.TensorType(list(shape), dtype))
    if condition is not None:
        what = "the sizes of the result, read from data, are negative or of more elements than a tensor can have"
        importer.checks.emit(importer.block_builder, dims.select(condition, 1, 0), 1, f"{name}: {what}")


def require_none(importer: Importing, flag: relax.Expr, name: str, message: str) -> None:
    """Check that a kernel found nothing that PyTorch would raise an error for: its flag is 0."""
    found = read_number(importer, flag, name)
    importer.checks.emit(importer.block_builder, found, tirx.const(0, "int64"), message)


def _require_taken(importer: Importing, node: fx.Node) -> object:
    """Check that a matrix could be taken: where it stands, and what of it, are not told apart."""
    info, called, *_ = arguments_of(node)
    emit = importer.block_builder.emit
    failed = emit(
        relax.op.max(emit(relax.op.astype(relax.op.not_equal(importer.env[info], relax.const(0, "int32")), "int64")))
    )
    require_none(importer, failed, "failed", f"{called}: a matrix is singular, or not positive: it has no factors")
    return None


EFFECTS: dict[str, Converter] = {"_linalg_check_errors.default": _require_taken}
"""The converters, by the names of PyTorch's operators."""
