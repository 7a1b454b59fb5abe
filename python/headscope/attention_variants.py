"""Implementations of attention by the names of their variants, each to be run on the same operands."""

from __future__ import annotations

import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from headscope._native import Error

#: Takes query, key and value, each [batch, heads, length, dim], and returns [batch, heads, q_len, head_dim_v].
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

SDPA_BACKENDS = {
    "sdpa_math": SDPBackend.MATH,
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
}
VARIANTS = ("eager", *SDPA_BACKENDS, "flash_attn_2", "flash_attn_3", "flex")

#: dtypes by the names that reports use.
DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

_NEEDS_CUDA = ("sdpa_efficient", "sdpa_cudnn", "flash_attn_2", "flash_attn_3")


class Unavailable(Exception):
    """A variant does not run here, or not with this geometry; the message is the reason."""


@dataclass(frozen=True)
class Geometry:
    """One attention problem. Lengths in tokens; `causal` is aligned so that the last query sees all keys."""

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    head_dim_v: int
    dtype: torch.dtype
    causal: bool
    device: torch.device

    def operands(self, *, requires_grad: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key and value of random numbers, the same each time."""
        source = torch.Generator(device=self.device).manual_seed(0)

        def draw(heads: int, length: int, dim: int) -> torch.Tensor:
            shape = (self.batch, heads, length, dim)
            drawn = torch.randn(shape, generator=source, device=self.device, dtype=self.dtype)
            return drawn.requires_grad_(requires_grad)

        return (
            draw(self.heads, self.q_len, self.head_dim),
            draw(self.kv_heads, self.kv_len, self.head_dim),
            draw(self.kv_heads, self.kv_len, self.head_dim_v),
        )

    def mask(self) -> torch.Tensor | None:
        """[q_len, kv_len], True where a query sees a key; None where it sees all."""
        if not self.causal:
            return None
        full = torch.ones(self.q_len, self.kv_len, dtype=torch.bool, device=self.device)
        return full.tril(diagonal=self.kv_len - self.q_len)


def checked_dtype(dtype: Any) -> str:
    """The name of a dtype given as torch.float16 or "float16"; raises Error for one that attention has not."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Error(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    return name


def checked_variant(variant: Any) -> str:
    """`variant` itself; raises Error, with the list, for one that cannot be run."""
    if variant not in VARIANTS:
        raise Error(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    return str(variant)


def checked_heads(heads: int, kv_heads: int) -> None:
    """Raises Error unless the query heads share the key and value heads evenly."""
    if heads % kv_heads:
        raise Error(f"kv_heads must divide heads: {kv_heads} key and value heads cannot be shared by {heads} heads")


def checked_device(device: Any) -> torch.device:
    """The device, of which torch has at least one; raises Error otherwise."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as reason:
        raise Error(f"device {device!r} cannot be used here: {first_line(reason)}") from reason
    return found


def build(variant: str, geometry: Geometry) -> Attention:
    """`variant` for operands of this geometry. Raises Unavailable where a package or a device is missing.

    Whether it takes the geometry shows when it runs: run it inside `refusals(variant, device)`.
    """
    if variant in ("flash_attn_2", "flash_attn_3"):
        return _of_package(variant, geometry)
    if variant in SDPA_BACKENDS:
        return _sdpa(SDPA_BACKENDS[variant], geometry)
    return {"eager": _eager, "flex": _flex}[variant](geometry)


@contextmanager
def refusals(variant: str, device: torch.device) -> Iterator[None]:
    """Turns what a variant says when it does not take its operands into Unavailable with that reason.

    Which refusals these are is known by the exceptions of SDPA's choice of a backend, of torch.compile, and of
    missing kernels; other exceptions pass through unchanged.
    """
    refused: Exception | None = None
    said: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                yield
            except (RuntimeError, NotImplementedError, ValueError) as refusal:
                if not _is_refusal(variant, refusal):
                    raise
                refused = refusal
    finally:
        if refused is None:
            _say_again(said)
    if refused is not None:
        reasons = dict.fromkeys(_short(warning.message) for warning in said)
        wanting = [f"{variant} has kernels for CUDA alone, and the device is {device}"]
        parts = [*(wanting if variant in _NEEDS_CUDA and device.type != "cuda" else ()), *reasons]
        raise Unavailable("; ".join([*parts, f"torch says: {_short(_origin(refused))}"])) from refused


#: Which warnings were shown, as each module of Python keeps it.
_shown: dict[Any, Any] = {}


def _say_again(said: list[warnings.WarningMessage]) -> None:
    """What was no part of a refusal goes where the program's warnings go."""
    for warning in said:
        # Filters go by the module, of which a recorded warning has the file alone.
        files = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
        warnings.warn_explicit(
            warning.message,
            warning.category,
            warning.filename,
            warning.lineno,
            module=files.get(warning.filename),
            registry=_shown,
        )


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, which is where torch puts the reason."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _origin(error: BaseException) -> BaseException:
    """The exception that others, such as those of torch.compile, only pass on."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _short(message: BaseException | str) -> str:
    text = " ".join(str(message).split("(Triggered internally")[0].split())
    return text if len(text) <= 300 else text[:299] + "…"


def _is_refusal(variant: str, refusal: Exception) -> bool:
    text = str(refusal)
    if variant in SDPA_BACKENDS:
        return "No viable backend" in text or "No available kernel" in text
    if variant == "flex":
        return type(refusal).__module__.startswith(("torch._dynamo", "torch._inductor")) or isinstance(
            refusal, NotImplementedError
        )
    return variant.startswith("flash_attn") and ("only support" in text or "only supports" in text)


def _sdpa(backend: SDPBackend, geometry: Geometry) -> Attention:
    grouped = {"enable_gqa": True} if geometry.heads != geometry.kv_heads else {}
    square = geometry.q_len == geometry.kv_len
    mask = causal_lower_right(geometry.q_len, geometry.kv_len) if geometry.causal and not square else None

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=geometry.causal and square, **grouped
            )

    return attend


def _eager(geometry: Geometry) -> Attention:
    allowed = geometry.mask()
    forbidden = None if allowed is None else ~allowed
    shared = geometry.heads // geometry.kv_heads
    scale = 1.0 / math.sqrt(geometry.head_dim)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if shared > 1:
            key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
        scores = query @ key.transpose(-1, -2) * scale
        if forbidden is not None:
            scores = scores.masked_fill(forbidden, -math.inf)
        return scores.softmax(-1) @ value

    return attend


def _of_package(variant: str, geometry: Geometry) -> Attention:
    module = {"flash_attn_2": "flash_attn", "flash_attn_3": "flash_attn_interface"}[variant]
    try:
        flash = importlib.import_module(module).flash_attn_func
    except (ImportError, AttributeError) as missing:
        raise Unavailable(f"the package of {variant} cannot be imported: {first_line(missing)}") from missing
    if geometry.device.type != "cuda":
        raise Unavailable(f"{variant} has kernels for CUDA alone, and the device is {geometry.device}")

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        # [batch, length, heads, dim], and in flash-attn 3 the log-sum-exp beside the output.
        out = flash(*(part.transpose(1, 2) for part in (query, key, value)), causal=geometry.causal)
        mixed: torch.Tensor = out[0] if isinstance(out, tuple) else out
        return mixed.transpose(1, 2)

    return attend


def _flex(geometry: Geometry) -> Attention:
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError as missing:
        raise Unavailable(f"this torch has no flex_attention: {first_line(missing)}") from missing

    offset = geometry.kv_len - geometry.q_len

    def sees(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return key <= query + offset

    blocks = None
    if geometry.causal:
        blocks = create_block_mask(sees, None, None, geometry.q_len, geometry.kv_len, device=str(geometry.device))
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        # Each geometry is compiled by itself, and the usual limit is there for shapes that keep changing.
        with torch._dynamo.config.patch(recompile_limit=1 << 20, accumulated_recompile_limit=1 << 20):
            out = compiled(query, key, value, block_mask=blocks, enable_gqa=geometry.heads != geometry.kv_heads)
        mixed: torch.Tensor = out
        return mixed

    return attend
