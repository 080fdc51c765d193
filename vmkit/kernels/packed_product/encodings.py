"""The encodings there are, by name. To add one: an :class:`.Encoding` and its loops, and its place in this table."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .bfloat16_parts import BFLOAT16_PARTS
from .depthwise import DEPTHWISE
from .encoding import Encoding
from .integers import INTEGERS
from .pairs import PAIRS
from .shape import ProductShape
from .weight import Alike, PackedWeight

if TYPE_CHECKING:
    from ..builder import Size

__all__ = ["ENCODINGS", "MARK", "mark_to_share", "weight_from_json", "weight_to_json"]

ENCODINGS: dict[str, Encoding] = {each.name: each for each in (BFLOAT16_PARTS, *INTEGERS, *PAIRS, *DEPTHWISE)}
"""Ways of multiplying with a packed weight."""
MARK = "vmkit.packed_product"
"""The annotation of a kernel's sum that holds its :class:`PackedWeight` as JSON."""

_ALIKE, _SIZES = "alike", ("channels", "units")


def weight_to_json(weight: PackedWeight) -> str:
    """Return the sizes and the encoding of a packed weight as JSON text."""
    return json.dumps({"encoding": weight.encoding.name, "extras": weight.extras, **asdict(weight.product)})


def mark_to_share(text: str) -> str | None:
    """Return a mark without the sizes that kernels take as arguments; None where a kernel is written for its sizes."""
    alike = weight_from_json(text).to_share()
    return None if alike is None else json.dumps({**json.loads(text), **dict.fromkeys(_SIZES), _ALIKE: asdict(alike)})


def weight_from_json(text: str, channels: Size = 0, units: Size = 0) -> PackedWeight:
    """Read what :func:`weight_to_json` wrote.

    `channels` and `units` take the places of sizes that a mark is without.
    """
    values: dict[str, Any] = json.loads(text)
    alike = values.pop(_ALIKE, None)
    if alike is not None:
        values |= dict(zip(_SIZES, (channels, units), strict=True))
    encoding, extras = ENCODINGS[values.pop("encoding")], int(values.pop("extras"))
    sizes: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return PackedWeight(ProductShape(**sizes), encoding, extras, None if alike is None else Alike(**alike))
