"""Builders of operators, derived: what a script calls, ``relay.nn.conv2d(data, weight, strides=2)``.

A builder takes an operator's inputs and attributes. Its signature, defaults and documentation are those of the row of
the attributes; :class:`Parameters` says in what Relay's Python function differed from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any as AnyValue

from tvm.ir import Op

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ..ir.expr import Call, Expr
from .attrs import AttrField, Attrs
from .fields import REQUIRED

__all__ = ["Parameters", "derived_builder"]


@dataclass(frozen=True)
class Parameters:
    """In what the parameters of a builder differ from the inputs and, after them, the attributes.

    Attributes
    ----------
    order : str
        The names of all parameters; empty where inputs and attributes come in their own order.
    given : mapping
        Defaults of parameters that are inputs, or that the operator has otherwise than its row.
    renamed : mapping
        The inputs and attributes whose parameters have other names, by parameter.
    fixed : mapping
        The attributes that are no parameters and not what they are by default.
    kept : sequence of str
        The parameters that go into the attributes as they are given, though their field spreads over axes.
    """

    order: str = ""
    given: Mapping[str, AnyValue] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, AnyValue] = field(default_factory=dict)
    kept: Sequence[str] = ()


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a builder: an input, or the attribute of a field."""

    name: str
    field: AttrField | None
    default: AnyValue
    is_variadic: bool = False

    def text(self) -> str:
        """Return what numpydoc says of it."""
        if self.field is not None:
            rest = self.field.text(self.default).partition(" : ")[2]
            return f"{self.name} : {rest}"
        kind = "Expr" if self.default is REQUIRED else f"Expr, default {self.default!r}"
        return f"*{self.name} : Expr" if self.is_variadic else f"{self.name} : {kind}"


def derived_builder(
    name: str,
    inputs: Sequence[str],
    attrs: type[Attrs] | None,
    doc: str,
    how: Parameters | None = None,
    make: Callable[..., AnyValue] | None = None,
    value: Callable[[Call], AnyValue] | None = None,
) -> Callable[..., AnyValue]:
    """Return the builder of an operator, with a real signature, so that help() and editors show it.

    Parameters
    ----------
    name, inputs, attrs, doc
        Those of the operator.
    how : Parameters, optional
        In what its parameters differ from inputs and attributes.
    make : callable, optional
        Makes the expression of the parameters, by name, where it is more than a call of the operator.
    value : callable, optional
        What the builder returns of the call.
    """
    how = how or Parameters()
    parameters = _parameters(inputs, attrs, how)
    signature = _signature(parameters, is_ordered=bool(how.order))
    spreads = {p.name: p.field.spread for p in parameters if p.field is not None and p.name not in how.kept}

    bind = _binder(signature)

    def build_call(*args: AnyValue, **kwargs: AnyValue) -> AnyValue:
        try:
            values = bind(args, kwargs)
        except TypeError as error:
            raise TypeCheckError(f"{name}{signature}: {error}") from None
        for key, spread in spreads.items():
            values[key] = values[key] if spread is None else spread(values[key])
        if make is not None:
            return make(**values)
        values = {how.renamed.get(key, key): v for key, v in values.items()}
        operands: list[Expr] = []
        for each in inputs:
            operands += values.pop(each[1:]) if each.startswith("*") else [values.pop(each)]
        call = Call(Op.get(name), operands, None if attrs is None else attrs(**values, **how.fixed))
        return call if value is None else value(call)

    build_call.__name__ = name.rsplit(".", 1)[-1]
    build_call.__qualname__ = name
    by_name = {p.name: p for p in parameters}
    texts = ["", "", "Parameters", "----------", *(by_name[n].text() for n in signature.parameters)]
    build_call.__doc__ = doc + ("\n".join(texts) if parameters else "")
    build_call.__signature__ = signature  # type: ignore[attr-defined]
    build_call.derived = how  # type: ignore[attr-defined]
    return build_call


def _parameters(inputs: Sequence[str], attrs: type[Attrs] | None, how: Parameters) -> list[_Parameter]:
    """Return the parameters in their order."""
    fields = {f.name: f for f in (attrs.declared if attrs is not None else ())}
    operands = {i.lstrip("*"): i.startswith("*") for i in inputs}
    hidden = {*how.renamed.values(), *how.fixed} - set(how.renamed)
    names = how.order.split() or [*operands, *(n for n in fields if n not in hidden)]
    unknown = [n for n in names if how.renamed.get(n, n) not in {**operands, **fields}]
    if unknown:
        raise ValueError(f"a builder has the parameters {', '.join(unknown)}, which are neither inputs nor attributes")
    made = []
    for name in names:
        source = how.renamed.get(name, name)
        if source in operands:
            made.append(_Parameter(name, None, how.given.get(name, REQUIRED), operands[source]))
        else:
            said = fields[source]
            made.append(_Parameter(name, said, how.given.get(name, said.script)))
    return made


def _binder(signature: inspect.Signature) -> Callable[[tuple[AnyValue, ...], dict[str, AnyValue]], dict[str, AnyValue]]:
    """Return what gives the value of each parameter for a call; TypeError where they do not fit.

    A signature binds arguments by itself, but that takes a third of building a call, and an import of a model builds
    thousands: calls that fit a plain signature are put together here, and the others left to it.
    """
    names = list(signature.parameters)
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not p.empty}
    is_plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())

    def bind(args: tuple[AnyValue, ...], kwargs: dict[str, AnyValue]) -> dict[str, AnyValue]:
        if is_plain and len(args) <= len(names):
            given = dict(zip(names, args, strict=False))
            values = {**defaults, **given, **kwargs}
            if kwargs.keys().isdisjoint(given) and values.keys() == signature.parameters.keys():
                return values
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    return bind


def _signature(parameters: Sequence[_Parameter], *, is_ordered: bool) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    has_star = any(p.is_variadic for p in parameters)
    listed = []
    for p in parameters:
        if p.is_variadic:
            listed.append(inspect.Parameter(p.name, inspect.Parameter.VAR_POSITIONAL))
        elif has_star and p.field is not None:
            listed.append(inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=p.default))
        else:
            listed.append(inspect.Parameter(p.name, kind, default=p.default))
    if not is_ordered:
        # Required attributes may follow optional ones in Relay's own order; Python wants them first.
        listed.sort(key=lambda p: (p.kind, p.default is not p.empty and p.kind is kind))
    return inspect.Signature(listed)
