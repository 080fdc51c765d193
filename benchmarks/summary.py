"""All figures as Markdown: a table for each question, one for each model, and geometric means of the families.

``python -m benchmarks.summary figures.json more.json`` prints the tables of files that ``--benchmark-json`` wrote, of
runs on one thread and on two say, side by side; a run prints its own at the end.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Row", "markdown", "rows_of"]


@dataclass(frozen=True)
class Row:
    """A figure and its peers'.

    Attributes
    ----------
    group, name : str
        The question, and what was timed.
    value : float
        vmkit's median, in `unit`.
    peers : mapping of str to (float, float)
        Each peer's own median, and the ratio of vmkit's to it: below 1 vmkit is better.
    threads : int
    unit : str
        ``"s"`` or ``"MB"``.
    note : str
    model, family, compiled_for : str
        Of a model's latency; else empty.
    """

    group: str
    name: str
    value: float
    peers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    threads: int = 1
    unit: str = "s"
    note: str = ""
    model: str = ""
    family: str = ""
    compiled_for: str = ""


def row(group: str, name: str, info: Mapping[str, Any], median: float) -> Row:
    """Return the row of a benchmark, from what it left in its ``extra_info``."""
    return Row(
        group,
        name,
        info.get("value", median),
        {peer: (own, ratio) for peer, (own, ratio) in info.get("peers", {}).items()},
        info.get("threads", 1),
        info.get("unit", "s"),
        info.get("note", ""),
        *(info.get(key, "") for key in ("model", "family", "compiled_for")),
    )


def rows_of(document: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a document of pytest-benchmark."""
    return [
        row(b["group"] or "", b["name"], b["extra_info"], b["stats"]["median"])
        for b in document["benchmarks"]
        if "threads" in b["extra_info"]
    ]


def markdown(rows: Sequence[Row]) -> str:
    """Return all tables."""
    parts = []
    for group in dict.fromkeys(r.group for r in rows):
        own = [r for r in rows if r.group == group]
        peers = list(dict.fromkeys(peer for r in own for peer in r.peers))
        header = [group, "threads", "vmkit", *(f"of {peer}'s" for peer in peers), ""]
        parts.append(_table(header, [_cells(r, peers) for r in own]))
    means = _means(rows)
    return "\n\n".join([*parts, *([means] if means else [])])


def _cells(r: Row, peers: Sequence[str]) -> list[str]:
    against = (r.peers.get(peer) for peer in peers)
    ratios = [f"{p[1]:.2f} of {shown(p[0], r.unit)}" if p is not None else "" for p in against]
    label = r.name.partition("[")[2].rstrip("]") or r.name
    return [label.removeprefix(f"{r.model}-"), str(r.threads), shown(r.value, r.unit), *ratios, r.note]


def _means(rows: Sequence[Row]) -> str:
    """Return the geometric means over each family of the ratios to onnxruntime."""
    timed = [r for r in rows if r.family and "onnxruntime" in r.peers]
    columns = sorted({(r.threads, r.compiled_for) for r in timed}, key=lambda c: (c[0], c[1] != "static"))
    families = list(dict.fromkeys(r.family for r in timed))
    lines = []
    for label, chosen in [*((f, [f]) for f in families), ("all", families)]:
        own = [r for r in timed if r.family in chosen]
        ratios = [[r.peers["onnxruntime"][1] for r in own if (r.threads, r.compiled_for) == c] for c in columns]
        lines.append([label, *(f"{geomean(x):.2f} of {len(x)}" if x else "" for x in ratios)])
    header = ["geometric mean of ratios to onnxruntime", *(f"{what}, {n} thread{'s' * (n > 1)}" for n, what in columns)]
    return _table(header, lines) if timed else ""


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean.

    >>> geomean([0.5, 2.0])
    1.0
    """
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def shown(value: float, unit: str) -> str:
    """Return a value with a unit in which it is at least 1.

    >>> shown(0.0012, "s"), shown(35.21, "MB")
    ('1.20 ms', '35.2 MB')
    """
    if unit != "s":
        return f"{value:.1f} {unit}"
    for name, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.2f} {name}"
    return f"{value * 1e6:.2f} us"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    kept = [i for i in range(len(header)) if i < 1 or any(line[i] for line in lines)]
    rows = [[each[i] for i in kept] for each in (header, ["---"] * len(header), *lines)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summary", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="what --benchmark-json wrote")
    files = parser.parse_args(arguments).files
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    print(markdown([r for document in documents for r in rows_of(document)]))


if __name__ == "__main__":
    main()
