"""The process that loads and runs damaged files of executables: a number in, what became of that file out."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import vmkit
from tests.bytecode.mutant_process import ARRAYS, seed
from tests.children import Outcome, answer
from vmkit.errors import VMKitError
from vmkit.executable.archive import read_archive, write_archive

Members = dict[str, bytes]
# What stands in a manifest in the place of something else.
ODD: list[Any] = [
    None, True, -1, 0, 1 << 31, 1 << 62, 1 << 80, 1.5, "", "x", "\ud800", "é" * 300, [], {}, [[]], [None], {"": None},
    {"kind": "llvm"}, '{"kind": "cuda"}', "float33", [[[[[[[[]]]]]]]], "lib0.so", "../x.so", "code.bin",
]  # fmt: skip


@functools.cache
def whole(number: int) -> tuple[bytes, list[np.ndarray], list[np.ndarray]]:
    """Return the bytes of a file, what its program is run with and what that gives."""
    executable, arrays = seed(number)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vmx"
        executable.export(path)
        return path.read_bytes(), arrays, results(path, arrays)


def results(path: Path, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return what the program of a file gives."""
    machine = vmkit.VirtualMachine(vmkit.load(path), "cpu", num_threads=1, timeout=0.5, max_memory=1 << 30)
    found = machine.run(*arrays)
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return bytes of which some are others, or missing, or there twice."""
    made = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        at = draw.randrange(len(made) + 1)
        size = draw.choice([1, 1, 2, 4, 8, 64, 1000])
        match draw.randrange(6):
            case 0:
                made[at : at + size] = draw.randbytes(size)
            case 1:
                del made[at : at + size]
            case 2:
                made[at:at] = made[at : at + size]
            case 3:
                made[at : at + 8] = draw.choice([0, 1, 2**31, 2**32 - 1, 2**62, 2**64 - 1]).to_bytes(8, "little")
            case 4 if at < len(made):
                made[at] ^= 1 << draw.randrange(8)
            case _:
                del made[draw.randrange(len(made) + 1) :]
    return bytes(made)


def resealed(data: bytes, draw: random.Random, path: Path) -> None:
    """Write a file that is sealed as it should be, of which the description, the code or the weights are others.

    Libraries stay: they are machine code, and what that does nobody can check.
    """
    path.write_bytes(data)
    manifest, views = read_archive(path)
    members = {name: bytes(view) for name, view in views.items()}
    match draw.randrange(4):
        case 0:
            key = draw.choice(list(manifest))
            manifest = {**manifest, key: altered(manifest[key], draw)}
            if draw.random() < 0.2:
                del manifest[key]
        case 1:
            name = draw.choice(["code.bin", "code.bin", "code.bin", "weights.bin"])
            members[name] = damaged(members.get(name, bytes(64)), draw)
        case 2:
            _shuffle(members, draw)
        case _:
            _reseal_as_text(data, draw, path)
            return
    for known in ("format", "format_version", "members"):
        manifest.pop(known, None) if draw.random() < 0.9 else None
    write_archive(path, manifest, members)


def altered(value: Any, draw: random.Random) -> Any:
    """Return what JSON can hold, of which one part is another."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return {**value, str(draw.choice(ODD)): value[key]}
            case _:
                return {**value, key: altered(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.85:
        at = draw.randrange(len(value))
        return [*value[:at], *([] if draw.random() < 0.2 else [altered(value[at], draw)]), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and draw.random() < 0.5:
        return value + draw.choice([-1, 1, 1 << 31, 1 << 62])
    return draw.choice(ODD)


def _shuffle(members: Members, draw: random.Random) -> None:
    names = list(members)
    one, other = draw.choice(names), draw.choice(names)
    match draw.randrange(3):
        case 0:
            del members[one]
        case 1:
            members[draw.choice(["lib1.so", "lib99999.so", "../lib0.so", "weights.bin", "x"])] = bytes(members[one])
        case _:
            if "lib" not in one + other:
                members[one], members[other] = members[other], members[one]


def _reseal_as_text(data: bytes, draw: random.Random, path: Path) -> None:
    """Damage the text of the manifest itself, and seal that."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    text = damaged(contents["manifest.json"], draw) if draw.random() < 0.8 else json.dumps(draw.choice(ODD)).encode()
    if draw.random() < 0.1:
        text = b"[" * 100_000
    with zipfile.ZipFile(path, "w", draw.choice([zipfile.ZIP_STORED] * 9 + [zipfile.ZIP_DEFLATED])) as archive:
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
        for name, content in {**contents, "manifest.json": text}.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def outcome(number: int, path: Path) -> Outcome:
    """Return what became of a damaged file: refused when loaded, failed when run, ran, or what it must not."""
    draw = random.Random(number)
    data, arrays, expected = whole(draw.randrange(len(ARRAYS)))
    is_blind = draw.random() < 0.3
    path.write_bytes(damaged(data, draw)) if is_blind else resealed(data, draw, path)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("refused", lambda: vmkit.load(path)),
        ("failed", lambda: results(path, arrays)),
    ]
    found: Any = None
    for became, step in steps:
        try:
            found = step()
        except VMKitError as error:
            return {"became": became, "said": str(error)}
        except BaseException as error:
            return {"became": "raised", "said": repr(error)}
    # With seals that are right, another program may be just that. A seal that is not was looked at by nobody.
    if is_blind and not all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)):
        return {"became": "differs", "said": "a damaged file gives other results"}
    return {"became": "ran", "said": ""}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        answer(lambda line: outcome(int(line), Path(made) / "damaged.vmx"))
