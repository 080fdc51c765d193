"""``openblas``: products of matrices by OpenBLAS.

The library is not a part of vmkit: ``pip install 'vmkit[openblas]'``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tvm

from ..relay.ir import Call, TensorType
from .codegen import RuntimeModule, codegen
from .native import creator
from .products import PRODUCTS, Product, product_of
from .region import Node, Region

__all__ = ["OpenBLAS"]


@codegen("openblas")
class OpenBLAS(RuntimeModule):
    """Products of matrices of float32 or float64, as one module of the kind ``openblas``."""

    operators = PRODUCTS
    kind = "openblas"
    runtime = "vmkit.byoc.openblas_runtime"
    reads_cpu_alone = True

    @classmethod
    def takes(cls, call: Call) -> bool | str:
        """Say whether BLAS has the product."""
        types = [arg.checked_type for arg in call.args] + [call.checked_type]
        dtypes = {ty.dtype for ty in types if isinstance(ty, TensorType)}
        if len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
            return "it takes float32 or float64 alone"
        made = product_of(call)
        return True if isinstance(made, Product) else made

    def module(self, regions: Sequence[Region]) -> tvm.runtime.Module:
        """Return the module of all regions; the runtime is built for it if that was not done before."""
        create = creator(self.kind, self.runtime)
        return create(json.dumps({region.symbol: _graph(region) for region in regions}))


def _graph(region: Region) -> dict[str, Any]:
    return {**region.to_json(), "nodes": [_node(node) for node in region.nodes]}


def _node(node: Node) -> dict[str, Any]:
    assert node.call is not None
    made = product_of(node.call)
    assert isinstance(made, Product), made
    flags = {"transpose_a": made.transpose_a, "transpose_b": made.transpose_b}
    return {"inputs": list(node.inputs), "outputs": list(node.outputs), **flags}
