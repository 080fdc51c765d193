"""Archives read back: what is in order is run, what is not is refused before anything is written."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.cli import ExitCode, main
from vmkit.errors import ExecutableError, InputError, UnavailableError


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "sums.tar"
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))
    vmkit.mlf.export(relay.Function([x, y], relay.Tuple([x + y, relay.sum(x, axis=1)])), path, model_name="sums")
    return path


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def plain(path: Path, files: dict[str, bytes], *special: tarfile.TarInfo) -> Path:
    """Write an archive without a seal, as TVM wrote them."""
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in special:
            tar.addfile(info)
    return path


def test_what_was_exported_runs(archive: Path) -> None:
    library = vmkit.mlf.load(archive)
    assert (library.version, library.style, library.models) == (7, "full-model", ("sums",))
    assert str(library.signature()) == (
        "tvmgen_sums_run(x: float32[2, 3], y: float32[3]) -> (output0: float32[2, 3], output1: float32[2])"
    )
    model = library.build()
    x, y = np.arange(6, dtype="float32").reshape(2, 3), np.array([10, 20, 30], "float32")
    first, second = model.run(x, y=y)
    np.testing.assert_array_equal(first, x + y)
    np.testing.assert_array_equal(second, x.sum(axis=1))
    np.testing.assert_array_equal(model.run(x.T.copy().T, y)[0], x + y)
    with pytest.raises(InputError, match=r"y: dtype float64, expected float32"):
        model.run(x, y.astype("float64"))
    assert len(model.seconds([x, y], repeat=2, number=3)) == 2


def test_an_archive_without_a_seal_is_taken(archive: Path, tmp_path: Path) -> None:
    library = vmkit.mlf.load(plain(tmp_path / "foreign.tar", members(archive)))
    assert library.models == ("sums",)
    library.extract(tmp_path / "out")
    assert (tmp_path / "out" / "metadata.json").is_file()
    with pytest.raises(ExecutableError, match="expected an empty folder"):
        library.extract(tmp_path / "out")


def test_what_would_be_written_elsewhere_is_refused(archive: Path, tmp_path: Path) -> None:
    files = members(archive)
    link, hard, device = (tarfile.TarInfo(name) for name in ("./src/link", "./src/hard", "./src/device"))
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    hard.type, hard.linkname = tarfile.LNKTYPE, "/etc/passwd"
    device.type = tarfile.CHRTYPE
    cases: list[tuple[dict[str, bytes], list[tarfile.TarInfo], str]] = [
        ({"../outside": b"x"}, [], "leads out of"),
        ({"/tmp/outside": b"x"}, [], "leads out of"),
        ({"./a/../../outside": b"x"}, [], "leads out of"),
        ({"..\\outside": b"x"}, [], "leads out of"),
        ({"C:outside": b"x"}, [], "leads out of"),
        ({"metadata.json": b"{}"}, [], "two members are at 'metadata.json'"),
        ({"./src/sums.relay/inside": b"x"}, [], "two members are at"),
        ({}, [link], "links and devices are refused"),
        ({}, [hard], "links and devices are refused"),
        ({}, [device], "links and devices are refused"),
    ]
    folder = tmp_path / "work"
    folder.mkdir()
    for extra, special, reason in cases:
        path = plain(folder / "bad.tar", {**files, **extra}, *special)
        with pytest.raises(ExecutableError, match=reason):
            vmkit.mlf.load(path)
    assert [each.name for each in tmp_path.iterdir()] == ["work"]


def test_descriptions_that_are_not_of_the_format_say_so(archive: Path, tmp_path: Path) -> None:
    files = members(archive)
    good = json.loads(files["./metadata.json"])

    def refused(text: bytes, reason: str) -> None:
        path = plain(tmp_path / "bad.tar", {**files, "./metadata.json": text})
        with pytest.raises(ExecutableError, match=reason):
            vmkit.mlf.load(path)

    def changed(**facts: Any) -> bytes:
        module = {**good["modules"]["sums"], **facts}
        return json.dumps({"version": 7, "modules": {"sums": module}}).encode()

    refused(b"{", "metadata.json is no JSON")
    refused(b"[1]", "holds no object but a list")
    refused(json.dumps({**good, "version": 8}).encode(), r"version 8 of the format; expected one of \(6, 7\)")
    refused(json.dumps({**good, "modules": {}}).encode(), "one model at least")
    refused(changed(style="operator"), "style 'operator'; expected full-model")
    refused(changed(memory={}), "memory.functions.main: KeyError")
    main = good["modules"]["sums"]["memory"]["functions"]["main"][0]
    for wrong in (-1, "2", None, 1.5):
        memory = {"functions": {"main": [{**main, "workspace_size_bytes": wrong}]}}
        refused(changed(memory=memory), f"ValueError workspace_size_bytes is {wrong!r}")
    for said, reason in (
        ({"size": -4, "dtype": "float32"}, "x has -4 bytes of float32"),
        ({"size": "24", "dtype": "float32"}, "x has '24' bytes of float32"),
        ({"size": 24, "dtype": "object"}, "x is of 'object', no type of elements"),
        ({"size": 24, "dtype": "int16"}, r"x has 24 bytes of int16, and the header float32\[2, 3\]"),
        ({"size": 8, "dtype": "float32"}, r"x has 8 bytes of float32, and the header float32\[2, 3\]"),
    ):
        described = {**main, "inputs": {**main["inputs"], "x": said}}
        refused(changed(memory={"functions": {"main": [described]}}), f"ValueError {reason}")
    fewer = {**main, "inputs": {"x": main["inputs"]["x"]}}
    refused(changed(memory={"functions": {"main": [fewer]}}), "ValueError 1 tensors, and the header has 2")
    refused(json.dumps({"version": 7, "modules": {"other": good["modules"]["sums"]}}).encode(), "no code of it")
    refused(json.dumps({"version": 7, "modules": {"a b": {}}}).encode(), "'a b' is no name of a model")
    refused(b"[" * 100_000, "metadata.json is no JSON")
    with pytest.raises(ExecutableError, match=r"there is no metadata\.json"):
        vmkit.mlf.load(plain(tmp_path / "none.tar", {"./x": b""}))
    with pytest.raises(ExecutableError, match=r"cannot read .*: No such file"):
        vmkit.mlf.load(tmp_path / "nowhere.tar")
    broken = plain(tmp_path / "c.tar", {**files, "./codegen/host/src/sums_lib1.c": b"#error not today\n"})
    with pytest.raises(ExecutableError, match=r"(?s)could not build it:.*not today"):
        vmkit.mlf.load(broken).build()
    assert vmkit.mlf.load(archive).build(compiler="cc -O0").signature.names == ("x", "y")
    with pytest.raises(UnavailableError, match="no C compiler: nothing-like-it is not on the path"):
        vmkit.mlf.load(archive).build(compiler="nothing-like-it")


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    made = bytearray(data)
    place = int(rng.integers(0, len(data)))
    match int(rng.integers(0, 5)):
        case 0:
            made[place] ^= 1 << int(rng.integers(0, 8))
        case 1:
            del made[place:]
        case 2:
            del made[place : place + int(rng.integers(1, 600))]
        case 3:
            made[place:place] = rng.bytes(int(rng.integers(1, 600)))
        case 4:
            other = int(rng.integers(0, len(data)))
            block = made[other // 512 * 512 :][:512]
            made[place // 512 * 512 : place // 512 * 512 + 512] = block
    return bytes(made)


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.nightly)])
def test_altered_archives_are_refused(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    data, rng, path = archive.read_bytes(), np.random.default_rng(count), tmp_path / "altered.tar"
    for _ in range(count):
        altered = mutated(data, rng)
        if altered == data:
            continue
        path.write_bytes(altered)
        with pytest.raises(ExecutableError, match=r"altered\.tar: "):
            vmkit.mlf.load(path)
        assert main(["run", str(path)]) == ExitCode.MODEL
        assert f"vmkit: {path}: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]
