"""``_make`` of ``tvm.relay.op``: the builders by themselves, with all arguments in order."""

from __future__ import annotations

from vmkit.relay.op.registry import namespace

__getattr__, __dir__ = namespace("")
