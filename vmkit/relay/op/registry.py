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
``on_arrays(attrs, *arrays) -> array, or None``
    The value of numpy arrays, element for element what the kernel gives; None where numpy computes otherwise, as with
    some data types. Constants are folded by it, in the place of kernels that would be compiled to run once.
``make(**parameters) -> Expr``
    The value of the builder for its parameters, spread over axes and with defaults, where it is more than a call.
``value(call) -> Expr``
    What the builder returns of the call, such as one field of a tuple.
``build(...) -> Expr``
    The builder, where it is not derived at all; see :mod:`.builder`.

Operators over 1, 2 and 3 spatial axes are one class: with ``{rank}`` in the name, it is registered for each node that
its row of attributes makes, and ``attrs.rank`` says which one it has before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property, partial
from typing import Any, Literal, TypeVar, get_args

from tvm.ir import Op, Type
from tvm.ir.op import register_op_attr

from ..._dataclasses import dataclass
from ..._tvm import register_operator
from ...errors import TypeCheckError, suggest
from ..ir import hooks
from ..ir.expr import Call
from .attrs import ATTRS_CLASSES, Attrs, cleaned
from .builder import Parameters, derived_builder

__all__ = [
    "REGISTRY",
    "Mixed",
    "OpEntry",
    "OpPattern",
    "Parameters",
    "WithLayout",
    "attrs_classes",
    "build",
    "entry",
    "namespace",
    "operator",
]

C = TypeVar("C", bound=type)

# Always faster in lower precision; done in it where the operands are in it already; numerically unfit.
Mixed = Literal["always", "follow", "never"]

# How an operator goes on with a tensor that is held in another layout; the rules are those of
# ``vmkit.relay.transform.layout_rules``. The attributes name its axis, or several; the layout itself, which it changes
# ("layout") or which is its own; what it pads or slices; the others are ways of their own.
WithLayout = Literal[
    "axis",
    "axes",
    "concatenate",
    "dense",
    "fields",
    "layout",
    "layout_transform",
    "own",
    "pad",
    "quantized",
    "reduce",
    "slice",
    "slice_like",
    "split",
    "squeeze",
    "statistics",
    "transpose",
]

_AXES = {1: "one spatial axis", 2: "two spatial axes", 3: "three spatial axes"}


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
    make_builder: Callable[[], Callable[..., Any]]
    is_pure: bool = True
    is_dynamic: bool = True
    has_effect: bool = False
    home: str = ""
    """The module that registers it. What follows is what passes know of it; see :func:`operator`."""
    mixed: Mixed | None = None
    layout: WithLayout | None = None
    by_place: bool = False
    moves: bool = False
    allocates: bool = False
    on_arrays: Callable[..., Any] | None = None
    """The value of arrays, of an operator that numpy computes as its kernel does."""

    @cached_property
    def builder(self) -> Callable[..., Any]:
        """What scripts call; it is made when the first of them asks, as most programs use few operators."""
        return self.make_builder()

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
    parameters: Parameters | None = None,
    mixed: Mixed | None = None,
    layout: WithLayout | None = None,
    by_place: bool = False,
    moves: bool = False,
    allocates: bool = False,
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
    parameters : Parameters, optional
        In what the builder's parameters differ from inputs and attributes.
    mixed : "always", "follow" or "never", optional
        How it takes part in mixed precision: it always gains from lower precision, it follows its operands, or it is
        numerically unfit.
    layout : WithLayout, optional
        How it goes on with a tensor that is held in another layout. One that is not elementwise and says nothing needs
        the layout that the program knows.
    by_place : bool
        Whether what an elementwise operator does to an element depends on the element's place.
    moves : bool
        Whether the result has the elements of the first input, each once, in another order or shape.
    allocates : bool
        Whether each call gives memory of its own: equal calls are not merged, but one that nobody uses may go.
    """
    for given, known in ((mixed, Mixed), (layout, WithLayout)):
        if given is not None and given not in get_args(known):
            raise ValueError(f"operator {name}: {given!r} is none of {', '.join(get_args(known))}")

    rest: dict[str, Any] = {
        "level": level,
        "pattern": pattern,
        "is_pure": pure,
        "is_dynamic": dynamic,
        "has_effect": effect,
        "mixed": mixed,
        "layout": layout,
        "by_place": by_place,
        "moves": moves,
        "allocates": allocates,
    }

    def decorate(cls: C) -> C:
        doc = cleaned(cls.__doc__ or "")
        if "{rank}" not in name:
            if attrs is not None and attrs not in ATTRS_CLASSES.values():
                raise ValueError(f"operator {name}: {attrs.__name__} is a row; take a node, such as its over(2)")
            _register(cls, name, inputs, attrs, doc, parameters, rest)
            return cls
        if attrs is None or not attrs.by_rank:
            raise ValueError(f"operator {name} needs attributes for several numbers of spatial axes")
        for rank, of_rank in attrs.by_rank.items():
            of_doc = doc.format(rank=rank, axes=_AXES[rank])
            _register(cls, name.format(rank=rank), inputs, of_rank, of_doc, parameters, rest)
        return cls

    return decorate


def _register(
    cls: type,
    name: str,
    inputs: tuple[str, ...],
    attrs: type[Attrs] | None,
    doc: str,
    parameters: Parameters | None,
    rest: Mapping[str, Any],
) -> None:
    """Make the entry of an operator, and put it into the registries, vmkit's and TVM's."""
    if name in REGISTRY:
        raise ValueError(f"operator {name} is registered twice")
    ways: dict[str, Any] = {way: getattr(cls, way, None) for way in ("compute", "lower", "canonicalize")}
    if sum(way is not None for way in ways.values()) != 1:
        raise ValueError(f"operator {name} must define exactly one of {', '.join(ways)}")
    own_builder, make, value = (getattr(cls, member, None) for member in ("build", "make", "value"))
    derive = partial(derived_builder, name, inputs, attrs, doc, parameters, make, value)
    made = OpEntry(
        name=name,
        doc=doc,
        inputs=inputs,
        attrs=attrs,
        relation=cls.relation,  # type: ignore[attr-defined]
        infer_inputs=getattr(cls, "infer_inputs", None),
        on_arrays=getattr(cls, "on_arrays", None),
        make_builder=derive if own_builder is None else lambda: own_builder,
        home=cls.__module__,
        **ways,
        **rest,
    )
    REGISTRY[name] = made
    register_operator(name, doc)
    made.op.set_support_level(made.level)
    if not made.is_variadic:
        made.op.set_num_inputs(len(inputs))
    for each in inputs:
        made.op.add_argument(each.lstrip("*"), "Tensor", "")
    register_op_attr(name, "FRelayTypeRelation", made.relation)
    register_op_attr(name, "TOpPattern", int(made.pattern))


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
            if name.startswith("__"):
                raise AttributeError(name)  # Python and its tools ask for these; no one means an operator
            raise AttributeError(f"Relay has no operator {prefix + name!r}{suggest(prefix + name, REGISTRY)}")
        return found.builder

    def names() -> list[str]:
        return sorted(n.removeprefix(prefix) for n in REGISTRY if n.startswith(prefix) and "." not in n[len(prefix) :])

    return get, names
