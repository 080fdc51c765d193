"""Converters of the operators of ONNX's own domain, one module a family; a module beside these is found by itself."""
