"""Which ``torch.nn.Module`` a dispatched operator belongs to, while a profile runs.

Global forward hooks keep the path of the innermost module; the C++ side stores it with every operator. A path starts
at the outermost module that was called: "BertModel.encoder.layer.0.output.dense" is one of its submodules.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from . import _C

_handles: list[Any] = []
_stack: list[str] = []
_names: dict[int, str] = {}


def _enter(module: nn.Module, _inputs: Any) -> None:
    if not _stack:
        root = type(module).__name__
        _names.clear()
        _names.update({id(m): f"{root}.{name}" if name else root for name, m in module.named_modules()})
    _stack.append(_names.get(id(module), type(module).__name__))
    _C._set_module_path(_stack[-1])


def _leave(_module: nn.Module, _inputs: Any, _output: Any) -> None:
    if _stack:
        _stack.pop()
    _C._set_module_path(_stack[-1] if _stack else "")


def track() -> None:
    """Starts to follow module calls; called by ``_C._profile_begin``."""
    untrack()
    _handles.append(register_module_forward_pre_hook(_enter))
    _handles.append(register_module_forward_hook(_leave, always_call=True))


def untrack() -> None:
    """Stops to follow module calls; called by ``_C._profile_end``."""
    while _handles:
        _handles.pop().remove()
    _stack.clear()
    _names.clear()
    _C._set_module_path("")
