"""Questions about Relay programs."""

from typing import TYPE_CHECKING

from ..._later import named_later
from .effects import effectful, effectful_globals
from .fake_quantized import list_fake_quantized_op_freqs
from .features import Feature, all_dtypes, check_constant, count_layers, detect_feature, list_op_freqs, post_order_visit
from .kinds import check_kind
from .match_coverage import unmatched_cases
from .scopes import check_basic_block_normal_form
from .type_variables import all_type_vars, bound_type_vars, free_type_vars
from .variables import all_vars, bound_vars, free_vars
from .well_formed import well_formed

if TYPE_CHECKING:
    from ...compiler.calibration import get_calibration_data

__all__ = [
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
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "unmatched_cases",
    "well_formed",
]

__getattr__, __dir__ = named_later(__name__)
