"""Where the lines of a printed text begin: marked while it is made, and indented once at the end.

To indent a nested block anew at each level would take time in the cube of the depth.
"""

from __future__ import annotations

__all__ = ["MARKS", "indented", "laid_out"]

# Code points that Unicode sets aside for what a program marks for itself.
_DEEPER, _SHALLOWER = "\ufdd0", "\ufdd1"
MARKS = frozenset([_DEEPER, _SHALLOWER])
"""Characters that a text to be laid out has nowhere else."""


def indented(open_: str, text: str, close: str) -> str:
    """Return a text between brackets that stand on lines of their own, or end them; still to be laid out."""
    return f"{open_}{_DEEPER}\n{text}{_SHALLOWER}\n{close}"


def laid_out(text: str) -> str:
    """Return a text with its lines indented, two spaces a level, and without the marks."""
    lines = []
    depth = 0
    for line in text.split("\n"):
        bare = line.replace(_DEEPER, "").replace(_SHALLOWER, "")
        lines.append("  " * depth + bare)
        if len(bare) < len(line):
            depth += line.count(_DEEPER) - line.count(_SHALLOWER)
    return "\n".join(lines)
