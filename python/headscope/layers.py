"""Gives attention calls the path of their module, by hooks that live as long as a profiler runs.

The hooks read no tensor, do nothing in compiled code, and pickle as a function of the standard library that does
nothing, so a model may be copied, pickled and saved while it is profiled, and loaded where headscope is not installed.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.utils.hooks import RemovableHandle

from headscope._native import core
from headscope.attention_modules import AttentionModule, OtherSequence, find_attention

_push_layer = core.push_layer
_pop_layer = core.pop_layer


class _Label:
    """The layer of one module while its hooks are attached, and which threads are inside."""

    __slots__ = ("closed", "cross_layer", "entered", "layer", "other", "ran")

    def __init__(self, layer: int, cross_layer: int, other: OtherSequence | None) -> None:
        self.layer = layer
        self.cross_layer = cross_layer
        self.other = other
        self.entered: list[int] = []
        self.closed = False
        self.ran = False


class _Hook:
    __slots__ = ("label",)

    def __init__(self, label: _Label) -> None:
        self.label = label

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        # A copied module keeps its name while the profiler runs; then the closed label silences it.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # nullcontext.__exit__ takes any three arguments and returns None.
        return getattr, (contextlib.nullcontext(), "__exit__")


class _Enter(_Hook):
    __slots__ = ()

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if is_compiling():
            return
        label = self.label
        if label.closed:
            return
        label.ran = True
        label.entered.append(get_ident())
        _push_layer(label.layer)


class _EnterByCall(_Hook):
    """For modules whose arguments tell whether a call reads another sequence."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_compiling():
            return
        label = self.label
        if label.closed:
            return
        label.ran = True
        label.entered.append(get_ident())
        _push_layer(label.cross_layer if _reads_other(label.other, args, kwargs) else label.layer)


class _Leave(_Hook):
    __slots__ = ("handle",)

    handle: RemovableHandle

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if is_compiling():
            return
        label = self.label
        thread = get_ident()
        # A call that began before the hooks were attached has entered nothing.
        if thread not in label.entered:
            return
        label.entered.remove(thread)
        _pop_layer()
        if label.closed and not label.entered:
            self.handle.remove()


class _NamedForward:
    """Stands for nn.TransformerEncoderLayer.forward: a hook there would switch off the layer's fast path."""

    def __init__(self, module: nn.Module, label: _Label) -> None:
        self.module = module
        self.label = label
        self.was_own = "forward" in module.__dict__
        self.forward = module.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or self.label.closed:
            return self.forward(*args, **kwargs)
        self.label.ran = True
        _push_layer(self.label.layer)
        try:
            return self.forward(*args, **kwargs)
        finally:
            _pop_layer()

    def restore(self) -> None:
        # Somebody may have put another forward over this one: then it stays, and only calls on.
        if self.module.__dict__.get("forward") is self:
            if self.was_own:
                self.module.__dict__["forward"] = self.forward
            else:
                del self.module.__dict__["forward"]

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles of the module get its plain forward.
        return (functools.partial, (self.forward,)) if self.was_own else (getattr, (self.module, "forward"))


class LayerHooks:
    """Attaches to the attention modules of `model` on construction."""

    def __init__(self, model: nn.Module) -> None:
        self._labels: list[_Label] = []
        self._before: list[RemovableHandle] = []
        self._after: list[tuple[_Label, RemovableHandle]] = []
        self._forwards: list[_NamedForward] = []
        # Replicas of DataParallel share the instance's attributes: a forward kept there would run the original.
        may_replace_forward = not any(isinstance(module, nn.DataParallel) for module in model.modules())
        for index, found in enumerate(find_attention(model)):
            self._attach(index, found, may_replace_forward)

    def _attach(self, index: int, found: AttentionModule, may_replace_forward: bool) -> None:
        module, other = found.module, found.other_sequence
        if isinstance(module, torch.jit.ScriptModule):
            return
        layer = core.intern_layer(found.name, index, found.heads, found.kv_heads, found.cross)
        cross_layer = core.intern_layer(found.name, index, found.heads, found.kv_heads, True) if other else layer
        label = _Label(layer, cross_layer, other)
        self._labels.append(label)
        if found.encoder_layer and may_replace_forward:
            forward = _NamedForward(module, label)
            module.__dict__["forward"] = forward
            self._forwards.append(forward)
            return
        if other:
            self._before.append(module.register_forward_pre_hook(_EnterByCall(label), with_kwargs=True))
        else:
            self._before.append(module.register_forward_pre_hook(_Enter(label)))
        leave = _Leave(label)
        leave.handle = module.register_forward_hook(leave, always_call=True)
        self._after.append((label, leave.handle))

    def order_of_compiled_code(self) -> list[int]:
        """Labels of the modules in the order of the model, where all that ran of it was compiled, else none."""
        if not _compiler_was_used() or any(label.ran for label in self._labels):
            return []
        return [label.layer for label in self._labels]

    def remove(self) -> None:
        """Detaches. A module that a thread is inside of right now detaches when that thread leaves it."""
        for label in self._labels:
            label.closed = True
        for handle in self._before:
            handle.remove()
        for label, handle in self._after:
            if not label.entered:
                handle.remove()
        for forward in self._forwards:
            forward.restore()


def _compiler_was_used() -> bool:
    # torch imports the module with the first torch.compile; the table names the backends that were asked for.
    frames = sys.modules.get("torch._dynamo.eval_frame")
    return frames is not None and bool(getattr(frames, "cached_backends", True))


def _reads_other(other: OtherSequence | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if other is None:
        return False
    value = args[other.position] if other.position < len(args) else kwargs.get(other.name)
    return value is not None and value is not (args[0] if args else kwargs.get(other.query))
