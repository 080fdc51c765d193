"""The file of an executable by itself: what is written is read, in place and aligned, and nothing else is."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from vmkit.errors import ExecutableError, OptionError
from vmkit.executable import archive
from vmkit.executable.archive import ALIGNMENT, read_archive, write_archive

MEMBERS = {"code.bin": b"code" * 5, "weights.bin": bytes(range(200)), "lib0.ll": b""}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_archive(tmp_path / "model.vmx", {"target": "llvm"}, MEMBERS)
    return tmp_path / "model.vmx"


def test_members_and_manifest_come_back(path: Path) -> None:
    manifest, members = read_archive(path)
    assert {name: bytes(data) for name, data in members.items()} == MEMBERS
    assert (manifest["target"], manifest["format"], manifest["format_version"]) == ("llvm", "vmkit-executable", 2)
    assert {name: entry["size"] for name, entry in manifest["members"].items()} == {
        n: len(d) for n, d in MEMBERS.items()
    }


def test_members_are_aligned_in_the_file_and_in_memory(path: Path) -> None:
    import numpy as np

    _, members = read_archive(path)
    data = path.read_bytes()
    for name in ("code.bin", "weights.bin"):
        assert data.index(MEMBERS[name]) % ALIGNMENT == 0
        assert np.frombuffer(members[name], "uint8").ctypes.data % ALIGNMENT == 0


def test_large_members_are_aligned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LARGE", 100)
    path = tmp_path / "model.vmx"
    write_archive(path, {}, MEMBERS)
    _, members = read_archive(path)
    assert {name: bytes(data) for name, data in members.items()} == MEMBERS
    assert path.read_bytes().index(MEMBERS["weights.bin"]) % ALIGNMENT == 0
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None


def test_a_member_in_parts_is_the_member(path: Path, tmp_path: Path) -> None:
    whole = MEMBERS["weights.bin"]
    parts = {**MEMBERS, "weights.bin": [whole[:64], memoryview(whole)[64:100], b"", whole[100:]]}
    write_archive(tmp_path / "parts.vmx", {"target": "llvm"}, parts)
    assert (tmp_path / "parts.vmx").read_bytes() == path.read_bytes()


def test_equal_contents_are_equal_files(path: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "again.vmx", {"target": "llvm"}, MEMBERS)
    assert (tmp_path / "again.vmx").read_bytes() == path.read_bytes()


def test_any_tool_for_zip_files_reads_it(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert file.namelist() == ["manifest.json", *MEMBERS]
        assert json.loads(file.read("manifest.json"))["target"] == "llvm"


def test_a_member_that_is_compressed_is_not_used(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        contents, seal = {name: file.read(name) for name in file.namelist()}, file.comment
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.comment = seal
        for name, data in contents.items():
            file.writestr(name, data)
    with pytest.raises(ExecutableError, match=r"the file was altered: manifest.json is not where it should be"):
        read_archive(path)


def test_a_sealed_manifest_of_another_format_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_FORMAT", "other")
    write_archive(path, {}, MEMBERS)
    monkeypatch.undo()
    with pytest.raises(ExecutableError, match="not a vmkit executable: format 'other'"):
        read_archive(path)


def test_a_window_over_memory_reads_as_a_file() -> None:
    window = archive._Window(memoryview(b"0123456789"))
    assert window.readable() and window.seekable()
    assert (window.seek(-3, io.SEEK_END), window.read(2), window.seek(-1, io.SEEK_CUR), window.read()) == (
        7,
        b"78",
        8,
        b"89",
    )
    assert window.read(1) == b""
    with pytest.raises(ValueError, match="there is no place -1"):
        window.seek(-1)


@pytest.mark.parametrize("place", [0, 1, 59, 60, 61, 64])
def test_padding_ends_at_a_multiple(place: int) -> None:
    extra = archive._padding(place)
    assert (place + len(extra)) % ALIGNMENT == 0 and len(extra) >= 4


def rewritten(
    path: Path, manifest: object = None, names: dict[str, str] | None = None, raw: bytes | None = None
) -> None:
    """Write a file anew with another manifest or other names of members, with digests that fit."""
    said, members = read_archive(path)
    names = names or {}
    contents = {names.get(name, name): bytes(data) for name, data in members.items()}
    said["members"] = {n: {"sha256": hashlib.sha256(d).hexdigest(), "size": len(d)} for n, d in contents.items()}
    text = raw if raw is not None else json.dumps(said).encode()
    with zipfile.ZipFile(path, "w") as file:
        file.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
        for name, data in {"manifest.json": text, **contents}.items():
            file.writestr(zipfile.ZipInfo(name), data)


@pytest.mark.parametrize(
    "name",
    ["/tmp/lib0.so", "../lib0.so", "a/lib0.so", "lib0.so.exe", "lib0.o", "lib0.tar", "lib.so", "LIB0.SO", "lib0.ll\n"],
)
def test_members_of_other_names_are_refused(path: Path, name: str) -> None:
    rewritten(path, names={"lib0.ll": name})
    with pytest.raises(ExecutableError, match=r"a member is called .*; vmkit writes none of this name"):
        read_archive(path)


def test_a_file_without_code_is_refused(path: Path) -> None:
    rewritten(path, names={"code.bin": "lib1.so"})
    with pytest.raises(ExecutableError, match=r"there is no code.bin"):
        read_archive(path)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"{", "manifest.json is no JSON"),
        (b"[" * 100_000, "manifest.json is no JSON"),
        (b"\xff\xfe", "manifest.json is no JSON"),
        (b"[]", r"not a vmkit executable: format \[\]"),
        (b'{"format": "vmkit-executable", "format_version": "2", "members": {}}', "the format version is '2'"),
        (b'{"format": "vmkit-executable", "format_version": true, "members": {}}', "the format version is True"),
        (b'{"format": "vmkit-executable", "format_version": 2, "members": null}', "has no table of members"),
        (b'{"format": "vmkit-executable", "format_version": 2, "members": {"code.bin": 1}}', "has no table of members"),
        (b'{"format": "vmkit-executable", "format_version": 2, "members": {}}', "code.bin was added"),
        (b'{"format": "vmkit-executable", "format_version": 99, "members": {}}', "format version 99, written by"),
    ],
)
def test_manifests_that_say_nonsense_are_refused(path: Path, raw: bytes, problem: str) -> None:
    rewritten(path, raw=raw)
    with pytest.raises(ExecutableError, match=problem):
        read_archive(path)


def test_two_members_of_one_name_are_refused(path: Path) -> None:
    data = path.read_bytes()
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as file:
        file.writestr(zipfile.ZipInfo("code.bin"), b"other")
    assert path.read_bytes() != data
    with pytest.raises(ExecutableError, match="two members have one name"):
        read_archive(path)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExecutableError, match="pipe: not a vmkit executable: it is no regular file"):
        read_archive(tmp_path / "pipe")


def test_a_file_of_something_else_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 42)  # more than any memory holds, none of it on the disk
    with pytest.raises(ExecutableError, match="sparse: not a vmkit executable; write one"):
        read_archive(tmp_path / "sparse")


def test_a_file_larger_than_the_memory_is_an_error(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(1 << 43)
    with pytest.raises(ExecutableError, match="there is not enough memory for the file"):
        read_archive(path)


def test_who_signed_a_file_is_known_before_it_is_read(tmp_path: Path) -> None:
    mine, other = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
    path = tmp_path / "signed.vmx"
    write_archive(path, {"target": "llvm"}, MEMBERS, mine)
    manifest, _ = read_archive(path, [other.public_key(), mine.public_key()])
    assert manifest["target"] == "llvm"
    assert read_archive(path)[0] == manifest, "nobody has to ask for a signature"
    with pytest.raises(ExecutableError, match="the file is not signed by the trusted key"):
        read_archive(path, [other.public_key()])
    with pytest.raises(ExecutableError, match="not signed by any of the 0 trusted keys"):
        read_archive(path, [])


def test_a_signature_is_of_one_manifest(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    for name, target in (("a", "llvm"), ("b", "cuda")):
        write_archive(tmp_path / name, {"target": target}, MEMBERS, key)
    with zipfile.ZipFile(tmp_path / "a") as a, zipfile.ZipFile(tmp_path / "b", "a") as b:
        b.comment = b.comment[: len("sha256:") + 64] + a.comment[len("sha256:") + 64 :]
    with pytest.raises(ExecutableError, match="not signed by the trusted key"):
        read_archive(tmp_path / "b", [key.public_key()])


def test_a_file_that_is_not_signed_is_not_trusted(path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    with pytest.raises(ExecutableError, match="the file is not signed, and signatures by trusted keys are asked for"):
        read_archive(path, [key])


def test_keys_are_objects_raw_bytes_or_pem_texts(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    raw, pem = serialization.Encoding.Raw, serialization.Encoding.PEM
    public = key.public_key().public_bytes(raw, serialization.PublicFormat.Raw)
    private = [
        key,
        key.private_bytes(raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    ]
    for given in private:
        write_archive(tmp_path / "signed", {}, MEMBERS, given)
        for trusted in (public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)):
            read_archive(tmp_path / "signed", [trusted])


def test_what_is_no_key_is_refused(path: Path, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(OptionError, match="no private key can be read"):
        write_archive(tmp_path / "file", {}, MEMBERS, b"short")
    with pytest.raises(OptionError, match=r"expected a private key of Ed25519 .*, not a str"):
        write_archive(tmp_path / "file", {}, MEMBERS, "text")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"expected a public key of Ed25519 .*, not a .*PrivateKey"):
        read_archive(path, [key])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="trusted_keys is a list of public keys, not a bytes"):
        read_archive(path, bytes(32))  # type: ignore[arg-type]
    assert not (tmp_path / "file").exists()
