"""``ccompiler``: a code generator that writes plain C for element-wise operators, products of matrices and the like.

It is what Relay's guide to code generators had as its first example, and shows how one is written: sizes are read
when the program runs, so that they need not be known before.
"""

from __future__ import annotations

from typing import Any

from ..relay.ir import Call, TensorType
from .codegen import CSource, codegen
from .region import Node, Region, Value

__all__ = ["CCompiler"]

_TYPES = {
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

# What an operator computes of elements a (and b), in the type T of its result.
_BINARY = {
    "add": "a + b",
    "subtract": "a - b",
    "multiply": "a * b",
    "divide": "a / b",
    "maximum": "a > b ? a : b",
    "minimum": "a < b ? a : b",
}
_UNARY = {
    "negative": "-a",
    "nn.relu": "a > 0 ? a : (T)0",
    "exp": "(T)exp(a)",
    "tanh": "(T)tanh(a)",
    "sigmoid": "(T)(1 / (1 + exp(-(double)a)))",
    "sqrt": "(T)sqrt(a)",
    "log": "(T)log(a)",
}
_FLOAT_ONLY = ("divide", "exp", "tanh", "sigmoid", "sqrt", "log")

SUPPORT = """
static inline int64_t vmkit_size(const vmkit_array* x) {
  int64_t size = 1;
  for (int32_t i = 0; i < x->ndim; ++i) size *= x->shape[i];
  return size;
}

/* The place in x of element i of an array of the shape of y, which x is broadcast to. */
static inline int64_t vmkit_place(const vmkit_array* x, const vmkit_array* y, int64_t i) {
  int64_t place = 0, stride = 1;
  for (int32_t d = 1; d <= y->ndim && d <= x->ndim; ++d) {
    int64_t at = i % y->shape[y->ndim - d];
    i /= y->shape[y->ndim - d];
    if (x->shape[x->ndim - d] != 1) place += at * stride;
    stride *= x->shape[x->ndim - d];
  }
  return place;
}
"""


@codegen("ccompiler")
class CCompiler(CSource):
    """C for element-wise operators with broadcasting, ``nn.dense``, ``nn.matmul`` and ``nn.bias_add``."""

    operators = (*_BINARY, *_UNARY, "nn.dense", "nn.matmul", "nn.bias_add")

    @classmethod
    def takes(cls, call: Call) -> bool | str:
        """Say whether all tensors of a call are of one type that C has."""
        types = [arg.checked_type for arg in call.args] + [call.checked_type]
        dtypes = {ty.dtype for ty in types if isinstance(ty, TensorType)}
        if len(dtypes) != 1 or not dtypes <= set(_TYPES):
            return f"its elements are {' and '.join(sorted(dtypes))}, not of one type that C has"
        (dtype,) = dtypes
        if call.op.name in _FLOAT_ONLY and not dtype.startswith("float"):
            return f"it is for floating-point numbers, not {dtype}"
        if call.op.name in ("nn.dense", "nn.matmul") and any(len(ty.shape) != 2 for ty in types):
            return "it is for products of matrices of two dimensions"
        return True

    def source(self, region: Region) -> str:
        """Return C with one function for each operator, and one that calls them."""
        return _Writing(region).text()


class _Writing:
    """The C of one region."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.functions: list[str] = []
        self.steps: list[str] = []

    def text(self) -> str:
        region = self.region
        names = {n: f"values + {i}" for i, n in enumerate(region.arguments)}
        first = len(region.arguments)
        places: dict[int, str] = {}
        copies: list[str] = []
        for i, number in enumerate(region.outputs):
            place = f"values + {first + i}"
            if number in names or number in places:  # an argument, or one result twice
                source = names.get(number, places.get(number, ""))
                copies.append(_copy(source, place, region.values[number]))
            else:
                places[number] = place
        made = [n for node in region.nodes for n in node.outputs]
        held = [n for n in made if n not in places]
        names |= places | {n: f"held + {i}" for i, n in enumerate(held)}
        for k, node in enumerate(region.nodes):
            self.operator(f"{region.symbol}_{k}", node, names, set(held))
        most = max([len(v.shape) for v in region.values], default=0)
        return "\n".join(
            [
                _SUPPORT_ONCE,
                *self.functions,
                f"static int {region.symbol}_run(const vmkit_array* values) {{",
                f"  vmkit_array held[{max(len(held), 1)}];",
                f"  int64_t shapes[{max(len(held), 1)}][{max(most, 1)}];",
                "  int failed = 0;",
                f"  for (int i = 0; i < {max(len(held), 1)}; ++i) {{ held[i].data = 0; held[i].shape = shapes[i]; }}",
                *self.steps,
                *[f"  {each}" for each in copies],
                f"  for (int i = 0; i < {len(held)}; ++i) free(held[i].data);",
                "  return failed;",
                "}",
            ]
        )

    def operator(self, name: str, node: Node, names: dict[int, str], held: set[int]) -> None:
        """Write the function of an operator, and its call."""
        (output,) = node.outputs
        value = self.region.values[output]
        operands = [names[n] for n in node.inputs]
        rule = _broadcasting if node.op in _BINARY or node.op in _UNARY or node.op == "nn.bias_add" else _product
        self.functions.append(rule(name, node, value))
        place = names[output]
        if output in held:
            shape = _shape_of(node, value, operands)
            target = place.replace("held + ", "")
            sizes = "".join(f" shapes[{target}][{d}] = {each};" for d, each in enumerate(shape))
            self.steps.append(f"  held[{target}].ndim = {len(shape)};{sizes}")
            self.steps.append(
                f"  if (!failed) failed = !(held[{target}].data = "
                f"malloc((size_t)vmkit_size({place}) * sizeof({_TYPES[value.dtype]}) + 1));"
            )
        self.steps.append(f"  if (!failed) failed = {name}({', '.join([*operands, place])});")


_SUPPORT_ONCE = f"#ifndef VMKIT_CCOMPILER\n#define VMKIT_CCOMPILER\n{SUPPORT}#endif\n"


def _copy(source: str, place: str, value: Value) -> str:
    size = f"(size_t)vmkit_size({source}) * sizeof({_TYPES[value.dtype]})"
    return f"if (!failed) memcpy(({place})->data, ({source})->data, {size});"


def _shape_of(node: Node, value: Value, operands: list[str]) -> list[str]:
    """Return C for the dimensions of what an operator gives."""
    if node.op in ("nn.dense", "nn.matmul"):
        a, b = (node.attrs.get(key, default) for key, default in (("transpose_a", False), ("transpose_b", True)))
        b = True if node.op == "nn.dense" else b
        return [f"({operands[0]})->shape[{int(bool(a))}]", f"({operands[1]})->shape[{int(not b)}]"]
    rank = len(value.shape)
    shape = []
    for d, known in enumerate(value.shape):
        back = rank - d
        ways = [f"({x})->ndim >= {back} && ({x})->shape[({x})->ndim - {back}] != 1" for x in operands]
        text = "1"
        for x, way in zip(reversed(operands), reversed(ways), strict=True):
            text = f"({way} ? ({x})->shape[({x})->ndim - {back}] : {text})"
        if node.op == "nn.bias_add":
            text = f"({operands[0]})->shape[{d}]"
        shape.append(str(known) if known is not None else text)
    return shape


def _broadcasting(name: str, node: Node, value: Value) -> str:
    ctype = _TYPES[value.dtype]
    inputs = ["x", "y"][: len(node.inputs)]
    reads = []
    for x, element in zip(inputs, "ab", strict=False):
        place = f"vmkit_size({x}) == size ? i : vmkit_place({x}, z, i)"
        if node.op == "nn.bias_add" and x == "y":
            axis = int(node.attrs["axis"]) % len(value.shape)
            after = " * ".join(["1", *(f"z->shape[{d}]" for d in range(axis + 1, len(value.shape)))])
            place = f"i / ({after}) % z->shape[{axis}]"
        reads.append(f"    const T {element} = (({ctype}*){x}->data)[{place}];".replace("T ", f"{ctype} "))
    formula = (_BINARY | _UNARY).get(node.op, "a + b").replace("T", ctype)
    params = ", ".join(f"const vmkit_array* {x}" for x in [*inputs, "z"])
    return "\n".join(
        [
            f"static int {name}({params}) {{",
            "  const int64_t size = vmkit_size(z);",
            "  for (int64_t i = 0; i < size; ++i) {",
            *reads,
            f"    (({ctype}*)z->data)[i] = ({ctype})({formula});",
            "  }",
            "  return 0;",
            "}",
        ]
    )


def _product(name: str, node: Node, value: Value) -> str:
    ctype = _TYPES[value.dtype]
    attrs: dict[str, Any] = node.attrs
    transpose_a = bool(attrs.get("transpose_a", False))
    transpose_b = node.op == "nn.dense" or bool(attrs.get("transpose_b", False))
    at_x = "k * n + i" if transpose_a else "i * depth + k"
    at_y = "j * depth + k" if transpose_b else "k * m + j"
    return f"""static int {name}(const vmkit_array* x, const vmkit_array* y, const vmkit_array* z) {{
  const int64_t n = z->shape[0], m = z->shape[1], depth = x->shape[{0 if transpose_a else 1}];
  if (y->shape[{1 if transpose_b else 0}] != depth) return 1;
  for (int64_t i = 0; i < n; ++i) {{
    for (int64_t j = 0; j < m; ++j) {{
      {ctype} sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += (({ctype}*)x->data)[{at_x}] * (({ctype}*)y->data)[{at_y}];
      (({ctype}*)z->data)[i * m + j] = sum;
    }}
  }}
  return 0;
}}"""
