"""Facts about a build: as fields, as a mapping, as JSON values."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

from vmkit.errors import ExecutableError
from vmkit.executable.build_info import BuildInfo

FULL = BuildInfo(
    checks={"7000000000001": "n is {actual}"},
    kernels={"tuned": 1, "generalised": 0, "default": 2},
    alignment="elements",
    texts=("a", ""),
    kernel_groups={"group": ["add", "exp"]},
    runtimes={"vmkit.byoc.run.npu": "npu"},
    recursive=True,
    stack_bytes=1 << 26,
)


def test_it_reads_as_a_mapping_of_what_is_known() -> None:
    info = BuildInfo(texts=(), recursive=False)
    assert dict(info) == {"checks": {}, "texts": (), "recursive": False}
    assert (len(info), "kernels" in info, info.get("alignment", "none")) == (3, False, "none")
    for name in ("kernels", "keys", "model"):
        with pytest.raises(KeyError, match=name):
            info[name]


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        FULL.recursive = False  # type: ignore[misc]


@pytest.mark.parametrize("info", [FULL, BuildInfo(), BuildInfo(texts=())])
def test_json_keeps_every_fact(info: BuildInfo) -> None:
    read = BuildInfo.from_json(json.loads(json.dumps(info.to_json())))
    assert read == info
    assert (read.texts, read.recursive, read.kernels) == (info.texts, info.recursive, info.kernels)


def test_devices_are_read_back_in_their_order() -> None:
    info = BuildInfo(devices=("cuda", "cpu"))
    assert BuildInfo.from_json(json.loads(json.dumps(info.to_json()))).devices == ("cuda", "cpu")


def test_a_file_of_an_older_release_is_read() -> None:
    assert BuildInfo.from_json({"runs": {"run": ["add"]}}).kernel_groups == {"run": ["add"]}


def test_unknown_facts_are_an_error() -> None:
    with pytest.raises(ExecutableError) as caught:
        BuildInfo.from_json({"checks": {}, "recursiv": True, "alignment": None})
    assert str(caught.value) == (
        "unknown facts about the build: 'recursiv', expected some of checks, kernels, alignment, texts, "
        "text_numbers, kernel_groups, runtimes, recursive, stack_bytes, model, devices, graph"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("checks", []),
        ("checks", {"7": 1}),
        ("kernels", {"tuned": "1"}),
        ("alignment", 64),
        ("texts", "ab"),
        ("texts", [1]),
        ("kernel_groups", {"group": "add"}),
        ("runtimes", {"run": 1}),
        ("recursive", "no"),
        ("stack_bytes", "1"),
        ("stack_bytes", True),
        ("stack_bytes", 0),
        ("stack_bytes", 1 << 20),
        ("devices", "cpu"),
        ("devices", ["cpu", 1]),
    ],
)
def test_a_fact_of_another_kind_is_an_error(name: str, value: object) -> None:
    with pytest.raises(ExecutableError, match=f"facts about the build that cannot be: {name} is "):
        BuildInfo.from_json({"checks": {}, name: value})
