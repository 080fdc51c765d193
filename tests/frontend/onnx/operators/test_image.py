"""Images decoded in a run: formats, orders of colours, what is no image, and Pillow missing."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.frontend.onnx.programs import Compiled, model, node
from vmkit.errors import ModelError, VMError


def encoded(pixels: np.ndarray, name: str, **options: object) -> np.ndarray:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, name, **options)
    return np.frombuffer(stream.getvalue(), "uint8")


def decoder() -> Compiled:
    nodes = [node("ImageDecoder", "x", f, pixel_format=f) for f in ("RGB", "BGR", "Grayscale")]
    # What follows computes with the sizes that the image turned out to have.
    nodes += [node("Cast", "RGB", "floats", to=1), node("ReduceMean", "floats axes", "mean", keepdims=0)]
    return Compiled(model(nodes, {"x": (("bytes",), "uint8")}, "RGB BGR Grayscale mean", {"axes": [0, 1]}, opset=20))


def test_images_of_every_format_and_mode_are_decoded() -> None:
    compiled = decoder()
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14, 3), "uint8")
    gray = pixels[:, :, 0]
    alpha = np.dstack([pixels, gray])
    deep = gray.astype("uint16") * 257
    grayscale = np.asarray(Image.fromarray(pixels).convert("L"))
    for stream, colours, gray_values in (
        (encoded(pixels, "PNG"), pixels, grayscale),
        (encoded(pixels, "BMP"), pixels, grayscale),
        (encoded(pixels, "TIFF"), pixels, grayscale),
        (encoded(pixels, "PPM"), pixels, grayscale),
        (encoded(pixels, "WEBP", lossless=True), pixels, grayscale),
        (encoded(pixels, "JPEG2000"), pixels, grayscale),
        (encoded(alpha, "PNG"), pixels, grayscale),
        (encoded(gray, "PNG"), np.dstack([gray] * 3), gray),
        (encoded(deep, "PNG"), np.dstack([gray] * 3), gray),
    ):
        rgb, bgr, single, mean = compiled(x=stream)
        np.testing.assert_array_equal(rgb, colours)
        np.testing.assert_array_equal(bgr, colours[:, :, ::-1])
        np.testing.assert_array_equal(single[:, :, 0], gray_values)
        np.testing.assert_allclose(mean, colours.mean((0, 1)), rtol=1e-5)


def test_bytes_that_are_no_image_give_an_empty_one() -> None:
    compiled = decoder()
    whole = encoded(np.zeros((40, 40, 3), "uint8"), "PNG")
    for stream in (np.arange(50, dtype="uint8"), np.zeros(0, "uint8"), whole[: len(whole) // 2]):
        rgb, bgr, single, _ = compiled(x=stream)
        assert (rgb.shape, bgr.shape, single.shape) == ((0, 0, 3), (0, 0, 3), (0, 0, 1))


def test_without_pillow_the_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = decoder()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(VMError, match=r"needs Pillow, which is not installed: pip install vmkit\[images\]"):
        compiled(x=np.zeros(5, "uint8"))


def test_an_exported_program_decodes_in_another_process(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 5, 3), "uint8")
    (results,) = decoder().in_fresh_process([{"x": encoded(pixels, "PNG")}], tmp_path)
    np.testing.assert_array_equal(results[0], pixels)


def test_an_unknown_pixel_format_is_refused() -> None:
    proto = model([node("ImageDecoder", "x", "y", pixel_format="CMYK")], {"x": ((4,), "uint8")}, "y", opset=20)
    with pytest.raises(ModelError, match="pixel_format is 'CMYK'; it is RGB, BGR, Grayscale"):
        Compiled(proto)
