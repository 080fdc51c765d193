"""``vmkit run`` and ``vmkit profile``: pictures, devices of other machines, and what else a run is told."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save
from PIL import Image
from tvm import rpc
from tvm.rpc.tracker import Tracker

from tests.cli.commands import printed, refused
from tests.cli.commands import save as convolution
from vmkit.cli import main
from vmkit.errors import InputError
from vmkit.values.image_inputs import image_input
from vmkit.values.kinds import TensorSpec


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an executable of ``y = relu(x)`` for ``x: float32[n, 3, 4, 6]``."""
    folder = tmp_path_factory.mktemp("picture")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, 4, 6]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, folder / "relu.onnx")
    words = ["compile", str(folder / "relu.onnx"), "--target", "llvm", "-o", str(folder / "relu.vmx"), "--in-process"]
    assert main(words) == 0
    return folder / "relu.vmx"


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a picture of 8 by 12 pixels, red on the left and blue on the right."""
    pixels = np.zeros((8, 12, 3), "uint8")
    pixels[:, :6, 0], pixels[:, 6:, 2] = 255, 255
    path = tmp_path_factory.mktemp("picture") / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


def test_a_picture_becomes_what_is_stated(
    executable: Path, picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", executable, "-i", picture, "-o", tmp_path / "o.npz", "--num-threads", 1]
    assert printed(capsys, *words, "--preprocess", "imagenet") == "y: float32[1, 3, 4, 6]\n"
    out = np.load(tmp_path / "o.npz")["y"]
    np.testing.assert_allclose(out[0, 0, :, 0], (1 - 0.485) / 0.229, rtol=1e-5)
    np.testing.assert_allclose(out[0, 2, :, -1], (1 - 0.406) / 0.225, rtol=1e-5)
    assert (out[0, 1] == 0).all()  # relu of what is below the mean
    assert "--preprocess says what a picture becomes" in refused(capsys, *words)
    assert "--preprocess says" in refused(capsys, "run", executable, "--preprocess", "raw", "--input-shapes", "n:1")
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    bad = ["run", executable, "-i", tmp_path / "bad.jpg", "--preprocess", "raw"]
    assert "bad.jpg: not a picture" in refused(capsys, *bad)


@pytest.mark.parametrize(
    ("shape", "how", "first"),
    [
        ((1, 3, 8, 12), "raw", [255, 0, 0]),
        ((1, 8, 12, 3), "unit", [1, 0, 0]),
        ((3, "h", "w"), "symmetric", [1, -1, -1]),
        (("n", "h", "w", 1), "raw", [76]),
    ],
)
def test_channels_are_where_the_shape_has_them(
    picture: Path, shape: tuple[int | str, ...], how: str, first: list[int]
) -> None:
    name, array = image_input(picture, [TensorSpec("x", "float32", shape), TensorSpec("k", "int64", (4,))], how)
    sizes = {"n": 1, "h": 8, "w": 12}
    assert (name, array.shape) == ("x", tuple(sizes.get(size, size) for size in shape))
    axis = shape.index(len(first))
    np.testing.assert_allclose(np.moveaxis(array, axis, -1).reshape(-1, len(first))[0], first)


@pytest.mark.parametrize(
    ("specs", "how", "said"),
    [
        ([TensorSpec("x", "float32", (1, 5, 8, 8))], "raw", "none of its inputs does"),
        ([TensorSpec(name, "float32", (1, 3, 8, 8)) for name in "ab"], "raw", "2 of its inputs do"),
        ([TensorSpec("x", "float32", (2, 3, 8, 8))], "raw", "takes 2 pictures at once"),
        ([TensorSpec("x", "float32", (1, 1, 8, 8))], "imagenet", "imagenet is for 3 channels"),
        ([TensorSpec("x", "uint8", (1, 3, 8, 8))], "unit", "unit is for floats"),
        ([TensorSpec("x", "int8", (1, 3, 8, 8))], "raw", "takes others"),
    ],
)
def test_inputs_that_take_no_picture(picture: Path, specs: list[TensorSpec], how: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        image_input(picture, specs, how)


def test_a_run_is_profiled_and_its_seed_makes_the_inputs(
    executable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", executable, "--input-shapes", "n:2", "-o"]
    found = json.loads(printed(capsys, *words, tmp_path / "a.npz", "--seed", 1, "--profile", "--json"))
    assert any("relu" in call["Name"]["string"] for call in found["profile"]["calls"])
    text = printed(capsys, *words, tmp_path / "b.npz", "--seed", 2, "--profile")
    assert "GFLOP/s" in text and "\n----------\nSum" in text
    a, b = (np.load(tmp_path / f"{name}.npz")["y"] for name in "ab")
    assert a.shape == b.shape == (2, 3, 4, 6) and (a != b).any()


def test_a_profile_is_a_row_for_each_call_or_for_each_operator(
    executable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", executable, "--input-shapes", "n:2", "--num-threads", 1, "--seed", 3]
    rows = list(csv.DictReader(printed(capsys, *words, "--csv").splitlines()))
    (relu,) = (row for row in rows if "relu" in row["Name"])
    assert int(relu["Bytes"]) == 2 * 4 * 2 * 3 * 4 * 6
    ordered = printed(capsys, *words, "--order").splitlines()[1:-3]
    assert [line.split("  ")[0] for line in ordered] == [row["Name"] for row in rows]
    assert "nn.relu" in printed(capsys, *words, "--by-operator")
    assert "leave all but one of them out" in refused(capsys, *words, "--by-operator", "--order")
    assert "profile the model" in refused(capsys, *words, "--by-node")


def test_what_a_tracker_needs_is_said(executable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", executable, "--input-shapes", "n:1"]
    assert "--rpc-tracker and --rpc-key go together" in refused(capsys, *words, "--rpc-key", "board")
    there = ["--rpc-tracker", "127.0.0.1:1", "--rpc-key", "board"]
    assert "there is no tracker at 127.0.0.1:1" in refused(capsys, *words, *there)
    assert "cannot be watched or set from here" in refused(capsys, *words, *there, "--profile")


@pytest.mark.nightly
def test_a_tracker_lends_devices_to_run_and_to_tune_on(
    executable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = Tracker("127.0.0.1")
    server = rpc.Server("127.0.0.1", key="board", tracker_addr=("127.0.0.1", tracker.port))
    try:
        time.sleep(2)
        there = ["--rpc-tracker", f"127.0.0.1:{tracker.port}", "--rpc-key", "board"]
        np.savez(tmp_path / "in.npz", x=np.full((1, 3, 4, 6), -1, "float32"))
        words = ["run", executable, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--print-time"]
        assert "mean (ms)" in printed(capsys, *words, *there)
        assert (np.load(tmp_path / "out.npz")["y"] == 0).all()
        assert "has no device with the key 'nosuch'" in refused(capsys, *words, *there[:3], "nosuch")
        weight = np.ones((8, 1, 3, 3), "float32")
        model = convolution(tmp_path / "conv.onnx", helper.make_node("Conv", ["x", "w"], ["y"]), w=weight)
        limits = ["--candidates", 2, "--seconds", 5, "--budget", 60, "--target", "llvm -mcpu=x86-64-v3"]
        tuned = ["tune", model, "-o", tmp_path / "r.json", *limits, *there]
        assert "records" in printed(capsys, *tuned)
        assert len(json.loads((tmp_path / "r.json").read_text())["records"]) >= 1
    finally:
        server.terminate()
        tracker.terminate()
