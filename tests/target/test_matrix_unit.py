"""Which targets have a matrix unit (AMX)."""

from __future__ import annotations

from vmkit.target import canonical_target
from vmkit.target.matrix_unit import FEATURES, has_matrix_unit


def test_target_has_unit_by_its_features() -> None:
    plain = "llvm -mtriple=x86_64-linux-gnu -mcpu=rocketlake"
    assert not has_matrix_unit(canonical_target(plain).primary)
    more = ",".join(f"+{feature}" for feature in FEATURES)
    assert has_matrix_unit(canonical_target(f"{plain} -mattr={more}").primary)
    assert has_matrix_unit(canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids").primary)
    assert not has_matrix_unit(canonical_target("llvm -mtriple=aarch64-linux-gnu").primary)
    assert not has_matrix_unit(canonical_target("llvm -mtriple=x86_64-apple-macos -mcpu=sapphirerapids").primary)
