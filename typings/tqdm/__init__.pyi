"""Types of what is used of tqdm."""

from types import TracebackType
from typing import Any, ClassVar, TextIO

class tqdm:
    monitor_interval: ClassVar[float]
    n: float

    def __init__(
        self,
        *,
        total: float,
        desc: str,
        bar_format: str,
        file: TextIO,
        leave: bool,
        ncols: int,
        nrows: int,
        **options: Any,
    ) -> None: ...
    def __enter__(self) -> tqdm: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def set_description_str(self, desc: str, refresh: bool) -> None: ...
    def refresh(self) -> None: ...
    @classmethod
    def write(cls, text: str, file: TextIO) -> None: ...
