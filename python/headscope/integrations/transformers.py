"""transformers: a callback that profiles the attention of `Trainer.train()`."""

from __future__ import annotations

import os
from typing import Any

from headscope.integrations.training_run import TrainingRun
from headscope.profiler import AttentionProfiler
from headscope.schedule import Schedule
from headscope.stats import Stats

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as missing:
    if missing.name != "transformers":
        raise
    raise ImportError("AttentionProfilerCallback needs transformers: pip install 'transformers[torch]'") from missing


class AttentionProfilerCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]  # Any where it has no types
    """Profiles the attention of each `train()`; evaluation in between is left out.

        Trainer(model, args, callbacks=[AttentionProfilerCallback(output="attention.json")], …).train()

    profiler: your own, to keep it when training ends; else one is made of `schedule` and the other options, which are
        those of AttentionProfiler, with the trainer's model, so that layers have names.
    output: where the JSON report is written when training ends, by the first process alone.

    A step is an optimizer step, however many batches are accumulated in it. What `Trainer` logs gains
    `attention_share`, `attention_peak_bytes` and `attention_tflop_per_s`. A failure here never ends training: it is
    logged as a warning when training ends. Raises Error for wrong options.
    """

    def __init__(
        self,
        profiler: AttentionProfiler | None = None,
        *,
        schedule: Schedule | None = None,
        output: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if schedule is not None:
            options["schedule"] = schedule
        self._run = TrainingRun(profiler, options, output)

    @property
    def stats(self) -> Stats | None:
        """The figures so far, or of the last `train()`; None before the first."""
        return self._run.stats

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._run.begin(model)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.leave_out(False)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.leave_out(False)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.step()
        self._run.leave_out(control.should_evaluate)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.leave_out(control.should_evaluate)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.leave_out(False)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        figures = self._run.figures()
        # The trainer has copied the logs into its history, which it saves, before it calls us.
        for entry in (logs, state.log_history[-1] if state.log_history else None):
            if entry is not None:
                entry.update(figures)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.end(write=state.is_world_process_zero)
