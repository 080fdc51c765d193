"""Tuning records: which kernel takes which, what is in force, and files."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import te, tirx, topi
from tvm.s_tir.meta_schedule.database import Database, JSONDatabase, MemoryDatabase, OrderedUnionDatabase

import vmkit
from vmkit import relay, tophub
from vmkit.errors import OptionError
from vmkit.schedule import cpu as rules
from vmkit.schedule import gpu
from vmkit.schedule.cpu import dot
from vmkit.target import canonical_target
from vmkit.tophub import Record, Records, choosing
from vmkit.tophub.workload import workload_of
from vmkit.tuning.extract import kernels_of

V3 = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}
TARGET = tvm.target.Target(V3)
n = tirx.Var("n", "int64")


def dense(rows: Any, units: int, size: int, act: Any = topi.nn.relu) -> tirx.PrimFunc:
    x, w = (te.placeholder((each, size), "float16", name) for each, name in ((rows, "x"), (units, "w")))
    return te.create_prim_func([x, w, act(topi.nn.dense(x, w))])


def key(function: tirx.PrimFunc, target: tvm.target.Target = TARGET) -> tophub.Workload:
    schedule = rules.prepared(function)
    assert schedule is not None
    rule = next(rule for rule in rules.RULES if rule.decide(schedule, target) is not None)
    return workload_of(schedule, rule)


def record(function: tirx.PrimFunc, decisions: dot.Decisions, **changed: Any) -> Record:
    made = Record(
        key(function), dot.RULE.to_json(decisions), "x86-64-v3", "haswell", 2e-6, 1e-6, "0.1.0", "0.27.0", "2026-01-31"
    )
    return replace(made, **changed)


def chosen(function: tirx.PrimFunc, records: Records) -> tuple[str, Any]:
    schedule = rules.prepared(function)
    assert schedule is not None
    default = dot.RULE.decide(schedule, TARGET)
    assert default is not None
    with choosing.entered(records):
        return next(iter(choosing.choose(schedule, dot.RULE, TARGET, default)))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (V3, "x86-64-v3"),
        ({**V3, "mcpu": "rocketlake"}, "x86-64-v4"),
        ({**V3, "mcpu": "knl"}, "x86-64-v3"),
        ({**V3, "mcpu": "rocketlake", "mattr": ["-avx512f"]}, "x86-64-v3"),
        ({**V3, "mcpu": "x86-64"}, "generic"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}, "aarch64"),
        ({"kind": "llvm", "mtriple": "riscv64-linux-gnu"}, "generic"),
        ({"kind": "cuda", "arch": "sm_80"}, "cuda"),
    ],
)
def test_the_class_of_a_target_follows_from_its_features(config: dict[str, Any], name: str) -> None:
    assert tophub.target_class(tvm.target.Target(config)) == name


def test_a_workload_says_what_a_kernel_is_and_reads_back() -> None:
    workload = key(dense(n, 20, 64))
    assert workload.to_json() == {
        "rule": "dot",
        "dtype": "float16",
        "axes": [["spatial", None], ["spatial", 20], ["reduction", 64]],
        "reads": ["i0, i2", "i1, i2"],
        "fused": ["max"],
        "stages": 2,
    }
    assert tophub.Workload.from_json(json.loads(json.dumps(workload.to_json()))) == workload


def test_a_workload_of_a_weight_that_is_widened_is_another_one() -> None:
    def packed(dtype: str) -> tophub.Workload:
        def function(x: te.Tensor, w: te.Tensor) -> te.Tensor:
            k = te.reduce_axis((0, 64))
            return te.compute((n, 32), lambda i, j: te.sum(x[i, k] * w[j // 32, k, j % 32].astype("float32"), k))

        data, weight = te.placeholder((n, 64), name="x"), te.placeholder((1, 64, 32), dtype, "w")
        return key(te.create_prim_func([data, weight, function(data, weight)]))

    whole, *others = (packed(dtype) for dtype in ("float32", "float16", "bfloat16"))
    assert whole.reads == ("i0, i2", "i1 // 32, i2, i1 % 32")
    assert [each.reads[1] for each in others] == [f"{whole.reads[1]}: {dtype}" for dtype in ("float16", "bfloat16")]
    assert all(each.distance(whole) is None for each in others)


def test_a_workload_of_a_rule_that_was_renamed_reads_as_one_of_todays() -> None:
    data = key(dense(n, 20, 64)).to_json()
    old = {"edges", "joined", "pieces", "rows", "total"}
    names = {tophub.Workload.from_json({**data, "rule": name}).rule for name in old}
    assert names == {"peeled_window", "concatenation", "piecewise", "row_reduction", "full_reduction"}
    assert names <= {rule.name for rule in rules.RULES}


@pytest.mark.parametrize("path", sorted(tophub.RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_bundled_records_are_of_rules_that_there_are(path: Path) -> None:
    known = {rule.name for rule in (*rules.RULES, *gpu.RULES)}
    entries = json.loads(path.read_text(encoding="utf-8"))["records"]
    assert entries and {entry["workload"]["rule"] for entry in entries} <= known


def test_a_workload_holds_strides_and_dilations() -> None:
    def conv(stride: int, dilation: int) -> tirx.PrimFunc:
        x, w = te.placeholder((1, 31, 31, 16), name="x"), te.placeholder((3, 3, 16, 1), name="w")
        return te.create_prim_func([x, w, topi.nn.depthwise_conv2d_nhwc(x, w, stride, (0, 0), dilation)])

    read = [key(conv(s, d)).reads[0] for s, d in ((1, 1), (2, 1), (1, 2))]
    assert read == ["i0, i1 + i4, i2 + i5, i3", "i0, i1 * 2 + i4, i2 * 2 + i5, i3", "i0, i4 * 2 + i1, i5 * 2 + i2, i3"]
    assert key(conv(1, 1)).distance(key(conv(2, 1))) is None


def test_distances_are_powers_of_two_and_unknown_sizes_are_like_unknown_ones_only() -> None:
    own = key(dense(8, 20, 64))
    assert own.distance(own) == 0
    assert own.distance(key(dense(4, 40, 64))) == 2
    assert own.distance(key(dense(8, 20, 64, topi.tanh))) == 0
    assert own.distance(key(dense(n, 20, 64))) is None
    assert key(dense(n, 20, 64)).distance(key(dense(n, 20, 32))) == 1


def pool(images: Any, size: int) -> tirx.PrimFunc:
    x = te.placeholder((images, size, size, 64), name="x")
    return te.create_prim_func([x, topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), "max", layout="NHWC")])


def test_a_record_holds_for_any_number_of_images_as_for_twice_as_many_and_not_the_other_way_round() -> None:
    any_images = key(pool(n, 111))
    assert any_images.distance(key(pool(1, 111))) == any_images.distance(key(pool(8, 111))) == 1
    assert any_images.distance(key(pool(1, 223))) == pytest.approx(1 + 2 * np.log2(111 / 55))
    assert any_images.distance(any_images) == 0
    assert key(pool(1, 111)).distance(any_images) is None
    # Where an image has one position, tiles are along the images.
    assert key(pool(n, 3)).distance(key(pool(1, 3))) is None


def test_a_kernel_takes_its_own_record_then_the_nearest_then_the_default() -> None:
    own, near, far = dot.Decisions(8, 1, False), dot.Decisions(16, 2, False), dot.Decisions(4, 4, False)
    records = Records([record(dense(8, 24, 64), far), record(dense(8, 20, 128), near), record(dense(8, 20, 64), own)])
    assert chosen(dense(8, 20, 64), records) == ("tuned", own)
    assert chosen(dense(8, 20, 96), records) == ("generalised", near)
    assert chosen(dense(8, 200, 640), records)[0] == "default"
    assert chosen(dense(n, 20, 64), records)[0] == "default"


def test_decisions_that_a_kernel_cannot_have_are_passed_over() -> None:
    wrong = record(dense(8, 20, 64), dot.Decisions(16, 20, False))
    odd = replace(wrong, decisions={"lanes": 16})
    near = record(dense(8, 20, 128), dot.Decisions(16, 2, False))
    assert chosen(dense(8, 20, 64), Records([wrong, near])) == ("generalised", dot.Decisions(16, 2, False))
    assert chosen(dense(8, 20, 64), Records([odd]))[0] == "default"


def test_where_the_default_was_best_a_kernel_like_it_takes_its_own_default() -> None:
    best = record(dense(8, 20, 128), dot.Decisions(4, 1, False), seconds=2e-6)
    assert chosen(dense(8, 20, 64), Records([best])) == ("default", dot.Decisions(16, 4, False))


def test_candidates_are_listed_for_a_record_that_may_count() -> None:
    rule = replace(dot.RULE, candidates=lambda *_: pytest.fail("they are not asked for"))
    schedule = rules.prepared(dense(8, 20, 64))
    assert schedule is not None
    default = rule.decide(schedule, TARGET)
    assert default is not None
    best = record(dense(8, 20, 128), dot.Decisions(4, 1, False), seconds=2e-6)
    with choosing.entered(Records([best])):
        assert list(choosing.choose(schedule, rule, TARGET, default)) == [("default", default)]


def test_records_of_another_class_of_targets_do_not_count() -> None:
    other = record(dense(8, 20, 64), dot.Decisions(8, 1, False), target_class="aarch64")
    assert chosen(dense(8, 20, 64), Records([other]))[0] == "default"


def test_files_of_records_read_back_and_the_first_of_a_kernel_counts(tmp_path: Path) -> None:
    first, second = (record(dense(8, 20, 64), dot.Decisions(8, rows, False)) for rows in (1, 2))
    both = Records([first]) + Records([second, record(dense(n, 20, 64), dot.Decisions(8, 1, False))])
    assert len(both) == 2 and first in list(both)
    both.write(tmp_path / "mine.json")
    assert list(Records.read(tmp_path / "mine.json")) == list(both)
    assert len((tmp_path / "mine.json").read_text().splitlines()) == 4
    assert [p.name for p in tmp_path.iterdir()] == ["mine.json"]


@pytest.mark.parametrize("text", ["[", "{}", '{"format": 2, "records": []}', '{"format": 1, "records": [{}]}'])
def test_a_file_that_holds_something_else_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(OptionError, match=r"tuning records .*mine\.json cannot be read: "):
        Records.read(tmp_path / "mine.json")


def test_bundled_records_are_below_those_that_the_user_has_entered(tmp_path: Path) -> None:
    theirs, mine = dot.Decisions(8, 1, False), dot.Decisions(8, 2, False)
    both = [dense(8, 20, 64), dense(4, 20, 64)]
    Records([record(f, theirs) for f in both]).write(tmp_path / "x86-64-v3.json")
    Records([record(both[0], mine)]).write(tmp_path / "mine.json")
    with tophub.load(tmp_path / "mine.json"), tophub.context(TARGET, tmp_path) as records:
        assert [records.exact(key(f), "x86-64-v3").decisions["outputs"] for f in both] == [2, 1]
    assert len(choosing.in_force()) == 0


def test_bundled_records_are_read_once_and_again_when_their_file_changes(tmp_path: Path) -> None:
    file, both = tmp_path / "x86-64-v3.json", [dense(8, 20, 64), dense(4, 20, 64)]
    for functions in (both[:1], both):
        Records([record(f, dot.Decisions(8, 1, False)) for f in functions]).write(file)
        with tophub.context(TARGET, tmp_path) as records, tophub.context(TARGET, tmp_path) as inner:
            assert len(records) == len(inner) == len(functions)
    before = next(iter(records))
    with tophub.context(TARGET, tmp_path) as records:
        assert next(iter(records)) is before


def test_a_record_whose_seconds_are_no_numbers_is_an_error(tmp_path: Path) -> None:
    data = record(dense(8, 20, 64), dot.Decisions(8, 1, False)).to_json()
    (tmp_path / "mine.json").write_text(json.dumps({"format": 1, "records": [{**data, "seconds": None}]}))
    with pytest.raises(OptionError, match="cannot be read: TypeError: the seconds of a record are numbers"):
        Records.read(tmp_path / "mine.json")


def test_a_class_without_bundled_records_is_no_error(tmp_path: Path) -> None:
    with tophub.context([TARGET, tvm.target.Target({"kind": "cuda", "arch": "sm_80"})], tmp_path) as records:
        assert len(records) == 0


def test_bundled_records_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "x86-64-v3.json").write_text("[")
    with pytest.raises(OptionError, match="cannot be read"), tophub.context(TARGET, tmp_path):
        pass


def test_bundled_files_are_of_the_class_that_they_are_named_after() -> None:
    for file in tophub.RECORDS.glob("*.json"):
        records = Records.read(file)
        assert len(records) and {r.target_class for r in records} == {file.stem}
        by_name = {rule.name: rule for rule in (*rules.RULES, *gpu.RULES)}
        assert all(by_name[r.workload.rule].from_json(r.decisions) is not None for r in records)


BUNDLED = {
    "aarch64": {"mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"},
    "generic": {"mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"},
    "x86-64-v3": {"mtriple": "x86_64-linux-gnu", "mcpu": "haswell"},
    "x86-64-v4": {"mtriple": "x86_64-linux-gnu", "mcpu": "rocketlake"},
}


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_decisions_are_found_and_are_legal_for_their_kernels(name: str) -> None:
    target = canonical_target({"kind": "llvm", **BUNDLED[name], "num-cores": 1}).primary
    assert tophub.target_class(target) == name
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    kernels = kernels_of(onnx.load(folder / "light_squeezenet.onnx"), target)
    records, found = Records.read(tophub.RECORDS / f"{name}.json"), 0
    for kernel in kernels:
        record = records.exact(kernel.workload, name)
        if record is None:
            continue
        schedule = rules.prepared(kernel.function)
        assert schedule is not None
        assert kernel.rule.from_json(record.decisions) in list(kernel.rule.candidates(schedule, target))
        found += 1
    assert found > 0


def test_folders_of_meta_schedule_databases_are_entered_and_asked_with_the_users_own(tmp_path: Path) -> None:
    JSONDatabase(*(str(tmp_path / f"database_{x}.json") for x in ("workload", "tuning_record")), allow_missing=True)
    with MemoryDatabase() as own, tophub.load(tmp_path) as records:
        assert len(records) == 0
        assert isinstance(Database.current(), OrderedUnionDatabase)
        assert not Database.current().same_as(own)
    assert Database.current() is None
    with pytest.raises(OptionError, match="cannot be read"), tophub.load(tmp_path / "database_workload.json"):
        pass


def test_a_compilation_says_where_decisions_come_from_and_computes_the_same(caplog: pytest.LogCaptureFixture) -> None:
    x, weight = (relay.var(name, shape=(size, 64), dtype="int32") for name, size in (("x", 3), ("w", 20)))
    mod = tvm.IRModule({"main": relay.Function([x, weight], relay.nn.relu(relay.nn.dense(x, weight)))})
    values = [np.random.default_rng(0).integers(-9, 9, s, "int32") for s in ((3, 64), (20, 64))]
    plain = vmkit.compile(mod, V3)
    assert plain.info["kernels"]["tuned"] == 0
    (workload,) = {key(f) for f in _kernels(mod)}
    mine = record(dense(3, 20, 64), dot.Decisions(8, 2, False), workload=workload)
    with choosing.entered(Records([mine])), caplog.at_level(logging.INFO, logger="vmkit.compiler.vm_compiler"):
        tuned = vmkit.compile(mod, V3)
    assert tuned.info["kernels"] == {"tuned": 1, "generalised": 0, "default": 0}
    assert [r.message for r in caplog.records] == ["kernels: 1 tuned, 0 generalised, 0 default"]
    results = [vmkit.VirtualMachine(exe, "cpu").run(*values).numpy() for exe in (plain, tuned)]
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[0], np.maximum(values[0] @ values[1].T, 0))


def _kernels(mod: tvm.IRModule) -> list[tirx.PrimFunc]:
    from vmkit.compiler.stages import fused_kernels

    made = fused_kernels(mod, canonical_target(V3).primary)
    return [f for f in made.functions.values() if isinstance(f, tirx.PrimFunc)]
