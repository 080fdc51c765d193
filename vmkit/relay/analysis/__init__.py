"""Questions about Relay programs."""

from typing import TYPE_CHECKING

from ..._later import named_later
from . import sparse_conv2d, sparse_dense
from .annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from .call_graph import CallGraph
from .effects import effectful, effectful_globals
from .fake_quantized import list_fake_quantized_op_freqs
from .features import Feature, all_dtypes, check_constant, count_layers, detect_feature, list_op_freqs, post_order_visit
from .intermediate import extract_intermdeiate_expr
from .kinds import check_kind
from .mac_count import get_total_mac_number
from .match_coverage import unmatched_cases
from .scopes import check_basic_block_normal_form
from .type_variables import all_type_vars, bound_type_vars, free_type_vars
from .variables import all_vars, bound_vars, free_vars
from .weights import search_fc_transpose
from .well_formed import well_formed

if TYPE_CHECKING:
    from ...compiler.calibration import get_calibration_data
    from ..transform.fused_functions import extract_fused_functions

__all__ = [
    "AnnotatedRegion",
    "AnnotatedRegionSet",
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "effectful",
    "effectful_globals",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "sparse_conv2d",
    "sparse_dense",
    "unmatched_cases",
    "well_formed",
]

__getattr__, __dir__ = named_later(__name__)
