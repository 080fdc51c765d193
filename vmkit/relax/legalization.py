"""How Relax operators become kernels: by TVM's passes, with vmkit's kernels for some, and all of them guarded."""

from __future__ import annotations

import tvm
from tvm.relax import transform

from .comparisons import COMPARED
from .dispatch import dispatch_sampling, dispatch_sort_scan
from .divisors import DIVIDED
from .extremes import REDUCED
from .guards import with_guards
from .positions import LIMITED
from .slices import SLICE, legalized_slice
from .views import legalizations

__all__ = ["kernels_for_the_target", "kernels_of_operators"]


def kernels_for_the_target() -> list[tvm.transform.Pass]:
    """Return the passes for operators whose kernels TVM chooses by the target: sorting, scans and drawing."""
    return [with_guards(dispatch_sampling()), with_guards(dispatch_sort_scan())]


def kernels_of_operators() -> tvm.transform.Pass:
    """Return the pass for all other operators."""
    return with_guards(
        transform.LegalizeOps({**legalizations(), SLICE: legalized_slice, **LIMITED, **COMPARED, **DIVIDED, **REDUCED})
    )
