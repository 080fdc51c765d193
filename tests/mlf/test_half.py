"""float16 in C: every number, and every operation rounded as on the virtual machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import vmkit
from tests.mlf.built import FLAGS, build
from vmkit import relay

PROGRAM = """
#[version = "0.0.5"]
def @main(%x: Tensor[(64, 1024), float16], %y: Tensor[(64, 1024), float16], %f: Tensor[(64, 1024), float32],
          %d: Tensor[(64, 1024), float64], %i: Tensor[(64, 1024), int32]) {
  (%x + %y, %x * %y, divide(%x, %y), maximum(%x, %y), cast(%f, dtype="float16"), cast(%d, dtype="float16"),
   cast(%x, dtype="float32"), cast(%i, dtype="float16"), exp(%x), sqrt(abs(%x)), sum(%x, axis=[1]), %x + 1.5f16,
   cast(%x, dtype="bool"), less(%x, %y), floor(%x), isnan(%x), negative(%x))
}
"""


def test_every_number_is_rounded_as_on_the_machine(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = np.arange(65536, dtype="uint16").view("float16").reshape(64, 1024)
    y = rng.permutation(x.ravel()).reshape(x.shape)
    f = rng.integers(0, 2**32, x.shape).astype("uint32").view("float32")
    f[0, :8] = 65504, 65519.99, 65520, 65536, 2**-24, 2**-25, 2**-25 * 1.0001, 2**-14
    f[1:32] = rng.standard_normal((31, 1024)) * rng.choice([1e-8, 1e-6, 1e-4, 1, 1e4], (31, 1024))
    with np.errstate(all="ignore"):
        d = f * (1 + rng.choice([0, 1e-12, -1e-12], x.shape))
        d[1] = 1 + 2.0**-11 + rng.choice([0, 1e-12, -1e-12], 1024)  # near the middle of two numbers
        expected = [f.astype("float16"), d.astype("float16"), x.astype("float32")]
    inputs = x, y, f, d, rng.integers(-70000, 70000, x.shape).astype("int32")
    program = relay.parse(PROGRAM)
    vmkit.mlf.export(program, tmp_path / "half.tar")
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1)
    values = [value.numpy().ravel() for value in machine.run(*inputs)]
    for k, flags in enumerate(((), ("-U__FLT16_MAX__",))):  # by the compiler's own type, and by the archive's functions
        archive = shutil.copy(tmp_path / "half.tar", tmp_path / f"{k}.tar")
        got = build(Path(archive), flags=(*FLAGS, *flags)).run(*inputs)
        for one, numbers in zip(got[4:7], expected, strict=True):
            np.testing.assert_array_equal(one.reshape(x.shape), numbers)
        for one, value in zip(got, values, strict=True):
            np.testing.assert_array_equal(one, value)


def test_weights_of_half_lie_in_two_bytes(tmp_path: Path) -> None:
    weights = np.array([[1, -0.5, 65504], [2**-24, np.inf, np.nan]], "float16")
    x = relay.var("x", shape=(2, 3), dtype="float16")
    facts = vmkit.mlf.export(relay.Function([x], x + relay.const(weights)), tmp_path / "half.tar")
    main = facts["modules"]["default"]["memory"]["functions"]["main"][0]
    assert (main["constants_size_bytes"], main["inputs"]) == (12, {"x": {"size": 12, "dtype": "float16"}})
    (got,) = build(tmp_path / "half.tar").run(np.zeros((2, 3), "float16"))
    np.testing.assert_array_equal(got, weights.ravel())
    (ran,) = vmkit.mlf.load(tmp_path / "half.tar").build().run(np.ones((2, 3), "float16"))
    np.testing.assert_array_equal(ran, weights + np.float16(1))
