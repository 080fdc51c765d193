"""Parts of Relax programs that are compiled as Relay, whose passes make faster what Relax has no passes for."""

from __future__ import annotations

from .cutting import with_relay_parts

__all__ = ["with_relay_parts"]
