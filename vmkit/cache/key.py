"""What an executable depends on, by name, and the digest that stands for all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from .._dataclasses import dataclass

__all__ = ["Key"]


@dataclass(frozen=True)
class Key:
    """The parts of a key: texts by name, such as the model's digest and the target.

    Examples
    --------
    >>> one, other = Key({"model": "a", "target": "llvm"}), Key({"model": "a", "target": "cuda"})
    >>> one.digest == other.digest, one.differences(other)
    (False, ['target'])
    """

    parts: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the parts, in hexadecimal digits."""
        return hashlib.sha256(json.dumps(dict(self.parts), sort_keys=True).encode()).hexdigest()

    def differences(self, other: Key) -> list[str]:
        """Return the names of the parts that are not the same in both."""
        names = dict.fromkeys((*self.parts, *other.parts))
        return [name for name in names if self.parts.get(name) != other.parts.get(name)]
