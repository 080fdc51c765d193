"""Encoders of text and images: BERT, DistilBERT, ViT, and CLIP, which has one of each."""

from __future__ import annotations

import torch
import transformers

from ..family import Tensors, family
from ..wrapped import Wrapped, ids

_TEXT = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"}}
_TYPED = {**_TEXT, "token_type_ids": {0: "batch", 1: "sequence"}}
_TEXT_SIZES = tuple({"batch": b, "sequence": s} for b, s in ((2, 12), (1, 7), (3, 40), (4, 1)))


def _text(batch: int, sequence: int, words: int = 1000) -> Tensors:
    """Return ids, and a mask that leaves out the ends of all sequences but the first."""
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[1:, sequence - sequence // 4 :] = 0
    return {"input_ids": ids(batch, sequence, words), "attention_mask": mask}


def _typed(batch: int, sequence: int) -> Tensors:
    return {**_text(batch, sequence), "token_type_ids": ids(batch, sequence, 2)}


def _image(batch: int, height: int = 32, width: int = 32) -> Tensors:
    return {"pixel_values": torch.randn(batch, 3, height, width)}


@family(inputs=_typed, axes=_TYPED, sizes=_TEXT_SIZES, outputs=("hidden", "pooled"))
def bert() -> torch.nn.Module:
    """BERT-base in full size: 12 layers, 110 million parameters."""
    return Wrapped(transformers.BertModel(transformers.BertConfig()), _TYPED)


@family(inputs=_text, axes=_TEXT, sizes=_TEXT_SIZES)
def bert_eager() -> torch.nn.Module:
    """A small BERT whose attention is written out, with a head that classifies."""
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        attn_implementation="eager",
    )  # fmt: skip
    return Wrapped(transformers.BertForSequenceClassification(config), _TEXT)


@family(inputs=_text, axes=_TEXT, sizes=_TEXT_SIZES)
def distilbert() -> torch.nn.Module:
    config = transformers.DistilBertConfig(vocab_size=1000, dim=64, n_layers=2, n_heads=4, hidden_dim=128)
    return Wrapped(transformers.DistilBertModel(config), _TEXT)


_VIT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip


@family(
    inputs=_image,
    axes={"pixel_values": {0: "batch", 2: "height", 3: "width"}},
    sizes=tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 48, 64), (1, 32, 32), (3, 64, 40))),
    outputs=("hidden", "pooled"),
)
def vit() -> torch.nn.Module:
    """A vision transformer whose position embeddings are interpolated to the size of the image."""
    model = transformers.ViTModel(transformers.ViTConfig(**_VIT))
    return Wrapped(model, ["pixel_values"], interpolate_pos_encoding=True)


@family(
    inputs=_image,
    axes={"pixel_values": {0: "batch"}},
    sizes=({"batch": 2}, {"batch": 1}, {"batch": 5}),
    outputs=("hidden", "pooled"),
)
def vit_fixed() -> torch.nn.Module:
    """A vision transformer for one size of image."""
    return Wrapped(transformers.ViTModel(transformers.ViTConfig(**_VIT)), ["pixel_values"])


def _pair(texts: int, images: int, sequence: int) -> Tensors:
    text = _text(texts, sequence, 100)
    return {"input_ids": text["input_ids"], **_image(images), "attention_mask": text["attention_mask"]}


_PAIR = {
    "input_ids": {0: "texts", 1: "sequence"},
    "pixel_values": {0: "images"},
    "attention_mask": {0: "texts", 1: "sequence"},
}


@family(
    inputs=_pair,
    axes=_PAIR,
    sizes=tuple({"texts": t, "images": i, "sequence": s} for t, i, s in ((3, 2, 9), (1, 1, 4), (5, 4, 16))),
    outputs=("per_image", "per_text", "text", "image"),
)
def clip() -> torch.nn.Module:
    """Texts against images."""
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = transformers.CLIPTextConfig(vocab_size=100, max_position_embeddings=24, eos_token_id=99, **small)
    vision = transformers.CLIPVisionConfig(image_size=32, patch_size=8, **small)
    config = transformers.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16)
    return Wrapped(transformers.CLIPModel(config), _PAIR, first=4)
