"""Converters of the operators of ai.onnx.ml: classical models, a module a family."""
