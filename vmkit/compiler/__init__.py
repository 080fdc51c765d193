"""What to build: models of every form to executables."""

from .models import to_module
from .options import PassContext
from .vm_compiler import VMCompiler, compile

__all__ = ["PassContext", "VMCompiler", "compile", "to_module"]
