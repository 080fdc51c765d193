"""Functions attached to operators for the length of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vmkit import relay


@contextmanager
def attached_to(name: str, key: str, function: Callable[..., Any]) -> Iterator[None]:
    op = relay.op.get(name)
    op.set_attr(key, function)
    try:
        yield
    finally:
        op.reset_attr(key)
