"""ONNX's own backend suite at sizes that are not known at import: each a symbol of its own, or without a name.

A case gives what it gives at known sizes, but for those of a table, which are refused with a reason. A few run
always, in one variant each; all of them in both run nightly.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from tests.frontend.onnx.backend_cases import FAILURES, cases, failures_in, run
from tests.frontend.onnx.symbolic_cases import VARIANTS
from tests.places import DATA
from vmkit.errors import VMKitError

REFUSED = failures_in(DATA / "onnx_symbolic_failures.tsv")


def _sampled() -> Iterator[tuple[str, str]]:
    for name in cases():
        place = zlib.crc32(name.encode())
        if place % 50 == 0 and not name.endswith("_expanded"):
            yield name, sorted(VARIANTS)[place // 50 % 2]


SAMPLED = [*_sampled()]
REST = [(n, v) for n in cases() for v in VARIANTS if (n, v) not in SAMPLED]


def gives_the_same_or_is_refused(name: str, variant: str) -> None:
    known = REFUSED.get(name)
    if known is None:
        run(name, is_random=name in FAILURES and FAILURES[name].outcome == "random", change=VARIANTS[variant])
        return
    with pytest.raises({"refused": VMKitError, "differs": (AssertionError, TypeError)}[known.outcome]) as caught:
        run(name, change=VARIANTS[variant])
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize(("name", "variant"), SAMPLED)
def test_a_part_of_the_suite(name: str, variant: str) -> None:
    gives_the_same_or_is_refused(name, variant)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "variant"), REST)
def test_the_rest_of_the_suite(name: str, variant: str) -> None:
    gives_the_same_or_is_refused(name, variant)


def test_the_table_names_cases_that_there_are() -> None:
    assert set(REFUSED) <= set(cases())
    assert all(f.outcome in ("refused", "differs") and f.reason for f in REFUSED.values())
