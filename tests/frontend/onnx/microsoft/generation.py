"""Tiny language models in the operators of com.microsoft that generate text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import node

VOCABULARY, HEADS, SIZE = 13, 2, 3
WIDTH = HEADS * SIZE
EOS, PAD = 3, 5
_PLACES = 40  # more than any test generates


def value(name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return the declaration of a value."""
    return helper.make_tensor_value_info(name, kind, shape)


def weights(seed: int, scale: float = 1, **shapes: tuple[int, ...]) -> list[TensorProto]:
    """Return random weights that make what a network gives differ from token to token."""
    random = np.random.default_rng(seed)
    return [numpy_helper.from_array(random.normal(scale=scale, size=s).astype("float32"), n) for n, s in shapes.items()]


def gpt_decoder(layers: int = 1, seed: int = 0, name: str = "decoder", is_fused: bool = True) -> onnx.GraphProto:
    """Return a decoder in the form of GPT-2, with attention as one node, or as exporters write it.

    Keys and values of the past are one tensor for each layer.
    """
    nodes = [
        node("Gather", "table input_ids", "words"), node("Gather", "places position_ids", "at"),
        node("Add", "words at", "x_0"),
    ]  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"table": (VOCABULARY, WIDTH), "places": (_PLACES, WIDTH)}
    past, present = [], []
    for i in range(layers):
        nodes += [*(_attention if is_fused else _plain_attention)(i), node("Add", f"x_{i} a_{i}", f"x_{i + 1}")]
        shapes |= {f"w_{i}": (WIDTH, 3 * WIDTH), f"b_{i}": (3 * WIDTH,)}
        past.append(value(f"past_{i}", [2, "b", HEADS, "p", SIZE]))
        present.append(value(f"present_{i}", [2, "b", HEADS, "t", SIZE]))
    nodes.append(node("MatMul", f"x_{layers} head", "logits"))
    ids = [value(n, ["b", "s"], TensorProto.INT32) for n in ("input_ids", "position_ids")]
    mask = value("attention_mask", ["b", "t"], TensorProto.INT32)
    logits = value("logits", ["b", "s", VOCABULARY])
    tensors = weights(seed, **shapes, head=(WIDTH, VOCABULARY))
    if not is_fused:
        tensors += [numpy_helper.from_array(np.asarray(v), n) for n, v in _PLAIN_CONSTANTS.items()]
    return helper.make_graph(nodes, name, [*ids, mask, *past], [logits, *present], tensors)


def _attention(i: int) -> list[onnx.NodeProto]:
    inputs, outputs = f"x_{i} w_{i} b_{i} attention_mask past_{i}", f"a_{i} present_{i}"
    return [ms("Attention", inputs, outputs, num_heads=HEADS, unidirectional=1)]


_PLAIN_CONSTANTS = {
    "parts": np.array([0, 0, 3, HEADS, SIZE]), "merged": np.array([0, 0, WIDTH]), "zero": np.array(0),
    "one": np.array(1), "two": np.array(2), "three": np.array(3), "ones": np.array([1]), "threes": np.array([3]),
    "axes": np.array([1, 2]), "scale": np.float32(SIZE**-0.5), "hidden": np.float32(-10000),
    "nothing": np.array(0, "int32"),
}  # fmt: skip


def _plain_attention(i: int) -> list[onnx.NodeProto]:
    nodes = [
        node("MatMul", f"x_{i} w_{i}", "m"), node("Add", f"m b_{i}", "packed"),
        node("Reshape", "packed parts", "five"), node("Transpose", "five", "split", perm=[2, 0, 3, 1, 4]),
        node("Gather", "split zero", "query"), node("Slice", "split ones threes", "new"),
        node("Concat", f"past_{i} new", f"present_{i}", axis=3),
        node("Gather", f"present_{i} zero", "keys"), node("Gather", f"present_{i} one", "values"),
        node("Transpose", "keys", "turned", perm=[0, 1, 3, 2]), node("MatMul", "query turned", "product"),
        node("Mul", "product scale", "scores"), node("Shape", "scores", "sizes"),
        node("Gather", "sizes two", "steps"), node("Gather", "sizes three", "all"), node("Sub", "all steps", "before"),
        node("Range", "before all one", "rows"), node("Range", "zero all one", "columns"),
        node("Unsqueeze", "rows ones", "row"), node("LessOrEqual", "columns row", "comes_before"),
        node("Unsqueeze", "attention_mask axes", "wide"), node("Equal", "wide nothing", "is_padding"),
        node("Where", "comes_before scores hidden", "causal"), node("Where", "is_padding hidden causal", "masked"),
        node("Softmax", "masked", "shares", axis=-1), node("MatMul", "shares values", "four"),
        node("Transpose", "four", "back", perm=[0, 2, 1, 3]), node("Reshape", "back merged", f"a_{i}"),
    ]  # fmt: skip
    own = {o for n in nodes for o in n.output} - {f"present_{i}", f"a_{i}"}
    for n in nodes:
        for names in (n.input, n.output):
            names[:] = [f"{name}_{i}" if name in own else name for name in names]
    return nodes


class _T5:
    """The nodes of a graph of T5's form, by and by."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {"table": (VOCABULARY, WIDTH), "head": (WIDTH, VOCABULARY)}

    def add(self, op_type: str, inputs: str, output: str, **attributes: Any) -> str:
        self.nodes.append(node(op_type, inputs, output, **attributes))
        return output

    def heads(self, x: str, name: str, output: str = "") -> str:
        """Return a projection of x, (rows, heads, steps, size)."""
        self.shapes[f"w_{name}"] = (WIDTH, WIDTH)
        product = self.add("MatMul", f"{x} w_{name}", f"m_{name}")
        split = self.add("Reshape", f"{product} parts", f"r_{name}")
        return self.add("Transpose", split, output or f"h_{name}", perm=[0, 2, 1, 3])

    def attended(self, x: str, keys: str, values: str, name: str, bias: str = "") -> str:
        """Return x with what it attends to."""
        turned = self.add("Transpose", keys, f"k_{name}", perm=[0, 1, 3, 2])
        scores = self.add("MatMul", f"{self.heads(x, name)} {turned}", f"s_{name}")
        if bias:
            scores = self.add("Add", f"{scores} {bias}", f"b_{name}")
        shares = self.add("Softmax", scores, f"p_{name}", axis=-1)
        four = self.add("MatMul", f"{shares} {values}", f"v_{name}")
        back = self.add("Reshape", f"{self.add('Transpose', four, f't_{name}', perm=[0, 2, 1, 3])} merged", f"f_{name}")
        return self.add("Add", f"{x} {back}", f"y_{name}")

    def decoded(self, tokens: str, cross: str, layers: int, has_past: bool, has_mask: bool = True) -> None:
        """Add the decoder: logits, and the keys and values of each layer."""
        bias = ""
        if has_mask:
            wide = self.add("Unsqueeze", "encoder_attention_mask axes", "wide")
            bias = self.add("Where", f"{self.add('Equal', f'{wide} nothing', 'is_hidden')} hidden zero", "bias")
        x = self.add("Gather", f"table {tokens}", "words")
        for i in range(layers):
            own = [f"present_{part}_self_{i}" for part in ("key", "value")]
            for name in own:
                if has_past:
                    new = self.heads(x, name)
                    self.add("Concat", f"{name.replace('present', 'past')} {new}", name, axis=2)
                else:
                    self.heads(x, name, name)
            x = self.attended(x, *own, f"self_{i}")
            x = self.attended(x, f"{cross}_key_cross_{i}", f"{cross}_value_cross_{i}", f"cross_{i}", bias)
        self.add("MatMul", f"{x} head", "logits")

    def graph(self, name: str, seed: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> onnx.GraphProto:
        constants = {
            "parts": np.array([0, 0, HEADS, SIZE]), "merged": np.array([0, 0, WIDTH]), "axes": np.array([1, 2]),
            "nothing": np.array(0, "int32"), "hidden": np.float32(-10000), "zero": np.float32(0),
        }  # fmt: skip
        tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
        return helper.make_graph(self.nodes, name, inputs, outputs, [*tensors, *weights(seed, 0.6, **self.shapes)])


def _pasts(what: str, kind: str, layers: int, length: str) -> list[onnx.ValueInfoProto]:
    names = [f"{what}_{part}_{kind}_{i}" for i in range(layers) for part in ("key", "value")]
    return [value(n, ["b", HEADS, length, SIZE]) for n in names]


def t5_encoder(layers: int, seed: int, has_first_step: bool) -> onnx.GraphProto:
    """Return an encoder in the form of T5, with the first step of the decoder or without."""
    made = _T5()
    x = made.add("Gather", "table encoder_input_ids", "encoder_hidden_states")
    for cross in _pasts("present", "cross", layers, "e"):
        made.heads(x, cross.name, cross.name)
    inputs = [value(n, ["b", "e"], TensorProto.INT32) for n in ("encoder_input_ids", "encoder_attention_mask")]
    outputs = _pasts("present", "cross", layers, "e")
    if has_first_step:
        made.decoded("decoder_input_ids", "present", layers, has_past=False)
        inputs.append(value("decoder_input_ids", ["b", 1], TensorProto.INT32))
        first = [value("logits", ["b", 1, VOCABULARY]), value("encoder_hidden_states", ["b", "e", WIDTH])]
        outputs = [*first, *_pasts("present", "self", layers, "t"), *outputs]
    return made.graph("encoder", seed, inputs, outputs)


def t5_decoder(layers: int, seed: int, takes_hidden: bool) -> onnx.GraphProto:
    """Return a decoder in the form of T5, which may take hidden states of the encoder, of which it reads the shape."""
    made = _T5()
    made.decoded("input_ids", "past", layers, has_past=True)
    inputs = [value("input_ids", ["b", 1], TensorProto.INT32)]
    inputs.append(value("encoder_attention_mask", ["b", "e"], TensorProto.INT32))
    if takes_hidden:
        inputs.append(value("encoder_hidden_states", ["b", "e", WIDTH]))
    inputs += [*_pasts("past", "self", layers, "p"), *_pasts("past", "cross", layers, "e")]
    return made.graph(
        "decoder", seed, inputs, [value("logits", ["b", 1, VOCABULARY]), *_pasts("present", "self", layers, "t")]
    )


FEATURES = 4


def whisper(layers: int, seed: int, takes_hidden: bool) -> dict[str, onnx.GraphProto]:
    """Return an encoder, which makes the first step of the decoder, and a decoder, in the form of Whisper."""
    encoder, decoder = _T5(), _T5()
    encoder.shapes["listen"] = (FEATURES, WIDTH)
    frames = encoder.add("Transpose", "encoder_input_ids", "frames", perm=[0, 2, 1])
    x = encoder.add("MatMul", f"{frames} listen", "encoder_hidden_states")
    cross = _pasts("present", "cross", layers, "e")
    for one in cross:
        encoder.heads(x, one.name, one.name)
    encoder.decoded("decoder_input_ids", "present", layers, has_past=False, has_mask=False)
    decoder.decoded("input_ids", "past", layers, has_past=True, has_mask=False)
    hidden = value("encoder_hidden_states", ["b", "e", WIDTH])
    given = [
        value("encoder_input_ids", ["b", FEATURES, "e"]), value("decoder_input_ids", ["b", "s"], TensorProto.INT32)
    ]  # fmt: skip
    made = [value("logits", ["b", "s", VOCABULARY]), hidden, *_pasts("present", "self", layers, "s"), *cross]
    begin = encoder.graph("encoder", seed, given, made)
    inputs = [value("input_ids", ["b", 1], TensorProto.INT32), *([hidden] if takes_hidden else [])]
    inputs += [*_pasts("past", "self", layers, "p"), *_pasts("past", "cross", layers, "e")]
    results = [value("logits", ["b", 1, VOCABULARY]), *_pasts("present", "self", layers, "t")]
    return {"encoder": begin, "decoder": decoder.graph("decoder", seed + 50, inputs, results)}


_INPUTS: dict[str, tuple[list[Any], str]] = {
    "input_ids": (["b", "s"], "int32"),
    "vocab_mask": ([VOCABULARY], "int32"),
    "prefix_vocab_mask": (["b", VOCABULARY], "int32"),
    "attention_mask": (["b", "s"], "int32"),
    "input_features": (["b", FEATURES, "e"], "float32"),
    "decoder_input_ids": (["b", "s"], "int32"),
}


def greedy_search(
    constants: Mapping[str, Any], free: Sequence[str] = (), decoder: onnx.GraphProto | None = None, **attributes: Any
) -> onnx.ModelProto:
    """Return a model of GreedySearch, whose inputs are constants but for the tokens and those in `free`."""
    order = [
        "input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask",
        "attention_mask",
    ]  # fmt: skip
    return search("GreedySearch", order, constants, free, "sequences", decoder=decoder or gpt_decoder(), **attributes)


BEAM_INPUTS = [
    "input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty",
    "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask",
]  # fmt: skip


def beam_search(
    constants: Mapping[str, Any], free: Sequence[str] = (), decoder: onnx.GraphProto | None = None, **attributes: Any
) -> onnx.ModelProto:
    """Return a model of BeamSearch with all outputs, as :func:`greedy_search` does."""
    outputs = "sequences sequences_scores scores"
    return search("BeamSearch", BEAM_INPUTS, constants, free, outputs, decoder=decoder or gpt_decoder(), **attributes)


def whisper_beam_search(constants: Mapping[str, Any], free: Sequence[str] = (), **attributes: Any) -> onnx.ModelProto:
    """Return a model of WhisperBeamSearch, as :func:`beam_search` does."""
    order = ["input_features", *BEAM_INPUTS[1:], "decoder_input_ids", "logits_processor", "_", "_", "temperature"]
    outputs = "sequences sequences_scores scores"
    return search("WhisperBeamSearch", order, constants, free, outputs, model_type=2, **attributes)


def _kind(name: str) -> str:
    return "float32" if "penalty" in name or name == "temperature" else "int32"


def search(
    op_type: str,
    order: Sequence[str],
    constants: Mapping[str, Any],
    free: Sequence[str],
    outputs: str,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one operator that generates text, with the inputs that are given, in an order."""
    given = {order[0], *constants, *free}
    names = " ".join(n if n in given else "_" for n in order)
    attributes = {"eos_token_id": EOS, "pad_token_id": PAD, **attributes}
    types = {n: _INPUTS.get(n, ([1], _kind(n))) for n in order if n in given - {*constants}}
    arrays = {n: np.asarray(v, _kind(n)) for n, v in constants.items()}
    arrays = {n: a if n in _INPUTS else a.reshape(1) for n, a in arrays.items()}
    return microsoft(
        [ms(op_type, names, outputs, **attributes)], types, outputs, arrays, {"sequences": TensorProto.INT32}
    )


def feed(random: np.random.Generator, rows: int, tokens: int, **more: Any) -> dict[str, Any]:
    """Return a prompt, in which some tokens are padding, and more inputs: masks where None is given, or numbers."""
    masks = {"vocab_mask": (VOCABULARY,), "prefix_vocab_mask": (rows, VOCABULARY), "attention_mask": (rows, tokens)}
    made = {"input_ids": random.integers(0, VOCABULARY, (rows, tokens)).astype("int32")}
    for name, given in more.items():
        value = (random.random(masks[name]) < 0.7) if given is None else np.reshape(given, [1])
        made[name] = value.astype(_kind(name))
    return made


def assert_same_until_all_end(actual: np.ndarray, expected: np.ndarray) -> None:
    """Assert that rows of tokens agree with onnxruntime's, which says nothing of what follows when all rows ended."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    end = int(np.flatnonzero((actual != PAD).any(axis=0))[-1]) + 1
    np.testing.assert_array_equal(actual[:, :end], expected[:, :end])
    assert (expected[:, end : end + 1] == PAD).all()
