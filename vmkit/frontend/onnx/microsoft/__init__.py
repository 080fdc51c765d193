"""Converters of com.microsoft: the operators that onnxruntime's optimiser and its model builders make."""
