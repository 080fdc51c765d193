"""The operator registry: an operator is one class in one file.

A class decorated with :func:`operator` says everything about an operator: its inputs, attributes, fusion pattern, type
relation and lowering, and, where Relay's Python builder took something else than inputs and attributes in order, the
builder. The entry is also put into TVM's own ``Op`` registry under Relay's attribute names.

The class may define (all static):

``relation(attrs, *input_types) -> Type``
    The type relation, called when every input type is known. It raises TypeCheckError.
``infer_inputs(attrs, *input_types) -> Mapping[int, Type]``
    Types of inputs that follow from the attributes and the other inputs; an unknown input type is an IncompleteType.
``compute(attrs, *tensors) -> te.Tensor or list of te.Tensor``
    The value, over TE placeholders: the usual lowering.
``lower(context, attrs, *values) -> relax.Expr``
    The lowering where a TE expression does not serve; see ``vmkit.relay.lower.context``.
``canonicalize(attrs, args, types) -> Expr``
    In place of a lowering, what the operator stands for: an expression of other operators over the expressions
    `args`. `types` are the types of the arguments and, last, of the result. See
    :func:`vmkit.relay.transform.qnn_canonicalize.canonicalize_ops`.
``build(...) -> Expr``
    The builder, when it differs from ``f(*inputs, **attributes)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from tvm.ir import Op, Type
from tvm.ir.op import register_op_attr

from ..._tvm import register_operator
from ...errors import TypeCheckError, suggest
from ..ir import hooks
from ..ir.expr import Call
from .attrs import ATTRS_CLASSES, Attrs

__all__ = ["REGISTRY", "OpEntry", "OpPattern", "attrs_classes", "build", "entry", "namespace", "operator"]

C = TypeVar("C", bound=type)


class OpPattern(IntEnum):
    """How an operator may be fused with its neighbours; TVM's ``TOpPattern``."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


@dataclass(frozen=True, eq=False)
class OpEntry:
    """All that is known of one operator."""

    name: str
    doc: str
    inputs: tuple[str, ...]
    attrs: type[Attrs] | None
    level: int
    pattern: OpPattern
    relation: Callable[..., Type]
    infer_inputs: Callable[..., Mapping[int, Type]] | None
    compute: Callable[..., Any] | None
    lower: Callable[..., Any] | None
    canonicalize: Callable[..., Any] | None
    builder: Callable[..., Any]
    is_pure: bool = True
    is_dynamic: bool = True
    has_effect: bool = False
    home: str = ""
    """The module that registers it."""

    @property
    def op(self) -> Op:
        """The entry of TVM's own registry."""
        return Op.get(self.name)

    @property
    def is_variadic(self) -> bool:
        """Whether the number of inputs is not fixed."""
        return bool(self.inputs) and self.inputs[-1].startswith("*")

    def call(self, *args: Any, **values: Any) -> Call:
        """Return a call of this operator with attributes from keyword values."""
        if self.attrs is None and values:
            raise TypeCheckError(f"{self.name} takes no attributes, got {', '.join(values)}")
        return Call(self.op, args, None if self.attrs is None else self.attrs(**values))


REGISTRY: dict[str, OpEntry] = {}


def operator(
    name: str,
    *inputs: str,
    attrs: type[Attrs] | None = None,
    level: int,
    pattern: OpPattern = OpPattern.OPAQUE,
    pure: bool = True,
    dynamic: bool = True,
    effect: bool = False,
) -> Callable[[C], C]:
    """Register the decorated class as the operator `name`.

    Parameters
    ----------
    name : str
        Relay's name, such as ``"nn.conv2d"``.
    *inputs : str
        The names of the inputs; a last name that starts with ``*`` takes any number.
    attrs : type of Attrs, optional
        The attributes node.
    level : int
        Relay's support level (1, 2, 3, 4, 5, 6, 10, 11).
    pattern : OpPattern
        The fusion pattern of the kernel.
    pure : bool
        Whether equal inputs give equal results; what is not (random numbers, printing) is never folded or merged.
    dynamic : bool
        Whether dimensions of the inputs may be unknown until the program runs; a test runs a sample of each operator.
    effect : bool
        Whether the lowering changes a value in place, so that calls must stay in order.
    """

    def decorate(cls: C) -> C:
        if name in REGISTRY:
            raise ValueError(f"operator {name} is registered twice")
        ways = {way: getattr(cls, way, None) for way in ("compute", "lower", "canonicalize")}
        if sum(way is not None for way in ways.values()) != 1:
            raise ValueError(f"operator {name} must define exactly one of {', '.join(ways)}")
        doc = inspect.cleandoc(cls.__doc__ or "")
        own_builder = getattr(cls, "build", None)
        made = OpEntry(
            name=name,
            doc=doc,
            inputs=inputs,
            attrs=attrs,
            level=level,
            pattern=pattern,
            relation=cls.relation,  # type: ignore[attr-defined]
            infer_inputs=getattr(cls, "infer_inputs", None),
            **ways,
            builder=own_builder or _default_builder(name, inputs, attrs, doc),
            is_pure=pure,
            is_dynamic=dynamic,
            has_effect=effect,
            home=cls.__module__,
        )
        REGISTRY[name] = made
        register_operator(name, doc)
        made.op.set_support_level(level)
        if not made.is_variadic:
            made.op.set_num_inputs(len(inputs))
        for each in inputs:
            made.op.add_argument(each.lstrip("*"), "Tensor", "")
        register_op_attr(name, "FRelayTypeRelation", made.relation)
        register_op_attr(name, "TOpPattern", int(pattern))
        return cls

    return decorate


def entry(op: Op | str) -> OpEntry:
    """Return the entry of an operator; TypeCheckError with close matches when there is none."""
    name = op if isinstance(op, str) else op.name
    found = REGISTRY.get(name)
    if found is None:
        raise TypeCheckError(f"there is no operator {name!r} in Relay{suggest(name, REGISTRY)}")
    return found


def attrs_classes() -> dict[str, type[Attrs]]:
    """Return all attributes classes by type key; a few belong to no operator."""
    return dict(ATTRS_CLASSES)


def build(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a call of the operator `name`, through its builder."""
    return entry(name).builder(*args, **kwargs)


hooks.build.fill(build)


def namespace(prefix: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a module's ``__getattr__`` and ``__dir__`` that serve the builders whose names begin with `prefix`."""

    def get(name: str) -> Any:
        found = REGISTRY.get(prefix + name)
        if found is None:
            raise AttributeError(f"Relay has no operator {prefix + name!r}{suggest(prefix + name, REGISTRY)}")
        return found.builder

    def names() -> list[str]:
        return sorted(n.removeprefix(prefix) for n in REGISTRY if n.startswith(prefix) and "." not in n[len(prefix) :])

    return get, names


def _default_builder(name: str, inputs: Sequence[str], attrs: type[Attrs] | None, doc: str) -> Callable[..., Any]:
    """Return ``f(*inputs, **attributes)`` with a real signature, so that help() and editors show it."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(i.lstrip("*"), inspect.Parameter.VAR_POSITIONAL if i.startswith("*") else kind)
        for i in inputs
    ]
    has_star = bool(inputs) and inputs[-1].startswith("*")
    for field in attrs.declared if attrs is not None else ():
        parameters.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY if has_star else kind, default=field.default)
        )
    # Required attributes may follow optional ones in Relay's own order; Python wants them first.
    signature = inspect.Signature(
        sorted(parameters, key=lambda p: (p.kind, p.default is not p.empty and p.kind is kind))
    )
    names = [i for i in inputs if not i.startswith("*")]

    def build_call(*args: Any, **kwargs: Any) -> Call:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeCheckError(f"{name}{signature}: {error}") from None
        values = dict(bound.arguments)
        operands = [values.pop(n) for n in names]
        if has_star:
            operands += values.pop(inputs[-1].lstrip("*"), ())
        return entry(name).call(*operands, **values)

    build_call.__name__ = name.rsplit(".", 1)[-1]
    build_call.__qualname__ = name
    build_call.__doc__ = doc
    build_call.__signature__ = signature  # type: ignore[attr-defined]
    return build_call
