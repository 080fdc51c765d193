"""Both extremes of all elements of a tensor, found together: what JoinExtremes makes of two reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx

from ...errors import TypeCheckError
from ...relay.ir.types import TensorType, TupleType, Type
from ...relay.op.attrs import Attrs, Int, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.kernel import loops
from ...relay.op.registry import OpPattern, operator

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []

_LANES = (4, 8, 16)


@attrs_node("relay.attrs.ExtremesAttrs")
class ExtremesAttrs(Attrs):
    """Attributes of contrib_extremes; lanes is how many float32 a vector has."""

    lanes: Int = 8


@operator("contrib_extremes", "data", attrs=ExtremesAttrs, level=10, pattern=OpPattern.OPAQUE)
class Extremes:
    """The least and the largest of the elements of a tensor of float32; its value is (least, largest).

    Elements that are no numbers are passed over, as min and max do; of none, the least is infinity.
    """

    @staticmethod
    def relation(attrs: ExtremesAttrs, data: Type) -> Type:
        source = require_tensor(data)
        if source.dtype != "float32":
            raise TypeCheckError(f"data must be float32, not {source.dtype}")
        if attrs.lanes not in _LANES:
            raise TypeCheckError(f"lanes is {attrs.lanes}, expected {' or '.join(map(str, _LANES))}")
        return TupleType([TensorType([], "float32")] * 2)

    @staticmethod
    def lower(context: LowerContext, attrs: ExtremesAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        from ...kernels.extremes import extremes

        lanes = int(attrs.lanes)

        def write(results: list[tirx.Buffer], source: tirx.Buffer) -> None:
            extremes(lanes, results, source)

        return loops(context, [([], "float32")] * 2, write, data, name="extremes")
