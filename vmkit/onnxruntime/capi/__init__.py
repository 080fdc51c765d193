"""Where onnxruntime keeps its errors."""
