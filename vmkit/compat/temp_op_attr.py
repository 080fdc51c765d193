"""``tvm.relay.testing.temp_op_attr``: an attribute of an operator for the length of a ``with`` block."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from vmkit.relay.op import get

__all__ = ["TempOpAttr"]


class TempOpAttr:
    """Sets an attribute of an operator, and gives back what was there when the block ends.

    Parameters
    ----------
    op_name, attr_key : str
        The operator and the attribute, such as ``"qnn.dense"`` and ``"FTVMQnnLegalize"``.
    attr_value : object
        The value in the block.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self.op: Any = get(op_name)
        self.attr_key = attr_key
        self.attr_value = attr_value

    def __enter__(self) -> TempOpAttr:
        self.older_attr = self.op.get_attr(self.attr_key) if self.op.has_attr(self.attr_key) else None
        self._set(self.attr_value)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._set(self.older_attr)

    def _set(self, value: Any) -> None:
        if self.op.has_attr(self.attr_key):  # TVM crashes later where a key that it has never seen is reset
            self.op.reset_attr(self.attr_key)
        if value is not None:
            self.op.set_attr(self.attr_key, value)
