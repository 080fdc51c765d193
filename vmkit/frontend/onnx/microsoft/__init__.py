"""The operators of onnxruntime's own domain, by family."""
