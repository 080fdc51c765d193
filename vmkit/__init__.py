"""vmkit: the Relay VM for today's TVM."""

from __future__ import annotations
