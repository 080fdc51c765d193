"""Operators that are not supported for a reason: what it is, and what to write in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["reason"]

_MICROSOFT = "com.microsoft"
_ON_GPUS = "onnxruntime has it on GPUs alone"
_BY_BITS = f"{_ON_GPUS}; quantise the weights for MatMulNBits, whose products can stand apart"
_ORDERED = f"{_ON_GPUS}, in layouts of theirs; quantise with QuantizeLinear and DequantizeLinear"
_FOR_CPUS = f"{_ON_GPUS}; export the model for CPUs"
_TRAINING = "it is of training; export the model for inference"
_ELSEWHERE = "it holds a part that was compiled for another device; take the model from before that"
_PLUGIN = (
    "it is a plugin of TensorRT; export the model with ONNX's own operators, such as NonMaxSuppression and RoiAlign"
)

# By reason, since many have one in common.
_REASONS: Mapping[str, Mapping[str, str]] = {
    _MICROSOFT: {
        "its weights are packed for the instructions of one processor; quantise them for MatMulNBits": "MatMulFpQ4",
        "sparse tensors cannot be given; give the matrix to MatMul, dense or as a sparse initializer": (
            "SparseToDenseMatMul"
        ),
        f"{_ON_GPUS}; export the model with GroupQueryAttention": "PagedAttention SparsePagedAttention",
        f"{_ON_GPUS}; fuse with MultiHeadAttention or DecoderMaskedMultiHeadAttention": (
            "DecoderAttention DecoderMaskedSelfAttention"
        ),
        f"{_ON_GPUS}; leave the nodes that it would be fused of as they are": "LongformerAttention",
        f"{_ON_GPUS}; export the model with DFT of ONNX": "Irfft Rfft",
        f"{_ON_GPUS}; export the model with SimplifiedLayerNormalization and RotaryEmbedding": "RMSNormRotary",
        f"{_ON_GPUS}; export the model with QMoE": "MoEPacked",
        f"{_ON_GPUS}; export the model with Mul and ReduceSum of ONNX": "MulInteger ReduceSumInteger",
        _BY_BITS: (
            "GemmFloat8 MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight MatMulNBitsMlp MatMulNBitsQLoRA "
            "MatMulNBitsQkv MatMulPacked"
        ),
        _ORDERED: (
            "DequantizeBFP DequantizeWithOrder QOrderedAttention QOrderedGelu QOrderedLayerNormalization "
            "QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeWithOrder"
        ),
        _FOR_CPUS: (
            "ConvStateReplay DynamicSparseAttention GatedDeltaNetStateReplay HyperConnectionLowRankMix Mamba2Verify "
            "PackedSparseAttentionIndexer PackedSparseAttentionIndexerMerge RouterGateUpProj SparseAttentionIndexer "
            "SpeculativePrefixCommit"
        ),
        _TRAINING: "BitmaskBiasDropout BitmaskDropout IsAllFinite",
        _ELSEWHERE: "EPContext Snpe",
    },
    "": {_PLUGIN: "DisentangledAttention_TRT EfficientNMS_TRT MultilevelCropAndResize_TRT PyramidROIAlign_TRT"},
}
_DOMAINS = {
    "com.microsoft.nchwc": (
        "its tensors are laid out for the processor on which onnxruntime wrote the model; save it with "
        "disabled_optimizers=['NchwcTransformer'], or optimised to ORT_ENABLE_EXTENDED"
    ),
    "com.ms.internal.nhwc": "it is onnxruntime's form for accelerators; save the model without their providers",
}


def reason(domain: str, op_type: str) -> str | None:
    """Return why an operator is not supported and what to do instead; None where there is no more to say."""
    return _DOMAINS.get(domain) or _BY_NAME.get((domain, op_type))


def _by_name() -> Iterator[tuple[tuple[str, str], str]]:
    for domain, reasons in _REASONS.items():
        for why, names in reasons.items():
            yield from (((domain, name), why) for name in names.split())


_BY_NAME = dict(_by_name())
