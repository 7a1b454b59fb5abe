from collections.abc import Callable, Sequence
from typing import Any, Literal

MAX_RUNNING: int

def follow_torch_profiler() -> None: ...
def torch_profiler_starts() -> None: ...
def torch_profiler_is_awaited() -> bool: ...
def torch_profiler_ended(events: list[tuple[str, str, int, int, int, int, int, int]]) -> list[dict[str, Any]]: ...

SCHEMA_VERSION: int

class Error(RuntimeError):
    """Wrong use of headscope. The message says what was wrong and what to do instead."""

class Budget:
    """What a model's attention may cost.

    `layer` (a glob: `*`, `?`), `phase` and `direction` select rows; the other keywords limit each selected row, or,
    for `max_total_*` and `max_step_*`, their sum. Sizes are bytes, work is FLOPs, `max_p50_us` microseconds,
    `min_gb_per_s` 10**9 bytes a second. A budget that selects no row, or that meets an unknown figure, is a
    violation unless `allow_missing`. Raises Error for an unknown keyword or a wrong value.
    """

    layer: str | None
    phase: str | None
    direction: str | None
    variant: str | None
    forbid_variants: tuple[str, ...]
    min_gb_per_s: float | None
    max_p50_us: float | None
    max_call_flops: int | None
    max_total_flops: int | None
    max_step_bytes: int | None
    max_peak_bytes: int | None
    max_score_bytes: int | None
    min_samples: int
    allow_missing: bool
    def __init__(
        self,
        *,
        layer: str | None = None,
        phase: str | None = None,
        direction: str | None = None,
        variant: str | None = None,
        forbid_variants: str | list[str] | tuple[str, ...] | None = None,
        min_gb_per_s: float | None = None,
        max_p50_us: float | None = None,
        max_call_flops: float | None = None,
        max_total_flops: float | None = None,
        max_step_bytes: float | None = None,
        max_peak_bytes: float | None = None,
        max_score_bytes: float | None = None,
        min_samples: int | None = None,
        allow_missing: bool | None = None,
    ) -> None: ...
    def __eq__(self, other: object) -> bool: ...

class Violation:
    """One limit that was not kept: the layer, the limit's name, what was asked and what was measured."""

    layer: str
    limit: str
    asked: str
    measured: str
    def __eq__(self, other: object) -> bool: ...

class Stats:
    def to_dict(self) -> dict[str, Any]: ...
    def to_json(self, indent: int = 2) -> str: ...
    def to_text(self, *, width: int = 120, heads_of: str = "", max_rows: int = 40) -> str: ...
    def check(self, budget: Budget) -> list[Violation]: ...

class Profiler:
    id: int
    running: bool
    def __init__(
        self,
        *,
        memory: str = "calls",
        eager: str = "basic",
        device_timing: str = "auto",
        threads: str = "all",
        per_head: bool = True,
        decode_max_q: int = 1,
        mask_count_budget: int = ...,
        patterns: int | None = None,
        tolerance: float | None = None,
        pattern_rows: int = 64,
        pattern_budget: int = ...,
        keep_calls: int = 0,
        start_now: bool = True,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def step(self) -> None: ...
    def reset(self, step_number: int = 0) -> None: ...
    def name_by_order(self, layers: list[int]) -> None: ...
    def get_stats(self) -> Stats: ...
    def take_window(self) -> Stats: ...
    def add_stage(self, stage: str, time_ns: int) -> None: ...

class KvCacheGauge:
    def __init__(self, name: str, profiler: int = 0) -> None: ...
    def set(self, uses: list[dict[str, Any]]) -> None: ...

class KvCacheTracker:
    """Keeps the books of a paged cache for a server that tells it what it does.

    A block belongs to one sequence unless share() says otherwise; all layers use the same blocks. Shown in the Stats
    of each profiler while it lives, and after that with its last figures. Thread-safe. Wrong use raises Error and
    changes nothing.
    """

    def __init__(
        self,
        *,
        blocks: int,
        name: str = "kv_cache",
        layers: int = 1,
        kv_heads: int = 1,
        head_dim: int = 1,
        head_dim_v: int = 0,
        element_size: float = 2.0,
        block_size: int = 16,
    ) -> None: ...
    def add_sequence(self) -> int:
        """A sequence without blocks; returns its number."""
    def give_blocks(self, sequence: int, blocks: Sequence[int]) -> None:
        """Blocks for what the sequence will write next. Raises Error for one out of range or in use."""
    def append(self, sequence: int, tokens: int = 1) -> None:
        """Writes the next slots. Raises Error where the blocks do not suffice, or one to be written is shared."""
    def share(self, sequence: int, tokens: int) -> int:
        """A sequence that begins with the first tokens of another one, in the same blocks (a prefix, a beam)."""
    def replace_block(self, sequence: int, index: int, block: int) -> None:
        """Copy on write: puts `block` in the place of block number `index` of the sequence."""
    def truncate(self, sequence: int, tokens: int) -> None:
        """Takes back the last tokens (rejected drafts), down to a length of `tokens`."""
    def free_sequence(self, sequence: int) -> None:
        """Blocks that no other sequence holds become free."""
    def length(self, sequence: int) -> int:
        """Tokens of the sequence."""

def intern_layer(
    name: str,
    index: int | None = None,
    heads: int | None = None,
    model_kv_heads: int | None = None,
    cross: bool = False,
) -> int: ...
def push_layer(layer: int) -> None: ...
def pop_layer() -> None: ...
def register_attention_op(
    *,
    op: str,
    variant: str,
    layout: Literal["bhsd", "bshd", "thd", "hsd"] = "bhsd",
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
    backward: bool = False,
) -> None: ...
def read_trace(
    path: str,
    *,
    per_head: bool = True,
    decode_max_q: int = 1,
    keep_calls: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Stats: ...
def capabilities() -> list[dict[str, Any]]: ...
def metrics() -> list[dict[str, str]]: ...
