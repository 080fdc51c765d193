"""``tvm.driver.tvmc.pass_list``: passes to leave out."""

from __future__ import annotations

import argparse

from ...errors import suggest

__all__ = ["parse_pass_list_str"]


def parse_pass_list_str(input_string: str) -> list[str]:
    """Return the names of passes in a text with commas between them.

    >>> parse_pass_list_str("FoldScaleAxis,FuseOps")
    ['FoldScaleAxis', 'FuseOps']

    Raises
    ------
    argparse.ArgumentTypeError
        For names that no pass has, today or in Relay.
    """
    from vmkit.compiler.pass_names import RELAY_ONLY, known_passes, todays_name

    names = [name.strip() for name in input_string.split(",")]
    known = known_passes() | RELAY_ONLY
    wrong = [name for name in names if name and todays_name(name) not in known]
    if wrong:
        each = "; ".join(f"there is no pass {name!r}{suggest(name, known)}" for name in wrong)
        raise argparse.ArgumentTypeError(f"{input_string!r}: {each}")
    return names
