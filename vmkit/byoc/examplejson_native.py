"""``examplejson_native``: the JSON graphs of ``examplejson``, run by a runtime in C++ with modules of its own kind.

The runtime, ``examplejson_runtime.cc``, is compiled the first time that it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import tvm

from .codegen import RuntimeModule, codegen
from .examplejson import ExampleJSON
from .native import creator
from .region import Region

__all__ = ["ExampleJSONNative"]


@codegen("examplejson_native")
class ExampleJSONNative(RuntimeModule):
    """What :class:`.ExampleJSON` takes, as one module of the kind ``examplejson``."""

    operators = ExampleJSON.operators
    takes = ExampleJSON.takes
    kind = "examplejson"
    runtime = "vmkit.byoc.examplejson_runtime"
    reads_cpu_alone = True

    def module(self, regions: Sequence[Region]) -> tvm.runtime.Module:
        """Return the module of all regions; the runtime is built for it if that was not done before."""
        create = creator(self.kind, self.runtime)
        return create(json.dumps({region.symbol: region.to_json() for region in regions}))
