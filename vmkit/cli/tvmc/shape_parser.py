"""``tvm.driver.tvmc.shape_parser``: shapes of inputs, as tvmc's own syntax has them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...errors import OptionError
from ..shape_text import parse_shapes

if TYPE_CHECKING:
    from vmkit.relay.ir import Any as AnySize

__all__ = ["parse_shape_string"]


def parse_shape_string(inputs_string: str) -> dict[str, list[int | AnySize]]:
    """Return the shapes in a text such as ``"input1:[1,3,224,224] input2:[-1,100]"`` by the names of the inputs.

    A size that is negative is not known: ``relay.Any()``. (The command line takes names of sizes, too.)

    Raises
    ------
    argparse.ArgumentTypeError
        If the text is none, a shape has no brackets, or a size is no number.
    """
    from vmkit.relay.ir import Any as AnySize

    try:
        shapes = parse_shapes(inputs_string)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    found: dict[str, list[int | AnySize]] = {}
    for name, shape in shapes.items():
        named = [size for size in shape if isinstance(size, str) and size != "?"]
        if f"{name}:[" not in inputs_string or not isinstance(shape, list) or named:
            raise argparse.ArgumentTypeError(
                f"{inputs_string!r}: expected numbers in brackets for {name!r}, as in {name}:[1,-1]"
            )
        found[name] = [AnySize() if size == "?" else int(size) for size in shape]
    return found
