"""What to build: models of every form to executables."""

from .models import load_model
from .options import PassContext
from .vm_compiler import VMCompiler, compile

__all__ = ["PassContext", "VMCompiler", "compile", "load_model"]
