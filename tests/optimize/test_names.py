"""A pass is found in the package that defines it, and there alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from vmkit import optimize
from vmkit.relay import transform


def test_optimize_names_its_own_passes_and_only_those() -> None:
    passes = {name for name in dir(optimize) if name[0].isupper()}
    assert {"FlattenRows", "FoldLookups", "UseDepthToSpace", "UsePackedGemm", "UseSubpixel", "UseWinograd"} <= passes
    assert {Path(getattr(optimize, name).__wrapped__.__code__.co_filename).parent.name for name in passes} == {
        "optimize"
    }
    assert optimize.FlattenRows().info.name == "FlattenRows"
    with pytest.raises(AttributeError, match="optimize has no pass 'SimplifyExpr'"):
        optimize.SimplifyExpr  # noqa: B018


def test_relay_names_none_of_them() -> None:
    assert not {name for name in dir(optimize) if name[0].isupper()} & set(dir(transform))
    with pytest.raises(AttributeError, match="Relay has no pass 'UseWinograd'"):
        transform.UseWinograd  # noqa: B018


def test_a_misspelt_pass_suggests_one_of_the_same_package() -> None:
    with pytest.raises(AttributeError, match="optimize has no pass 'UseWinoGrad'; did you mean 'UseWinograd'"):
        optimize.UseWinoGrad  # noqa: B018


def test_names_of_passes_of_both_may_be_disabled() -> None:
    assert {"UseWinograd", "FlattenRows", "SimplifyExpr", "CombineParallelConv2d"} <= transform.PASS_NAMES
