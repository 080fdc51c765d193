"""Texts of Relay 0.14 and what became of them: a selection kept here, and the whole collection where it exists."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden import COLLECTION
from tests.places import DATA
from vmkit import relay
from vmkit.errors import ParseError
from vmkit.relay.text.parser import read_module

SELECTION = DATA / "relay_texts.jsonl.gz"

_SPAN = re.compile(r" span=[^ ]+")
_COMMENT = re.compile(r" /\*.*?\*/")
_MISSING = re.compile(r"there is no operator|there are no attributes|not supported")


def records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a compressed file, one JSON object a line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def collection(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a folder of the whole collection."""
    for path in sorted((COLLECTION / folder).glob("*.jsonl.gz")):
        yield from records(path)


def parsed(text: str, api: str = "parse") -> Any:
    """Return what a text means; None when it needs an operator or a kind of node that does not exist here."""
    try:
        return read_module(text) if api == "read_module" else getattr(relay, api)(text)
    except ParseError as error:
        if _MISSING.search(str(error)):
            return None
        raise


def without_spans(text: str) -> str:
    """Return a text without what its comments tell of places."""
    return _SPAN.sub("", text).replace(" /* */", "")


def without_comments(text: str) -> str:
    """Return a text without its comments and without the metadata, which is not formatted alike."""
    return _COMMENT.sub("", text.partition("#[metadata]")[0]).rstrip()
