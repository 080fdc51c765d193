"""The encodings there are, by name. To add one: an :class:`.Encoding` and its loops, and its place in this table."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .bfloat16_parts import BFLOAT16_PARTS
from .depthwise import DEPTHWISE
from .encoding import Encoding
from .integers import INTEGERS
from .pairs import PAIRS
from .shape import ProductShape
from .weight import PackedWeight

__all__ = ["ENCODINGS", "MARK", "weight_from_json", "weight_to_json"]

ENCODINGS: dict[str, Encoding] = {each.name: each for each in (BFLOAT16_PARTS, *INTEGERS, *PAIRS, *DEPTHWISE)}
"""Ways of multiplying with a packed weight."""
MARK = "vmkit.packed_product"
"""The annotation of a kernel's sum that holds its :class:`PackedWeight` as JSON."""


def weight_to_json(weight: PackedWeight) -> str:
    """Return the sizes and the encoding of a packed weight as JSON text."""
    return json.dumps({"encoding": weight.encoding.name, "extras": weight.extras, **asdict(weight.product)})


def weight_from_json(text: str) -> PackedWeight:
    """Read what :func:`weight_to_json` wrote."""
    values: dict[str, Any] = json.loads(text)
    encoding, extras = ENCODINGS[values.pop("encoding")], int(values.pop("extras"))
    sizes: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return PackedWeight(ProductShape(**sizes), encoding, extras)
