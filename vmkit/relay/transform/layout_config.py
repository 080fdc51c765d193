"""Convolutions that ConvertLayout leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

__all__ = ["LayoutConfig"]


class LayoutConfig:
    """Says, for the length of a ``with`` block, which calls of ``nn.conv2d`` ConvertLayout leaves as they are.

    Parameters
    ----------
    skip_layers : iterable of int, optional
        The places of the convolutions in the order in which the pass meets them, operands first, beginning with 0.

    Examples
    --------
    >>> with LayoutConfig(skip_layers=[0]) as config:
    ...     [config.check_skip(), config.check_skip()]
    [True, False]
    """

    current: LayoutConfig | None = None

    def __init__(self, skip_layers: Iterable[int] | None = None) -> None:
        self.skip_counter = 0
        self.skip_layers = list(skip_layers or ())
        self._outer: LayoutConfig | None = None

    def check_skip(self) -> bool:
        """Say whether the next convolution is left as it is."""
        is_skipped = self.skip_counter in self.skip_layers
        self.skip_counter += 1
        return is_skipped

    def reset(self) -> None:
        """Begin to count anew."""
        self.skip_counter = 0

    def __enter__(self) -> LayoutConfig:
        self._outer, LayoutConfig.current = LayoutConfig.current, self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        LayoutConfig.current = self._outer
