"""``python -m vmkit.relay.op``: the table of operators."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .table import as_json, as_text, operator_rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table of operators to stdout."""
    parser = argparse.ArgumentParser(
        prog="python -m vmkit.relay.op",
        description="The operators of Relay that are here: level, inputs, attributes, and whether they take shapes "
        "that are not known until the program runs.",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON list, with a summary of each operator")
    options = parser.parse_args(arguments)
    rows = operator_rows()
    sys.stdout.write((as_json(rows) if options.json else as_text(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
