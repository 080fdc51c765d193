"""Which tuning records a compilation sees."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tvm.s_tir.meta_schedule.database import Database, JSONDatabase, MemoryDatabase

from vmkit import tophub
from vmkit.errors import OptionError
from vmkit.target import canonical_target

PLAN = canonical_target(["llvm -mtriple=x86_64-linux-gnu", "cuda -arch=sm_80"])


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    workloads, records = tmp_path / "llvm-x86_64.workloads.json", tmp_path / "llvm-x86_64.records.json"
    JSONDatabase(str(workloads), str(records), allow_missing=True)
    return tmp_path


def test_without_records_there_is_no_database(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.INFO), tophub.context(PLAN.targets, tmp_path) as database:
        assert database is None
        assert Database.current() is None
    assert [record.message for record in caplog.records] == ["tuning records: none for llvm-x86_64, cuda"]


def test_bundled_records_are_in_force_inside(caplog: pytest.LogCaptureFixture, bundled: Path) -> None:
    with caplog.at_level(logging.INFO), tophub.context(PLAN.targets, bundled) as database:
        assert database is not None
        assert Database.current().same_as(database)
    assert Database.current() is None
    assert [record.message for record in caplog.records] == ["tuning records: 0 for llvm-x86_64, cuda"]


def test_the_callers_own_database_wins(bundled: Path) -> None:
    with MemoryDatabase() as own, tophub.context(PLAN.primary, bundled) as database:
        assert database.same_as(own)
        assert Database.current().same_as(own)


def test_records_that_cannot_be_read_are_an_error(bundled: Path) -> None:
    (bundled / "llvm-x86_64.records.json").write_text("[")
    with (
        pytest.raises(OptionError, match=r"tuning records llvm-x86_64\.records\.json .* cannot be read: "),
        tophub.context(PLAN.targets, bundled),
    ):
        pass


def test_records_are_filed_by_kind_and_architecture() -> None:
    assert [tophub.target_class(target) for target in PLAN.targets] == ["llvm-x86_64", "cuda"]
