"""ONNX's own backend suite at sizes that are not known at import: each a symbol of its own, or without a name.

A case gives what it gives at known sizes. A few run always, in one variant each; all of them in both run nightly.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from tests.frontend.onnx.backend_cases import cases, run
from tests.frontend.onnx.symbolic_cases import VARIANTS


def _sampled() -> Iterator[tuple[str, str]]:
    for name in cases():
        place = zlib.crc32(name.encode())
        if place % 50 == 0 and not name.endswith("_expanded"):
            yield name, sorted(VARIANTS)[place // 50 % 2]


# Of sizes that kernels and ranks come from.
CHOSEN = [
    ("test_causal_conv_with_state_silu", "unnamed"),
    ("test_col2im", "named"),
    ("test_convtranspose_autopad_same", "named"),
    ("test_linear_attention_gated_per_head_decay", "unnamed"),
    ("test_rotary_embedding_with_rotary_dim", "named"),
]
SAMPLED = sorted({*_sampled(), *CHOSEN})
REST = [(n, v) for n in cases() for v in VARIANTS if (n, v) not in SAMPLED]


@pytest.mark.parametrize(("name", "variant"), SAMPLED)
def test_a_part_of_the_suite(name: str, variant: str) -> None:
    run(name, change=VARIANTS[variant])


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "variant"), REST)
def test_the_rest_of_the_suite(name: str, variant: str) -> None:
    run(name, change=VARIANTS[variant])
