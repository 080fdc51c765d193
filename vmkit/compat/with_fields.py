"""``CallWithFields`` and its like: a node again with some fields changed, the same one where none is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vmkit.errors import UnavailableError
from vmkit.relay import ir
from vmkit.relay.ir.spans import NODE_FIELDS

__all__ = [
    "CallWithFields",
    "ConstantWithFields",
    "FunctionWithFields",
    "IfWithFields",
    "LetWithFields",
    "RefCreateWithFields",
    "RefReadWithFields",
    "RefWriteWithFields",
    "TupleGetItemWithFields",
    "TupleWithFields",
    "VarWithFields",
]


# What Relay's Python called fields that the constructors call otherwise.
_KEYWORDS = {"ty_params": "type_params", "ref_value": "value", "let_var": "var"}


def _maker(kind: type) -> Callable[..., Any]:
    fields = NODE_FIELDS[kind]
    takes = (*fields, "virtual_device", "span")

    def with_fields(node: Any, *given: Any, **named: Any) -> Any:
        """Return the node with those fields changed that are given, in the order of its constructor, and not None.

        After the fields come ``virtual_device``, which cannot be given, and ``span``.
        """
        plain = {name.removeprefix("new_"): value for name, value in named.items()}
        new = {**dict(zip(takes, given, strict=False)), **{_KEYWORDS.get(n, n): v for n, v in plain.items()}}
        new = {name: value for name, value in new.items() if value is not None}
        if len(given) > len(takes) or not set(new) <= set(takes):
            raise TypeError(f"what changes of a {kind.__name__} is {', '.join(takes)}")
        _refuse_device(new.pop("virtual_device", None))
        span = new.pop("span", None)
        old = {name: getattr(node, name) for name in fields}
        if any(value is not old[name] for name, value in new.items()):
            node = kind(**{_ARGUMENTS.get(name, name): value for name, value in (old | new).items()}, span=node.span)
        return ir.with_span(node, span)

    with_fields.__name__ = with_fields.__qualname__ = f"{kind.__name__}WithFields"
    return with_fields


_ARGUMENTS = {"var": "variable"}  # a constructor's argument, where it is not called as the field


def _refuse_device(virtual_device: Any) -> None:
    if virtual_device is not None:
        raise UnavailableError(
            "nodes have no virtual device; relay.annotation.on_device says where an expression is computed"
        )


CallWithFields = _maker(ir.Call)
ConstantWithFields = _maker(ir.Constant)
FunctionWithFields = _maker(ir.Function)
IfWithFields = _maker(ir.If)
LetWithFields = _maker(ir.Let)
RefCreateWithFields = _maker(ir.RefCreate)
RefReadWithFields = _maker(ir.RefRead)
RefWriteWithFields = _maker(ir.RefWrite)
TupleGetItemWithFields = _maker(ir.TupleGetItem)
TupleWithFields = _maker(ir.Tuple)


def VarWithFields(
    variable: ir.Var,
    vid: ir.Var | None = None,
    type_annotation: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> ir.Var:
    """Return a variable with another type or place; it is a new one, to be put wherever the old one is used."""
    _refuse_device(virtual_device)
    name = (vid if vid is not None else variable).name_hint
    changes = (
        span is not None
        or name != variable.name_hint
        or not (type_annotation is None or type_annotation == variable.type_annotation)
    )
    if not changes:
        return variable
    return ir.Var(name, type_annotation or variable.type_annotation, span or variable.span)
