"""What a sweep runs in each cell: bare attention, a function, or a model."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.attention import sdpa_kernel

from headscope._native import Error
from headscope.attention_variants import DTYPES, SDPA_BACKENDS, VARIANTS, Geometry, Unavailable, build
from headscope.measurement import Work
from headscope.sweeping.grid import Cell

#: The variant of a model or function that attends as it was made to.
AS_IS = "as_is"

Inputs = Callable[[Cell], Mapping[str, Any]]


class BareAttention:
    """Attention of the cell's geometry alone, on random numbers."""

    name = "attention"
    variants = VARIANTS
    default_variants = ("eager", "sdpa_math", "sdpa_flash")

    def work(self, cell: Cell) -> tuple[Work, int]:
        """What to run in a cell, and the bytes that it holds besides what a run allocates."""
        geometry = geometry_of(cell)
        attend = build(cell.variant, geometry)
        operands = geometry.operands()
        return Work(lambda given: attend(*given), geometry.device, lambda: operands), _bytes_of(operands)


class FunctionTarget:
    """A function of the cell, and of `inputs(cell)` by keyword where they are given."""

    variants = (AS_IS, *SDPA_BACKENDS)
    default_variants = (AS_IS,)

    def __init__(self, function: Callable[..., object], inputs: Inputs | None) -> None:
        self._function = function
        self._inputs = inputs
        self.name = (
            f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"
        )

    def work(self, cell: Cell) -> tuple[Work, int]:
        """As of BareAttention; inputs are made anew for each run, outside its time."""
        inputs = self._inputs
        held = 0 if inputs is None else _bytes_of(inputs(cell))

        def run(given: Mapping[str, Any]) -> object:
            with _backend(cell.variant):
                return self._function(cell, **given)

        return Work(run, torch.device(cell.device), lambda: {} if inputs is None else inputs(cell), grad=True), held


class ModelTarget:
    """A module, called as `model(**inputs)` without gradients.

    Without `inputs` it is a language model as transformers has them: random tokens, and a cache that the model itself
    has filled with the tokens before them.
    """

    variants = (AS_IS, *SDPA_BACKENDS)
    default_variants = (AS_IS,)

    def __init__(self, model: nn.Module, inputs: Inputs | None) -> None:
        self._model = model
        self._inputs = inputs
        self._vocabulary = getattr(_text_config(model), "vocab_size", None)
        if inputs is None and not isinstance(self._vocabulary, int):
            raise Error(
                f"what does {type(model).__name__} take? Its config names no vocab_size, so give inputs=, a function "
                "from a cell to the keyword arguments of the model"
            )
        self.name = f"{type(model).__module__}.{type(model).__qualname__}"
        self._takes = inspect.signature(model.forward).parameters

    @property
    def geometry(self) -> dict[str, int | None]:
        """Head counts and dimensions as the model's config has them; None where it does not say."""
        config = _text_config(self._model)
        heads = getattr(config, "num_attention_heads", None)
        dim = getattr(config, "head_dim", None)
        hidden = getattr(config, "hidden_size", None)
        if dim is None and heads and hidden:
            dim = hidden // heads
        return {
            "heads": heads,
            "kv_heads": getattr(config, "num_key_value_heads", None) or heads,
            "head_dim": dim,
            "head_dim_v": getattr(config, "v_head_dim", None) or dim,
        }

    @property
    def dtype(self) -> str | None:
        """The dtype of the parameters; None when there are none."""
        first = next(self._model.parameters(), None)
        return None if first is None else str(first.dtype).removeprefix("torch.")

    @property
    def device(self) -> torch.device | None:
        """Where the parameters are; None when there are none."""
        first = next(self._model.parameters(), None)
        return None if first is None else first.device

    def work(self, cell: Cell) -> tuple[Work, int]:
        """As of BareAttention; the bytes are those of parameters, buffers, inputs and the filled cache."""
        device = torch.device(cell.device)
        if self._inputs is None:
            prepare, held = self._tokens_and_cache(cell, device)
        else:
            given_inputs = self._inputs
            prepare, held = (lambda: given_inputs(cell)), _bytes_of(given_inputs(cell))

        def run(given: Mapping[str, Any]) -> object:
            with _backend(cell.variant):
                return self._model(**given)

        held += _bytes_of([*self._model.parameters(), *self._model.buffers()])
        return Work(run, device, prepare, model=self._model), held

    def _tokens_and_cache(self, cell: Cell, device: torch.device) -> tuple[Callable[[], Mapping[str, Any]], int]:
        source = torch.Generator().manual_seed(0)
        high = self._vocabulary or 1
        tokens = torch.randint(0, high, (cell.batch, cell.q_len), generator=source).to(device)
        before = cell.kv_len - cell.q_len
        if before == 0:
            return (lambda: {"input_ids": tokens}), _bytes_of(tokens)
        earlier = torch.randint(0, high, (cell.batch, before), generator=source).to(device)
        name = next((name for name in ("cache", "past_key_values") if name in self._takes), None)
        if name is None:
            raise Unavailable("its forward() takes no cache (past_key_values), so that it can neither decode nor go on")
        only_last = {"logits_to_keep": 1} if "logits_to_keep" in self._takes else {}
        with torch.inference_mode(), _backend(cell.variant):
            filled = getattr(self._model(input_ids=earlier, use_cache=True, **only_last), name, None)
        if filled is None:
            raise Unavailable("it returns no cache when it is called with use_cache=True")
        held = _bytes_of(tokens) + _bytes_of_cache(filled)
        return (lambda: {"input_ids": tokens, name: _branch(filled), "use_cache": True}), held


def geometry_of(cell: Cell) -> Geometry:
    """The geometry of a cell of bare attention, in which nothing is None."""
    assert cell.heads is not None
    assert cell.kv_heads is not None
    assert cell.head_dim is not None
    assert cell.head_dim_v is not None
    assert cell.dtype is not None
    return Geometry(
        batch=cell.batch,
        heads=cell.heads,
        kv_heads=cell.kv_heads,
        q_len=cell.q_len,
        kv_len=cell.kv_len,
        head_dim=cell.head_dim,
        head_dim_v=cell.head_dim_v,
        dtype=DTYPES[cell.dtype],
        causal=cell.causal,
        device=torch.device(cell.device),
    )


def _backend(variant: str) -> AbstractContextManager[None]:
    return nullcontext() if variant == AS_IS else sdpa_kernel(SDPA_BACKENDS[variant])


def _text_config(model: nn.Module) -> Any:
    config = getattr(model, "config", None)
    get_text_config = getattr(config, "get_text_config", None)
    return get_text_config() if callable(get_text_config) else config


#: Layers of a cache that never write into the tensors which they hold.
_APPENDING = ("DynamicLayer", "DynamicSlidingWindowLayer")


def _branch(filled: Any) -> Any:
    """A cache with the same content that grows by itself. It shares the tensors where appending makes new ones, so
    that a cell needs its cache once, not twice."""
    layers = getattr(filled, "layers", None)
    if not isinstance(layers, list):
        return copy.deepcopy(filled)
    branch = copy.copy(filled)
    branch.layers = [copy.copy(part) if type(part).__name__ in _APPENDING else copy.deepcopy(part) for part in layers]
    return branch


def _bytes_of_cache(filled: Any) -> int:
    layers = getattr(filled, "layers", None)
    return _bytes_of([vars(part) for part in layers] if isinstance(layers, list) else filled)


def _bytes_of(value: Any) -> int:
    """Bytes of the tensors in nested containers, each storage once."""
    storages: dict[int, int] = {}
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, torch.Tensor):
            storage = part.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(part, Mapping):
            pending += part.values()
        elif isinstance(part, (list, tuple)):
            pending += part
    return sum(storages.values())
