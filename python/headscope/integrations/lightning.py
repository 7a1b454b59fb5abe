"""Lightning: a callback that profiles the attention of `Trainer.fit()`; of use to any loop that calls its hooks."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from headscope.integrations.training_run import TrainingRun
from headscope.profiler import AttentionProfiler
from headscope.schedule import Schedule
from headscope.stats import Stats


def _callback_base() -> Any:
    """Lightning's Callback, under the name by which the program has imported it, or object."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError as missing:
            if missing.name not in ("lightning", name):
                raise
    return object


if TYPE_CHECKING:
    _Callback = object
else:
    _Callback = _callback_base()


class AttentionProfilerCallback(_Callback):
    """Profiles the attention of each `fit()`; validation in between is left out.

        trainer = lightning.Trainer(callbacks=[AttentionProfilerCallback(output="attention.json")])
        trainer.fit(module, data)

    profiler: your own, to keep it when training ends; else one is made of `schedule` and the other options, which are
        those of AttentionProfiler, with the LightningModule, so that layers have names.
    output: where the JSON report is written when training ends, by the first process alone.

    A step is an optimizer step (`trainer.global_step` moves on), however many batches are accumulated in it. Every
    `log_every_n_steps` steps the module logs `attention_share`, `attention_peak_bytes` and `attention_tflop_per_s`. A
    failure here never ends training: it is logged as a warning when training ends. Raises Error for wrong options.
    """

    def __init__(
        self,
        profiler: AttentionProfiler | None = None,
        *,
        schedule: Schedule | None = None,
        output: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if schedule is not None:
            options["schedule"] = schedule
        self._run = TrainingRun(profiler, options, output)
        self._global_step: int | None = None

    @property
    def stats(self) -> Stats | None:
        """The figures so far, or of the last `fit()`; None before the first."""
        return self._run.stats

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._global_step = getattr(trainer, "global_step", None)
        self._run.begin(pl_module)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any = None, batch: Any = None, batch_idx: int = 0
    ) -> None:
        step = getattr(trainer, "global_step", None)
        if step is not None and step == self._global_step:
            return
        self._global_step = step
        self._run.step()
        every = getattr(trainer, "log_every_n_steps", 0)
        if step is not None and every and step % every == 0:
            for name, value in self._run.figures().items():
                pl_module.log(name, float(value))

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._run.leave_out(True)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._run.leave_out(False)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._run.end(write=getattr(trainer, "is_global_zero", True))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._run.end(write=getattr(trainer, "is_global_zero", True))
