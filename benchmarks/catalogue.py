"""Every model that is timed: its family, its sizes, what it is given, how it is compiled for one size or for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from benchmarks import models, quantized, transformers
from benchmarks.llama import llama, llama_inputs
from benchmarks.mobilenet import mobilenet_v2

__all__ = ["CATALOGUE", "FAMILIES", "Model", "static_shapes"]

Arrays = dict[str, np.ndarray]
Shapes = Mapping[str, Sequence[int | str]] | None
Size = tuple[int, ...]

FAMILIES = ("convolutional", "transformer", "small", "quantised")


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes
    ----------
    family : str
        One of `FAMILIES`; the geometric mean is taken over each.
    sizes : sequence of tuple of int
        At which it is timed: a batch, or a batch and a length.
    load : callable
        Returns the model, or None if its file is not on this machine.
    at : callable
        ``at(model, size)`` gives what every peer gets: the model, and the inputs of a size.
    dynamic : callable
        ``dynamic(model)`` gives the model and the shapes to compile for any size.
    of_largest : float or None
        By how much of the largest result vmkit's may differ from onnxruntime's, where they may by more than rounding.
    of_largest_of_peers : float or None
        By how much a peer's may, where that is more: one that rounds elsewhere is still worth being compared with.
    """

    family: str
    sizes: Sequence[Size]
    load: Callable[[], onnx.ModelProto | None]
    at: Callable[[onnx.ModelProto, Size], tuple[onnx.ModelProto, Arrays]]
    dynamic: Callable[[onnx.ModelProto], tuple[onnx.ModelProto, Shapes]]
    of_largest: float | None = None
    of_largest_of_peers: float | None = None

    @property
    def limit_of_peers(self) -> float | None:
        """By how much of the largest result a peer's may differ from onnxruntime's."""
        return self.of_largest if self.of_largest_of_peers is None else self.of_largest_of_peers


def static_shapes(inputs: Arrays) -> dict[str, list[int]]:
    """Return the shapes of inputs, to compile for them alone."""
    return {name: list(array.shape) for name, array in inputs.items()}


def _image_at(model: onnx.ModelProto, size: Size) -> tuple[onnx.ModelProto, Arrays]:
    changed, _ = models.with_batch(model, size[0])
    return changed, models.batched_inputs(changed, size[0])


def _image(
    family: str,
    load: Callable[[], onnx.ModelProto | None],
    sizes: Sequence[Size] = ((1,), (8,)),
    of_largest: float | None = None,
    of_largest_of_peers: float | None = None,
) -> Model:
    limits = of_largest, of_largest_of_peers
    return Model(family, sizes, load, _image_at, lambda model: models.with_batch(model, "n"), *limits)


def _any_size(
    family: str,
    sizes: Sequence[Size],
    load: Callable[[], onnx.ModelProto | None],
    inputs: Callable[..., Arrays],
    of_largest: float | None = None,
) -> Model:
    """Return a model whose own sizes are dynamic."""
    return Model(
        family, sizes, load, lambda model, size: (model, inputs(*size)), lambda model: (model, None), of_largest
    )


def magika_inputs(batch: int) -> Arrays:
    """Return the bytes of files, as magika takes them."""
    return {"bytes": np.random.default_rng(0).integers(0, 257, (batch, 2048)).astype("int32")}


def silero_inputs(batch: int) -> Arrays:
    """Return 32 ms of sound each, and a state."""
    random = np.random.default_rng(0)
    sound = (random.standard_normal((batch, 512)) / 10).astype("float32")
    return {"input": sound, "state": random.standard_normal((2, batch, 128), "float32"), "sr": np.array(16000)}


_SEQUENCES = ((1, 16), (1, 128), (8, 64), (4, 384))
_TWO_BATCHES = ((1,), (8,))

CATALOGUE: dict[str, Model] = {
    **{name: _image("convolutional", partial(models.load, name)) for name in models.LIGHT},
    "mobilenet_v2": _image("convolutional", mobilenet_v2),
    "ultraface": _image("convolutional", partial(models.load, "ultraface")),
    "encoder": _any_size("transformer", _SEQUENCES, transformers.encoder, transformers.encoder_inputs),
    "decoder step": _any_size("transformer", _SEQUENCES, transformers.decoder_step, transformers.decoder_inputs),
    "mnist": _image("small", partial(models.load, "mnist")),
    "magika": _any_size("small", _TWO_BATCHES, partial(models.load, "magika_v3_3"), magika_inputs),
    "silero": _any_size("small", _TWO_BATCHES, partial(models.load, "silero_op15"), silero_inputs),
    "int8 encoder": _any_size("quantised", _SEQUENCES, quantized.encoder, transformers.encoder_inputs, 0.05),
    "int8 resnet": _image("quantised", quantized.resnet, of_largest=0.1),
    "int8 mobilenet": _image("quantised", quantized.mobilenet, ((1,),), of_largest=0.1),
    # Of OpenVINO's 8,840 scores one is 0.102 off; vmkit's are within 0.008 of onnxruntime's, and of what the graph
    # gives as it stands, each operator by itself.
    "int8 ultraface": _image("quantised", quantized.detector, ((1,),), of_largest=0.02, of_largest_of_peers=0.15),
    "int8 speech": _any_size("quantised", _SEQUENCES[:3], quantized.speech, quantized.speech_inputs, 0.05),
    "4-bit llama": _any_size("quantised", ((1, 16), (1, 1024), (64, 0)), llama, llama_inputs, 0.02),
    "tagger": _any_size("small", _SEQUENCES[:3], transformers.tagger, transformers.tagger_inputs),
}
