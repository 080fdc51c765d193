"""All nodes with named fields in TVM's JSON, as 0.14 had them.

A row names the class and its fields. A field's value goes to the class's parameter, and comes from its attribute, of
the same name, unless the row says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm
from tvm.ir import DictAttrs, SequentialSpan, SourceName, Span

from ..ir import Function, GlobalTypeVar, GlobalVar, TypeData, VirtualDevice, define_type, type_definitions
from .expression_records import EXPRESSION_RECORDS
from .record import ATTRIBUTES, Record
from .slots import INT, STRING, MapOf, Ref, many
from .type_records import TYPE_RECORDS

if TYPE_CHECKING:
    from .writer import NodeWriter

__all__ = ["RECORDS"]


class _ModuleRecord(Record[tvm.IRModule]):
    def write(self, value: tvm.IRModule, writer: NodeWriter) -> dict[str, str]:
        functions = dict(value.functions.items())
        writer.global_types = {v.name_hint: getattr(f, "checked_type_", None) for v, f in functions.items()}
        types = {data.header: data for data in type_definitions(value).values()}
        return {
            "attrs": ATTRIBUTES.write(value.attrs, writer),
            "functions": str(writer.index(functions)),
            "global_type_var_map_": str(writer.index({name.name_hint: name for name in types})),
            "global_var_map_": str(writer.index({variable.name_hint: variable for variable in functions})),
            "source_map": writer.raw_index("SourceMap", {"source_map": str(writer.index({}))}),
            "type_definitions": str(writer.index(types)),
        }


def _module(
    functions: dict[GlobalVar, Function], type_definitions: dict[GlobalTypeVar, TypeData], attrs: DictAttrs | None
) -> tvm.IRModule:
    made = tvm.IRModule(functions, attrs=attrs)
    # The map has no order of its own; text is sorted by name.
    if type_definitions:
        define_type(made, *sorted(type_definitions.values(), key=lambda data: data.header.name_hint))
    return made


RECORDS: dict[str, Record[Any]] = {
    **EXPRESSION_RECORDS,
    **TYPE_RECORDS,
    "IRModule": _ModuleRecord(
        tvm.IRModule,
        {
            "functions": MapOf("global variables to functions", GlobalVar, Function, optional=True),
            "type_definitions": MapOf("names to data types", GlobalTypeVar, TypeData, optional=True),
            "attrs": ATTRIBUTES,
        },
        make_from=_module,
    ),
    "VirtualDevice": Record(
        VirtualDevice,
        {"device_type_int": INT, "virtual_device_id": INT, "memory_scope": STRING},
        make_from=lambda device_type_int, virtual_device_id, memory_scope: VirtualDevice(
            device_type_int, virtual_device_id, memory_scope
        ),
        attributes={"device_type_int": "device_type"},
        # A target of its own is refused: the compiler is given the target.
        also_written={"target": "0"},
    ),
    "Span": Record(
        Span,
        {
            "source_name": Ref("the name of a source", (SourceName,), optional=True),
            "line": INT,
            "end_line": INT,
            "column": INT,
            "end_column": INT,
        },
    ),
    "SequentialSpan": Record(SequentialSpan, {"spans": many(Ref("a span", (Span, SequentialSpan)))}),
    "tir.StringImm": Record(str, {"value": STRING}, make_from=lambda value: value),
}
