"""``onednn``: convolutions, products, pools and normalisations by oneDNN, the library of Intel's for x86 and ARM.

Regions keep the layouts that oneDNN chooses between their operators, and weights are brought into theirs once. The
library is not a part of vmkit: ``pip install 'vmkit[onednn]'``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import tvm

from ...relay.ir import Call
from ...relay.op.contrib.register import PatternRow
from ...relay.transform.registry import ModuleTransform
from ..codegen import RuntimeModule, codegen
from ..native import creator
from ..region import Region
from .graph import graph_of
from .operators import ELEMENTWISE, OPERATORS, VIEWS, taken
from .patterns import rows
from .preparation import preparation

__all__ = ["OneDNN"]

_CHEAP = {*ELEMENTWISE, *VIEWS, "concatenate", "onednn.gelu", "onednn.swish"}


@codegen("onednn")
class OneDNN(RuntimeModule):
    """What oneDNN computes of float32, with what follows it, as one module of the kind ``onednn``."""

    operators = tuple(OPERATORS)
    kind = "onednn"
    runtime = "vmkit.byoc.onednn.runtime"
    reads_cpu_alone = True

    @classmethod
    def patterns(cls) -> Sequence[PatternRow]:
        """Return groups of operators that are computed as one."""
        return list(rows())

    @classmethod
    def takes(cls, call: Call) -> bool | str:
        """Say whether oneDNN has what a call computes."""
        made = taken(call)
        return made if isinstance(made, str) else True

    @classmethod
    def preparation(cls) -> Sequence[ModuleTransform]:
        """Return passes that fold scales into weights, and padding into what it is for."""
        return preparation()

    @classmethod
    def is_worth(cls, operators: Sequence[str]) -> bool:
        """Say whether one of the operators is more than a pass over its input, which vmkit's kernels fuse."""
        return not _CHEAP.issuperset(operators)

    def module(self, regions: Sequence[Region]) -> tvm.runtime.Module:
        """Return the module of all regions; the runtime is built for it if that was not done before."""
        create = creator(self.kind, self.runtime)
        return create(json.dumps({region.symbol: graph_of(region) for region in regions}))
