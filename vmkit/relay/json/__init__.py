"""The JSON of TVM releases that had Relay (``tvm.ir.save_json`` up to 0.19), read and written.

A document is a list of nodes. A node has a type key and named fields as text; a field that refers to another node holds
its index. Node 0 is the null. Tensors stand beside the nodes in base64.
"""

from .document import is_relay_document, load_json, save_json
from .reader import NodeReader
from .writer import NodeWriter, type_key

__all__ = ["NodeReader", "NodeWriter", "is_relay_document", "load_json", "save_json", "type_key"]
