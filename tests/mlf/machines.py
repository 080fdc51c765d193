"""Archives built for microcontrollers and other processors by their compilers, and run under qemu."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

__all__ = ["CHECKED", "CORTEX_M4", "CORTEX_M7", "RISCV64", "Firmware", "Machine", "build_for", "built_with"]

_FIRMWARE = Path(__file__).parent / "firmware"
_WARNINGS = ("-Wall", "-Wextra", "-Werror")
_MOST_SECONDS = 500


@dataclass(frozen=True)
class Machine:
    """A processor: what compiles for it, with what, and what runs it."""

    name: str
    prefix: str
    flags: tuple[str, ...]
    link: tuple[str, ...]
    emulator: tuple[str, ...]

    def require(self) -> None:
        """Skip the test where the compiler or the emulator is not installed."""
        for command in (f"{self.prefix}gcc", *self.emulator[:1]):
            if shutil.which(command) is None:
                pytest.skip(f"{command} is not installed, which {self.name} needs")


def _cortex(name: str, board: str, data_origin: int, flags: tuple[str, ...]) -> Machine:
    # Without a fixed number of instructions a nanosecond there would be nothing to count.
    emulator = ("qemu-system-arm", "-M", board, "-nographic", "-monitor", "none", "-serial", "none")
    emulator += ("-icount", "shift=0", "-semihosting-config", "enable=on,target=native", "-kernel")
    link = ("-nostartfiles", "-specs=rdimon.specs", "-T", str(_FIRMWARE / "mps2.ld"))
    link += (f"-Wl,--defsym=data_origin={data_origin}",)
    return Machine(name, "arm-none-eabi-", (f"-mcpu={name}", "-mthumb", *flags), link, emulator)


CORTEX_M4 = _cortex("cortex-m4", "mps2-an386", 0x21000000, ("-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"))
CORTEX_M7 = _cortex("cortex-m7", "mps2-an500", 0x60000000, ("-mfloat-abi=hard", "-mfpu=fpv5-d16"))
CHECKED = Machine("checked", "", ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"), (), ())
"""This machine, where what is read or written elsewhere and what C leaves undefined ends the program."""
RISCV64 = Machine("riscv64", "riscv64-linux-gnu-", (), ("-static",), ("qemu-riscv64",))


@dataclass(frozen=True)
class Firmware:
    """A program around one model."""

    machine: Machine
    folder: Path
    name: str

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """Return the outputs, flat."""
        for place, each in enumerate(inputs):
            (self.folder / f"input{place}.bin").write_bytes(np.ascontiguousarray(each).tobytes())
        command = [*self.machine.emulator, "./firmware.elf"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=_MOST_SECONDS)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        metadata = json.loads((self.folder / "metadata.json").read_text())
        outputs = metadata["modules"][self.name]["memory"]["functions"]["main"][0]["outputs"].values()
        return [
            np.frombuffer((self.folder / f"output{place}.bin").read_bytes(), facts["dtype"])
            for place, facts in enumerate(outputs)
        ]

    @property
    def instructions(self) -> int:
        """How many instructions the last run took, to 40; 0 where nothing counts them."""
        return int((self.folder / "count0.bin").read_text())

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of code with constants, and of memory that is written, of the model without the firmware."""
        objects = sorted(self.folder.glob("codegen/host/*/*.o"))
        command = [f"{self.machine.prefix}size", *map(str, objects)]
        rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        columns = [[int(word) for word in row.split()[:3]] for row in rows]
        return sum(text + data for text, data, _ in columns), sum(data + bss for _, data, bss in columns)


def build_for(machine: Machine, archive: Path, name: str) -> Firmware:
    """Return firmware of nothing but an archive, what reads and writes files, the C library and libm."""
    folder = archive.with_name(f"{archive.stem}-{machine.name}")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return built_with(machine, folder, name, _WARNINGS)


def built_with(machine: Machine, folder: Path, name: str, options: Sequence[str]) -> Firmware:
    """Return firmware of an archive that is unpacked, all built with some options more."""
    flags = [*machine.flags, "-std=c99", "-O2", "-ffunction-sections", "-fdata-sections", *options]
    flags += [f"-I{folder / place}" for place in ("codegen/host/include", "runtime/include")]
    made = sorted(folder.glob("codegen/host/src/*.c"))
    for source in (*made, folder / "runtime/src/tvm_wrapper.c", _FIRMWARE / "main.c"):
        target = source.with_suffix(".o") if source in made else folder / f"{source.stem}.o"
        _called([f"{machine.prefix}gcc", *flags, "-c", str(source), "-o", str(target)])
    objects = [str(each) for each in sorted([*folder.glob("*.o"), *folder.glob("codegen/host/*/*.o")])]
    link = [f"{machine.prefix}gcc", *machine.flags, *machine.link, "-Wl,--gc-sections", *objects, "-lm"]
    _called([*link, "-o", str(folder / "firmware.elf")])
    return Firmware(machine, folder, name)


def _called(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
