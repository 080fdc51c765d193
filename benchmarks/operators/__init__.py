"""Single operators of ONNX beside onnxruntime: ``python -m benchmarks.operators``."""
