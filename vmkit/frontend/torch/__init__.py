"""Programs of ``torch.export`` as Relax modules: TVM's importer, with converters and sizes of vmkit's own."""

from __future__ import annotations

from .importer import from_exported_program, from_pt2

__all__ = ["from_exported_program", "from_pt2"]
