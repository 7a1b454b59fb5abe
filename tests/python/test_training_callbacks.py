"""The callbacks of training frameworks: what they see, and that training does not notice them."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from headscope import AttentionProfiler, Error
from headscope.integrations.lightning import AttentionProfilerCallback as LightningCallback
from test_layers import hook_counts
from tiny_models import CASES, FusedAttention, Tower

# `gradient_checkpointing` has another name in transformers 5, which 4 does not know.
pytestmark = pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated")

LAYERS = ("model.layers.0.self_attn", "model.layers.1.self_attn")


def calls_by_direction(stats: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in stats.rows():
        counts[row["direction"]] = counts.get(row["direction"], 0) + row["calls"]
    return counts


# transformers


@pytest.fixture
def callback_class() -> Any:
    pytest.importorskip("transformers")
    from headscope.integrations.transformers import AttentionProfilerCallback

    return AttentionProfilerCallback


@pytest.fixture
def train(tmp_path):
    """Trains a tiny Llama for 3 optimizer steps of 2 accumulated batches; returns the trainer and its losses."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def run(*callbacks: Any, **arguments: Any) -> tuple[Any, list[float]]:
        torch.manual_seed(0)
        model = CASES["llama"].build()
        tokens = torch.randint(3, 99, (12, 10))
        losses = []

        class Trainer(transformers.Trainer):
            def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
                loss = super().training_step(*args, **kwargs)
                losses.append(loss.item())
                return loss

        settings = {
            "output_dir": str(tmp_path / "trainer"),
            "max_steps": 3,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "logging_steps": 1,
            "report_to": [],
            "save_strategy": "no",
            "use_cpu": True,
            "disable_tqdm": True,
        }
        data = [{"input_ids": row, "labels": row} for row in tokens]
        trainer = Trainer(
            model,
            transformers.TrainingArguments(**{**settings, **arguments}),
            train_dataset=data,
            eval_dataset=data[:4],
            callbacks=list(callbacks),
        )
        trainer.train()
        return trainer, losses

    return run


@pytest.mark.parametrize("checkpointing", [False, True])
def test_trainer_profiles_each_optimizer_step_and_trains_bit_for_bit_the_same(checkpointing, train, callback_class):
    callback = callback_class()
    plain, plain_losses = train(gradient_checkpointing=checkpointing)
    trainer, losses = train(callback, gradient_checkpointing=checkpointing)

    # 3 steps × 2 batches × 2 layers
    expected = {"forward": 12, "backward": 12} | ({"recompute": 12} if checkpointing else {})
    assert calls_by_direction(callback.stats) == expected
    assert {row["layer"] for row in callback.stats.rows()} == set(LAYERS)
    assert callback.stats.time["steps"] == 3
    assert losses == plain_losses
    assert len(losses) == 6
    for ours, theirs in zip(trainer.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert hook_counts(trainer.model) == hook_counts(plain.model)


def test_trainer_logs_figures_and_writes_the_report(train, callback_class, tmp_path, capsys):
    path = tmp_path / "attention.json"
    callback = callback_class(output=path)
    trainer, _ = train(callback)

    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == 3
    assert all(0 < entry["attention_share"] < 1 for entry in logged)
    assert logged[-1]["attention_peak_bytes"] == callback.stats.total["peak_bytes"] > 0
    assert "attention_share" in capsys.readouterr().out
    assert json.loads(path.read_text())["total"]["calls"] == 24


def test_evaluation_in_between_is_left_out(train, callback_class):
    callback = callback_class()
    train(callback, eval_strategy="steps", eval_steps=1)

    assert calls_by_direction(callback.stats) == {"forward": 12, "backward": 12}


def test_schedule_of_the_callback_counts_optimizer_steps(train, callback_class):
    windows = []
    callback = callback_class(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=1),
        on_ready=lambda profiler: windows.append(calls_by_direction(profiler.get_stats())),
    )
    train(callback)

    assert windows == [{"forward": 4, "backward": 4}]


def test_own_profiler_is_stepped_and_kept(train, callback_class):
    profiler = AttentionProfiler()
    with profiler:
        train(callback_class(profiler))
        assert profiler.running
    train(callback_class(profiler))

    assert not profiler.running
    assert profiler.get_stats().time["steps"] == 6
    assert profiler.get_stats().total["calls"] == 48


def test_each_training_of_one_callback_has_its_own_figures(train, callback_class):
    callback = callback_class()
    assert callback.stats is None
    for _ in range(2):
        train(callback)
        assert callback.stats.time["steps"] == 3


def test_failures_do_not_end_training_and_are_logged_at_its_end(train, callback_class, tmp_path, caplog):
    def broken(profiler: AttentionProfiler) -> None:
        raise KeyError("on_ready's own")

    schedule = torch.profiler.schedule(wait=1, warmup=1, active=1)
    cases = {
        "cannot write": callback_class(output=tmp_path / "no" / "such" / "folder.json"),
        'KeyError: "on_ready\'s own"': callback_class(schedule=schedule, on_ready=broken),
    }
    for words, callback in cases.items():
        caplog.clear()
        with caplog.at_level(logging.WARNING, "headscope"):
            _, losses = train(callback)
        assert len(losses) == 6
        assert [words in record.message for record in caplog.records if record.name == "headscope"] == [True]


def test_training_that_fails_leaves_readable_figures_and_the_next_one_begins_anew(train, callback_class):
    class Interrupted(callback_class):
        def on_substep_end(self, args, state, control, **kwargs):
            if state.global_step == 1:
                raise NotImplementedError

    callback = Interrupted()
    with pytest.raises(NotImplementedError):
        train(callback)
    assert callback.stats.time["steps"] == 1
    train(callback, max_steps=1)
    assert callback.stats.time["steps"] == 1
    assert callback.stats.total["calls"] == 8


def test_missing_transformers_names_the_pip_line(run_python):
    done = run_python("import sys; sys.modules['transformers'] = None; import headscope.integrations.transformers")

    assert "ImportError" in done.stderr
    assert "pip install 'transformers[torch]'" in done.stderr


# Lightning, and loops like it


class Module(nn.Module):
    """What the callback asks of a LightningModule."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Tower(FusedAttention(), FusedAttention())
        self.logged: list[tuple[str, float]] = []

    def log(self, name: str, value: float) -> None:
        self.logged.append((name, value))


class Loop:
    """What the callback asks of a Lightning trainer: accumulates 2 batches a step, validates after each."""

    log_every_n_steps = 2
    is_global_zero = True

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.global_step = 0

    def fit(self, module: Module, batches: int) -> list[float]:
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        losses = []
        self.callback.on_train_start(self, module)
        for index in range(batches):
            x = torch.randn(1, 8, 32)
            loss = module.model(x).square().mean()
            loss.backward()
            losses.append(loss.item())
            if index % 2 == 1:
                optimizer.step()
                optimizer.zero_grad()
                self.global_step += 1
            self.callback.on_train_batch_end(self, module, loss, x, index)
            self.callback.on_validation_start(self, module)
            with torch.no_grad():
                module.model(x)
            self.callback.on_validation_end(self, module)
        self.callback.on_train_end(self, module)
        return losses


def test_lightning_style_loop_is_profiled_step_by_step_without_its_validation(tmp_path):
    path = tmp_path / "attention.json"
    callback = LightningCallback(output=path)
    module = Module()
    Loop(callback).fit(module, 8)

    assert calls_by_direction(callback.stats) == {"forward": 16, "backward": 16}
    assert {row["layer"] for row in callback.stats.rows()} == {"model.blocks.0", "model.blocks.1"}
    assert callback.stats.time["steps"] == 4
    assert json.loads(path.read_text())["total"]["calls"] == 32
    names = ["attention_share", "attention_peak_bytes", "attention_tflop_per_s"]
    assert [name for name, _ in module.logged] == 2 * names
    assert hook_counts(module) == 0


def test_lightning_exception_stops_the_profiler_and_writes_the_report(tmp_path):
    path = tmp_path / "attention.json"
    callback, module = LightningCallback(output=path), Module()
    loop = Loop(callback)
    callback.on_train_start(loop, module)
    module.model(torch.randn(1, 8, 32))
    callback.on_exception(loop, module, KeyError())

    assert json.loads(path.read_text())["total"]["calls"] == 2
    assert hook_counts(module) == 0


def test_only_the_first_process_writes(tmp_path):
    path = tmp_path / "attention.json"
    callback = LightningCallback(output=path)
    loop = Loop(callback)
    loop.is_global_zero = False
    loop.fit(Module(), 2)

    assert not path.exists()
    assert callback.stats.time["steps"] == 1


def test_callback_may_be_copied_and_sent_to_another_process():
    callback = LightningCallback(memory="off")
    for other in (copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))):
        Loop(other).fit(Module(), 2)
        assert other.stats["meta"]["options"]["memory"] == "off"
        assert callback.stats is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"memory": "all"}, "memory"),
        ({"schedule": 3}, "schedule"),
        ({"profiler": "mine"}, "AttentionProfiler"),
        ({"profiler": AttentionProfiler(), "memory": "off"}, "memory"),
        ({"output": 3}, "output"),
    ],
)
def test_wrong_options_are_refused_before_training(arguments, words):
    with pytest.raises(Error, match=words):
        LightningCallback(**arguments)


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_itself_calls_the_callback(package, run_python):
    pytest.importorskip(package)
    done = run_python(LIGHTNING.replace("PACKAGE", package))

    assert done.stdout.splitlines()[-1] == "3 {'forward': 12, 'backward': 12} True True True", done.stderr


LIGHTNING = """
import warnings
import torch
import PACKAGE as pl
from torch import nn
from headscope.integrations.lightning import AttentionProfilerCallback

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads = 4
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)
    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.first, self.second = Attention(), Attention()
        self.losses = []
    def training_step(self, batch, index):
        loss = self.second(self.first(batch)).square().mean()
        self.losses.append(loss.item())
        return loss
    def validation_step(self, batch, index):
        self.second(self.first(batch))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def fit(*callbacks):
    torch.manual_seed(0)
    model, data = Model(), torch.utils.data.DataLoader(torch.randn(12, 8, 32), batch_size=2)
    trainer = pl.Trainer(max_steps=3, accumulate_grad_batches=2, log_every_n_steps=1, val_check_interval=2,
                         accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False, callbacks=list(callbacks))
    trainer.fit(model, data, data)
    return model.losses, trainer

callback = AttentionProfilerCallback()
losses, trainer = fit(callback)
plain, _ = fit()
counts = {}
for row in callback.stats.rows():
    counts[row["direction"]] = counts.get(row["direction"], 0) + row["calls"]
names = {row["layer"] for row in callback.stats.rows()} == {"first", "second"}
share = 0 < float(trainer.callback_metrics["attention_share"]) < 1
print(callback.stats.time["steps"], counts, losses == plain, names, share)
"""
