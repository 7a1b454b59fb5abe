"""What the program may tell headscope: names of layers, and attention ops of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from torch.compiler import is_compiling

from headscope._native import Error, core


@contextmanager
def layer(name: str) -> Iterator[None]:
    """Names the layer of the attention calls that this thread makes inside the `with`; the innermost name wins.

    Also a decorator. The name belongs to the thread: do not hold it over an `await` or a `yield`. It has no effect
    inside compiled code. Raises Error when `name` is not a str.
    """
    if is_compiling():
        yield
        return
    core.push_layer(core.intern_layer(name))
    try:
        yield
    finally:
        core.pop_layer()


def register_attention_op(
    op: Any,
    *,
    variant: str,
    query: str = "query",
    key: str = "key",
    value: str = "value",
    mask: str | None = None,
    causal: str | None = None,
    causal_lower_right: bool = False,
    window_left: str | None = None,
    window_right: str | None = None,
    cu_seqlens_q: str | None = None,
    cu_seqlens_k: str | None = None,
    seqused_k: str | None = None,
    block_table: str | None = None,
    layout: Literal["bhsd", "bshd", "thd", "hsd"] = "bhsd",
    backward: bool = False,
) -> None:
    """Profiles calls of an attention op that headscope does not know, defined already or later.

    op: "namespace::name", with the overload after a dot where it has one, or the op itself (torch.ops.…, or what
        torch.library.custom_op returned).
    variant: the name that reports show.
    layout: axes of query, key and value: "bhsd" [batch, heads, sequence, dim], "bshd" [batch, sequence, heads, dim],
        "thd" [tokens, heads, dim] with cumulative lengths, "hsd" [batch × heads, sequence, dim].
    query, key, value, mask, causal, window_*, cu_seqlens_*, seqused_k, block_table: names of the op's arguments.
    causal_lower_right: the last query sees the last key (flash-attn) instead of the first seeing the first (torch).
    backward: the op is a backward.

    The same spec again has no effect. Raises Error when the name is malformed, when the op is known under another
    spec, when it lacks a named argument, or when it cannot be hooked (the message says why).
    """
    core.register_attention_op(
        op=_name_of(op),
        variant=variant,
        query=query,
        key=key,
        value=value,
        mask=mask,
        causal=causal,
        causal_lower_right=causal_lower_right,
        window_left=window_left,
        window_right=window_right,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        seqused_k=seqused_k,
        block_table=block_table,
        layout=layout,
        backward=backward,
    )


def _name_of(op: Any) -> str:
    if isinstance(op, str):
        return op
    # CustomOpDef, OpOverloadPacket, OpOverload: where each keeps its qualified name.
    for attribute in ("_qualname", "_qualified_op_name"):
        name = getattr(op, attribute, None)
        if isinstance(name, str):
            return name
    name = getattr(op, "name", None)
    if callable(name):
        name = name()
        if isinstance(name, str):
            return name
    raise Error(f"op must be a name such as 'my_lib::attention' or a torch op, not {op!r}")
