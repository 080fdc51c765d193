"""``vmkit.load_model``: folders with several models, and decoders whose cache goes from step to step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.programs import array, graph, model, node
from vmkit.errors import ModelError

WORDS, HEADS, SIZE = 11, 2, 4
WIDTH = HEADS * SIZE
CACHE = (["batch", HEADS, "past", SIZE], "float32")
IDS = {"input_ids": (["batch", "length"], "int64")}
STATES = {"encoder_hidden_states": (["batch", "words", WIDTH], "float32")}
WEIGHTS = {
    "table": array(WORDS, WIDTH, seed=1),
    "scores_of": array(WIDTH, WORDS, seed=2),
    "apart": np.array([0, 0, HEADS, SIZE]),
    "whole": np.array([0, 0, WIDTH]),
    **{f"{part}{which}": array(WIDTH, WIDTH, seed=3 + i) for i, part in enumerate("qkv") for which in ("d", "e")},
}
Arrays = dict[str, np.ndarray]


def heads(value: str, weight: str, to: str) -> list[onnx.NodeProto]:
    return [
        node("MatMul", f"{value} {weight}", f"{to}.product"),
        node("Reshape", f"{to}.product apart", f"{to}.heads"),
        node("Transpose", f"{to}.heads", to, perm=[0, 2, 1, 3]),
    ]


def attention(value: str, kind: str, keys: str, values: str, to: str) -> list[onnx.NodeProto]:
    return [
        *heads(value, f"q{kind[0]}", f"{to}.q"),
        node("Transpose", keys, f"{to}.k", perm=[0, 1, 3, 2]),
        node("MatMul", f"{to}.q {to}.k", f"{to}.scores"),
        node("Softmax", f"{to}.scores", f"{to}.weights", axis=-1),
        node("MatMul", f"{to}.weights {values}", f"{to}.mixed"),
        node("Transpose", f"{to}.mixed", f"{to}.rows", perm=[0, 2, 1, 3]),
        node("Reshape", f"{to}.rows whole", f"{to}.sum"),
        node("Add", f"{value} {to}.sum", to),
    ]


def names(prefix: str, *kinds: str) -> list[str]:
    return [f"{prefix}.0.{kind}{part}" for kind in kinds for part in ("key", "value")]


def step(has_past: bool, kinds: tuple[str, ...]) -> list[onnx.NodeProto]:
    """One layer over words, and over an encoder's states; what is kept of both has names as optimum gives them."""
    nodes = [node("Gather", "table input_ids", "x")]
    for index, kind in enumerate(kinds):
        is_encoder = kind == "encoder."
        keys, values = names("past_key_values" if is_encoder and has_past else "present", kind)
        source = "encoder_hidden_states" if is_encoder else f"x{index}"
        if not (is_encoder and has_past):
            for weight, past, name in zip("kv", names("past_key_values", kind), (keys, values), strict=True):
                nodes += heads(source, weight + ("e" if is_encoder else "d"), f"{name}.now" if has_past else name)
                nodes += [node("Concat", f"{past} {name}.now", name, axis=2)] if has_past else []
        nodes += attention(f"x{index}", "encoder" if is_encoder else "decoder", keys, values, f"x{index + 1}")
    nodes[0].output[0] = "x0"
    return [*nodes, node("MatMul", f"x{len(kinds)} scores_of", "logits")]


def typed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model as exporters write it, with the types of outputs."""
    for output in proto.graph.output:
        rank = 3 if output.name in ("logits", "last_hidden_state") else 4
        sizes = [f"{output.name}.{axis}" for axis in range(rank)]
        output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, sizes))
    return proto


def decoder(has_past: bool, *kinds: str) -> onnx.ModelProto:
    kinds = kinds or ("",)
    inputs = dict(IDS)
    if "encoder." in kinds and not has_past:
        inputs |= STATES
    if has_past:
        inputs |= {name: CACHE for name in names("past_key_values", *kinds[:1])}
        inputs |= {n: (["batch", HEADS, "words", SIZE], "float32") for n in names("past_key_values", *kinds[1:])}
    made = names("present", *(kinds[:1] if has_past else kinds))
    return typed(model(step(has_past, kinds), inputs, " ".join(["logits", *made]), WEIGHTS))


def merged_decoder() -> onnx.ModelProto:
    """Both decoders in one, as branches of an If."""
    outputs = " ".join(["logits", *names("present", "")])
    branches = {}
    for name, has_past in (("then_branch", True), ("else_branch", False)):
        nodes = step(has_past, ("",))
        for each in nodes:
            each.output[:] = [f"{name}.{o}" for o in each.output]
            each.input[:] = [f"{name}.{i}" if any(f"{name}.{i}" in n.output for n in nodes) else i for i in each.input]
        branches[name] = graph(nodes, {}, " ".join(f"{name}.{o}" for o in outputs.split()))
    inputs = IDS | {name: CACHE for name in names("past_key_values", "")} | {"use_cache_branch": ([1], "bool")}
    return typed(model([node("If", "use_cache_branch", outputs, **branches)], inputs, outputs, WEIGHTS))


class Both:
    """A model of a folder, run by vmkit and by onnxruntime, which have to agree."""

    def __init__(self, file: vmkit.frontend.onnx.folder.ModelFile) -> None:
        self.executable = vmkit.compile(file, "llvm")
        self.machine = vmkit.VirtualMachine(self.executable, "cpu")
        self.session = onnxruntime.InferenceSession(str(file.path), providers=["CPUExecutionProvider"])
        self.cache = file.cache

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        feeds = {spec.name: feeds[spec.name] for spec in self.executable.inputs}
        result = self.machine.run(**feeds)
        results = result if isinstance(result, list | tuple) else [result]
        made = {s.name: r.numpy() for s, r in zip(self.executable.outputs, results, strict=True)}
        for name, expected in zip(made, self.session.run(list(made), feeds), strict=True):
            np.testing.assert_allclose(made[name], expected, rtol=1e-4, atol=1e-5)
        return made


def fed_back(cache: Mapping[str, str], feeds: Arrays, made: Arrays) -> Arrays:
    """Return the cache of the next step: what this step made of it, and what stays."""
    return {past: made.get(present, feeds.get(past)) for past, present in cache.items()}


def saved(folder: Path, **models: onnx.ModelProto) -> Path:
    for name, proto in models.items():
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString())
    return folder


def ids(batch: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, WORDS, (batch, length))


def test_a_decoder_of_two_files_writes_a_text(tmp_path: Path) -> None:
    saved(tmp_path, decoder_model=decoder(False), decoder_with_past_model=decoder(True))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_head": 2}')
    models = vmkit.load_model(tmp_path)
    assert list(models) == ["decoder_model.onnx", "decoder_with_past_model.onnx"]
    assert models.config == {"model_type": "gpt2", "n_head": 2}
    assert models["decoder_model"].cache == {}
    assert models["decoder_with_past_model"].cache == {
        "past_key_values.0.key": "present.0.key",
        "past_key_values.0.value": "present.0.value",
    }
    first, later = Both(models["decoder_model"]), Both(models["decoder_with_past_model"])
    for batch, length in ((1, 5), (3, 2)):
        made = first({"input_ids": ids(batch, length)})
        cache = fed_back(later.cache, {}, made)
        for _ in range(4):
            feeds = {"input_ids": made["logits"][:, -1:].argmax(-1), **cache}
            made = later(feeds)
            cache = fed_back(later.cache, feeds, made)
        assert cache["past_key_values.0.key"].shape == (batch, HEADS, length + 4, SIZE)


def test_a_decoder_over_an_encoder_keeps_what_only_its_first_step_makes(tmp_path: Path) -> None:
    kinds = ("decoder.", "encoder.")
    encoder = typed(model([node("Gather", "table input_ids", "last_hidden_state")], IDS, "last_hidden_state", WEIGHTS))
    saved(
        tmp_path,
        encoder_model=encoder,
        decoder_model=decoder(False, *kinds),
        decoder_with_past_model=decoder(True, *kinds),
    )
    models = vmkit.load_model(tmp_path)
    cache = models["decoder_with_past_model"].cache
    assert cache["past_key_values.0.encoder.key"] == "present.0.encoder.key"
    assert "present.0.encoder.key" not in [
        o.name for o in onnx.load(models["decoder_with_past_model"].path).graph.output
    ]
    encode, first, later = (
        Both(models[name]) for name in ("encoder_model", "decoder_model", "decoder_with_past_model")
    )
    states = encode({"input_ids": ids(2, 6)})["last_hidden_state"]
    made = first({"input_ids": ids(2, 1), "encoder_hidden_states": states})
    kept = fed_back(cache, {}, made)
    for _ in range(3):
        feeds = {"input_ids": made["logits"][:, -1:].argmax(-1), **kept}
        made = later(feeds)
        kept = fed_back(cache, feeds, made)
    assert kept["past_key_values.0.encoder.key"].shape == (2, HEADS, 6, SIZE)
    assert kept["past_key_values.0.decoder.key"].shape == (2, HEADS, 4, SIZE)


def test_a_merged_decoder_alone_in_a_folder_with_its_weights_beside_it(tmp_path: Path) -> None:
    proto = merged_decoder()
    onnx.save(
        proto,
        tmp_path / "decoder_model_merged.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=100,
    )
    models = vmkit.load_model(tmp_path)
    run = Both(models.only())
    assert vmkit.check(tmp_path).is_supported
    assert str(vmkit.compile(tmp_path).signature) == str(run.executable.signature)
    empty = np.zeros((2, HEADS, 0, SIZE), "float32")
    feeds = {"input_ids": ids(2, 3), "use_cache_branch": np.array([False]), **dict.fromkeys(run.cache, empty)}
    made = run(feeds)
    for _ in range(3):
        feeds = {
            "input_ids": made["logits"][:, -1:].argmax(-1),
            "use_cache_branch": np.array([True]),
            **fed_back(run.cache, feeds, made),
        }
        made = run(feeds)
    assert made["present.0.value"].shape == (2, HEADS, 6, SIZE)


def test_models_of_a_pipeline_lie_in_folders_of_their_own(tmp_path: Path) -> None:
    for name in ("unet", "text_encoder", ".cache"):
        (tmp_path / name).mkdir()
        saved(tmp_path / name, model=decoder(False))
    models = vmkit.load_model(tmp_path)
    assert list(models) == ["text_encoder/model.onnx", "unet/model.onnx"]
    with pytest.raises(KeyError, match=r"no model 'unte/model.onnx'; did you mean 'unet/model.onnx'"):
        models["unte/model.onnx"]
    for take in (vmkit.compile, vmkit.check):
        with pytest.raises(
            ModelError, match=r"has 2 models: text_encoder/model.onnx, unet/model.onnx; vmkit.load_model"
        ):
            take(tmp_path)


def test_a_file_is_a_folder_of_one(tmp_path: Path) -> None:
    saved(tmp_path, first=decoder(False), second=decoder(False))
    assert list(vmkit.load_model(tmp_path / "first.onnx")) == ["first.onnx"]


def test_a_cache_has_one_type_on_both_sides(tmp_path: Path) -> None:
    proto = decoder(True)
    proto.graph.output[1].type.tensor_type.elem_type = TensorProto.FLOAT16
    saved(tmp_path, model=proto)
    assert list(vmkit.load_model(tmp_path).only().cache) == ["past_key_values.0.value"]


# -- folders that somebody else made


def with_data_at(location: str) -> onnx.ModelProto:
    proto = model([node("Add", "x w", "y")], {"x": (["n", 4], "float32")}, "y", {"w": array(4)})
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return proto


def refused(folder: Path, reason: str) -> None:
    for take in (vmkit.load_model, vmkit.compile, vmkit.check):
        with pytest.raises(ModelError, match=reason):
            take(folder)


@pytest.mark.parametrize("location", ["/etc/passwd", "../outside.bin", "inner/../../outside.bin", "C:\\data.bin"])
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "outside.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    refused(saved(folder, model=with_data_at(location)), "is not a path below the model's folder")


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    saved(tmp_path, outside=decoder(False))
    (folder / "model.onnx").symlink_to(tmp_path / "outside.onnx")
    refused(folder, r"model.onnx: it is a link that leads out of the folder; copy what it leads to, as `cp -rL` does")


def test_a_folder_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    folder, other = tmp_path / "model", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
    saved(other, model=decoder(False))
    (folder / "inner").symlink_to(other)
    refused(folder, "inner/model.onnx: it is a link that leads out")


def test_links_of_weights_and_configurations_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(16))
    (folder / "weights.bin").symlink_to(tmp_path / "outside.bin")
    saved(folder, model=with_data_at("weights.bin"))
    refused(folder, "the location 'weights.bin' leads out of the model's folder")
    saved(folder, model=decoder(False))
    (folder / "config.json").symlink_to(tmp_path / "outside.bin")
    refused(folder, "config.json: it is a link that leads out")


def test_a_snapshot_in_the_cache_of_hugging_face_is_read(tmp_path: Path) -> None:
    repository = tmp_path / "models--team--net"
    snapshot, blobs = repository / "snapshots" / "4711" / "onnx", repository / "blobs"
    for each in (snapshot, blobs):
        each.mkdir(parents=True)
    (blobs / "aa").write_bytes(with_data_at("weights.bin").SerializeToString())
    (blobs / "bb").write_bytes(np.arange(4, dtype="float32").tobytes())
    (blobs / "cc").write_text('{"model_type": "bert"}')
    for name, blob in {"model.onnx": "aa", "weights.bin": "bb", "config.json": "cc"}.items():
        (snapshot / name).symlink_to(f"../../../blobs/{blob}")
    models = vmkit.load_model(snapshot)
    assert (list(models), models.config["model_type"]) == (["model.onnx"], "bert")
    x = np.ones((2, 4), "float32")
    machine = vmkit.VirtualMachine(vmkit.compile(snapshot, "llvm"))
    assert machine.run(x).numpy()[1].tolist() == [1, 2, 3, 4]
    assert list(vmkit.load_model(snapshot.parent)) == ["onnx/model.onnx"]
    (snapshot / "weights.bin").unlink()
    (snapshot / "weights.bin").symlink_to("/etc/passwd")
    refused(snapshot, "the location 'weights.bin' leads out of the model's folder")


def test_a_blobs_folder_that_is_a_link_is_none(tmp_path: Path) -> None:
    repository, other = tmp_path / "models--team--net", tmp_path / "other"
    snapshot = repository / "snapshots" / "4711"
    for each in (snapshot, other):
        each.mkdir(parents=True)
    saved(other, secret=decoder(False))
    (repository / "blobs").symlink_to(other)
    (snapshot / "model.onnx").symlink_to("../../blobs/secret.onnx")
    refused(snapshot, "model.onnx: it is a link that leads out")


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "4711").write_bytes(decoder(False).SerializeToString())
    (tmp_path / "model.onnx").symlink_to(tmp_path / "blobs" / "4711")
    assert list(vmkit.load_model(tmp_path)) == ["model.onnx"]


def test_all_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    saved(tmp_path, a=with_data_at("gone.bin"), c=decoder(False))
    (tmp_path / "b.onnx").write_bytes(b"")
    with pytest.raises(ModelError) as caught:
        vmkit.load_model(tmp_path)
    assert "a.onnx: a.onnx: external data" in str(caught.value) and "no file 'gone.bin'" in str(caught.value)
    assert "b.onnx is empty" in str(caught.value)


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    refused(tmp_path, "model.onnx: it is no regular file")
    (tmp_path / "model.onnx").unlink()
    (tmp_path / "model.onnx").symlink_to("model.onnx")
    refused(tmp_path, "model.onnx: it is a link to nothing")


def test_sizes_that_no_model_has_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with (tmp_path / "model.onnx").open("wb") as file:
        file.truncate(1 << 40)
    refused(tmp_path, "model.onnx is no ONNX model: it has 1099511627776 bytes")
    saved(tmp_path, model=decoder(False))
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 40)
    refused(tmp_path, "config.json: it has 1099511627776 bytes, more than any configuration")


def test_weights_larger_than_their_file_are_refused(tmp_path: Path) -> None:
    proto = with_data_at("weights.bin")
    proto.graph.initializer[0].dims[:] = [1 << 40]
    (tmp_path / "weights.bin").write_bytes(bytes(16))
    refused(saved(tmp_path, model=proto), "weights.bin has 16 bytes, but FLOAT")


def test_folders_without_models(tmp_path: Path) -> None:
    refused(tmp_path, "has no ONNX file, only nothing")
    (tmp_path / "model.safetensors").touch()
    refused(tmp_path, "has no ONNX file, only model.safetensors")
    with pytest.raises(ModelError, match="there is no such file or folder"):
        vmkit.load_model(tmp_path / "none")
    with pytest.raises(ModelError, match="expected a folder of ONNX files, or one of them"):
        vmkit.load_model(tmp_path / "model.safetensors")


def test_configurations_that_are_none(tmp_path: Path) -> None:
    saved(tmp_path, model=decoder(False))
    for text, reason in (("{", "expected JSON, but"), ("[1]", "expected an object of JSON, got list")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelError, match=reason):
            vmkit.load_model(tmp_path)
