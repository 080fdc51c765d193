"""What oneDNN takes: a call of a Relay operator as a node of the runtime's graph, or the reason why it is not taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ..._dataclasses import dataclass
from ...relay.ir import Call, RelayExpr, TensorType
from ...relay.ir.dim_text import dim_text
from ..products import PRODUCTS, product_of
from ..region import plain

__all__ = ["CONVOLUTIONS", "ELEMENTWISE", "OPERATORS", "VIEWS", "Taken", "dims_of", "taken"]

_UNKNOWN = "?"


@dataclass(frozen=True)
class Taken:
    """A node of the runtime's graph: its kind and attributes."""

    kind: str
    attrs: dict[str, Any] = field(default_factory=dict)


Rule: TypeAlias = Callable[[Call], "Taken | str"]


def dims_of(expr: RelayExpr) -> list[int | str]:
    """Return the dimensions of a tensor: numbers, and the texts of those that are not known; ``?`` is like no other."""
    return [d if isinstance(d, int) else dim_text(d) for d in expr.checked_type.shape]


def taken(call: Call) -> Taken | str:
    """Return what a call of one of :data:`OPERATORS` is to oneDNN, or why it is nothing."""
    types = [ty for arg in call.args for ty in _tensors(arg.checked_type)] + _tensors(call.checked_type)
    dtypes = sorted({ty.dtype for ty in types})
    if dtypes != ["float32"]:
        return f"it takes float32 alone, not {' and '.join(dtypes)}"
    rank = max(len(ty.shape) for ty in types)
    return OPERATORS[call.op.name](call) if rank <= 6 else f"it takes tensors of up to 6 dimensions, not {rank}"


def _tensors(ty: Any) -> list[TensorType]:  # noqa: ANN401 - types of tensors, or tuples of those
    return [ty] if isinstance(ty, TensorType) else [leaf for part in ty.fields for leaf in _tensors(part)]


def _sides(padding: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Return what is padded before and after each of the spatial axes, of one number, one for each axis, or two."""
    values = list(padding) * rank if len(padding) == 1 else list(padding)
    values = values * 2 if len(values) == rank else values
    return values[:rank], values[rank:]


def _axes(layout: str, wanted: str) -> list[int] | None:
    """Return where the letters of a layout stand; None for another layout, such as a blocked one."""
    return [layout.index(letter) for letter in wanted] if sorted(layout) == sorted(wanted) else None


def _spatial(name: str) -> str:
    """Return the letters of the spatial axes of an operator such as ``nn.conv2d``."""
    return "DHW"[-int(name[-2]) :]


def _convolution(call: Call) -> Taken | str:
    attrs, letters = plain(call.attrs), _spatial(call.op.name)
    data_layout, rank = attrs["data_layout"], len(letters)
    data_axes, result_axes, weight_axes = (
        _axes(layout, first + letters)
        for layout, first in (
            (data_layout, "NC"),
            (attrs["out_layout"] or data_layout, "NC"),
            (attrs["kernel_layout"], "OI"),
        )
    )
    if data_axes is None or result_axes is None or weight_axes is None:
        return f"its layouts are {data_layout} and {attrs['kernel_layout']}, which it chooses itself"
    data, weight, result = dims_of(call.args[0]), dims_of(call.args[1]), dims_of(call)
    out, inner = weight[weight_axes[0]], weight[weight_axes[1]]
    if not isinstance(inner, int) or out != result[result_axes[1]] or data[data_axes[1]] != inner * attrs["groups"]:
        return "its weight does not have the channels of the result and, divided by the groups, of the data"
    before, after = _sides(attrs["padding"], rank)
    return Taken(
        "convolution",
        {
            "data_axes": data_axes,
            "weight_axes": weight_axes,
            "result_axes": result_axes,
            "strides": attrs["strides"],
            "dilation": attrs["dilation"],
            "padding_before": before,
            "padding_after": after,
            "groups": attrs["groups"],
        },
    )


def _product(call: Call) -> Taken | str:
    made = product_of(call)
    if isinstance(made, str):
        return made
    return Taken("product", {"transpose_a": int(made.transpose_a), "transpose_b": int(made.transpose_b)})


def _pool(function: str) -> Rule:
    def rule(call: Call) -> Taken | str:
        attrs, letters = plain(call.attrs), _spatial(call.op.name)
        axes = _axes(attrs["layout"], "NC" + letters)
        if axes is None or attrs.get("out_layout") not in (None, "", attrs["layout"]):
            return f"its layout is {attrs['layout']}, which it chooses itself"
        if call.op.name.startswith("nn.global"):
            return Taken("pool", {"axes": axes, "function": function, "is_global": 1, "ceil_mode": 0})
        before, after = _sides(attrs["padding"], len(letters))
        counts = function == "average" and attrs["count_include_pad"]
        if attrs["ceil_mode"] and counts:
            return "it counts padding where a window reaches past it"
        kernel, dilation = attrs["pool_size"], attrs["dilation"]
        if any(
            p >= d * (k - 1) + 1 for side in (before, after) for p, k, d in zip(side, kernel, dilation, strict=True)
        ):
            return "it is padded by more than a window"
        return Taken(
            "pool",
            {
                "axes": axes,
                "function": "average_with_padding" if counts else function,
                "is_global": 0,
                "kernel": kernel,
                "strides": attrs["strides"],
                "dilation": dilation,
                "padding_before": before,
                "padding_after": after,
                "ceil_mode": int(attrs["ceil_mode"]),
            },
        )

    return rule


def batch_norm(call: Call) -> Taken | str:
    """Return the first result of a batch normalisation, which oneDNN takes as that of a composite function alone."""
    rank, attrs = len(call.args[0].checked_type.shape), plain(call.attrs)
    axes = list(range(rank))
    axes.insert(1, axes.pop(attrs["axis"] % rank))
    if rank < 2 or attrs["axis"] % rank == 0:
        return "it takes channels beside a batch"
    flags = {"scale": int(attrs["scale"]), "center": int(attrs["center"])}
    return Taken("batch_norm", {"axes": axes, "epsilon": attrs["epsilon"], **flags})


def _layer_norm(call: Call) -> Taken | str:
    rank, attrs = len(call.args[0].checked_type.shape), plain(call.attrs)
    if rank < 2 or rank > 5 or attrs["axis"] % rank != rank - 1:
        return "it normalises the last of 2 to 5 axes"
    flags = {"scale": int(attrs["scale"]), "center": int(attrs["center"])}
    return Taken("layer_norm", {"epsilon": attrs["epsilon"], **flags})


def _softmax(call: Call) -> Taken | str:
    rank = len(call.args[0].checked_type.shape)
    is_log = int(call.op.name == "nn.log_softmax")
    return Taken("softmax", {"axis": plain(call.attrs)["axis"] % rank, "is_log": is_log})


def _function(name: str, alpha: str | float = 0.0, beta: str | float = 0.0) -> Rule:
    """Return the rule of a function of single elements, whose parameters are numbers or the names of attributes."""

    def rule(call: Call) -> Taken | str:
        values = [float(getattr(call.attrs, v)) if isinstance(v, str) else v for v in (alpha, beta)]
        return Taken("elementwise", {"function": name, "alpha": values[0], "beta": values[1]})

    return rule


def _binary(call: Call) -> Taken | str:
    return Taken("binary", {"function": call.op.name})


def _bias_add(call: Call) -> Taken | str:
    rank = len(call.args[0].checked_type.shape)
    behind = rank - 1 - plain(call.attrs)["axis"] % rank
    return Taken("binary", {"function": "add", "right_dims": [-1, *[1] * behind]})


def _concatenate(call: Call) -> Taken | str:
    rank = len(call.checked_type.shape)
    return Taken("concatenate", {"axis": plain(call.attrs)["axis"] % rank})


def _transpose(call: Call) -> Taken | str:
    rank, axes = len(call.checked_type.shape), plain(call.attrs)["axes"]
    return Taken("transpose", {"axes": [a % rank for a in axes] if axes else list(range(rank))[::-1]})


def _reshape(call: Call) -> Taken | str:
    source, result = dims_of(call.args[0]), dims_of(call)
    attrs = plain(call.attrs) or {}
    asked = attrs.get("newshape") or []
    keeps = call.op.name == "reshape" and not attrs["allowzero"] and all(isinstance(d, int) and d >= -1 for d in asked)
    free, dims = list(range(len(source))), []
    for place, dim in enumerate(result):
        same = [i for i in free if source[i] == dim != _UNKNOWN]
        if keeps and asked[place] == 0:
            same = [place]
        if isinstance(dim, str) and same:
            dims.append(-2 - same[0])
            free.remove(same[0])
        else:
            dims.append(dim if isinstance(dim, int) else -1)
    if dims.count(-1) > 1:
        return "more than one of its dimensions cannot be told from those of its input"
    return Taken("reshape", {"dims": dims})


CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
VIEWS = ("expand_dims", "nn.batch_flatten", "reshape", "squeeze", "transpose")
ELEMENTWISE: dict[str, Rule] = {
    "abs": _function("abs"),
    "clip": _function("clip", "a_min", "a_max"),
    "exp": _function("exp"),
    "log": _function("log"),
    "negative": _function("linear", -1.0),
    "nn.leaky_relu": _function("relu", "alpha"),
    "nn.relu": _function("relu"),
    "sigmoid": _function("sigmoid"),
    "sqrt": _function("sqrt"),
    "tanh": _function("tanh"),
    **dict.fromkeys(("add", "divide", "maximum", "minimum", "multiply", "subtract"), _binary),
    "nn.bias_add": _bias_add,
}
OPERATORS: dict[str, Rule] = {
    **ELEMENTWISE,
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    **dict.fromkeys(PRODUCTS, _product),
    **{f"nn.max_pool{rank}d": _pool("max") for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": _pool("average") for rank in (1, 2, 3)},
    **{f"nn.global_{short}_pool2d": _pool(name) for short, name in (("max", "max"), ("avg", "average"))},
    "concatenate": _concatenate,
    "nn.layer_norm": _layer_norm,
    "nn.log_softmax": _softmax,
    "nn.softmax": _softmax,
    **dict.fromkeys(VIEWS, _reshape),
    "transpose": _transpose,
}
"""By the name of the operator, the rule that says what a call of it is."""
