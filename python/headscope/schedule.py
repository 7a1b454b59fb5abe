"""Which steps are collected: a schedule of torch.profiler, and the windows that it makes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerAction

from headscope._native import Error, core

Schedule = Callable[[int], ProfilerAction]

_COLLECTED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_KNOWN = (ProfilerAction.NONE, ProfilerAction.WARMUP, *_COLLECTED)
_REMEDY = "pass what torch.profiler.schedule(wait=…, warmup=…, active=…) returns"


class Windows:
    """Starts and ends windows of collected steps in a core profiler, as a schedule asks.

    NONE: nothing is observed. WARMUP: observed, and never shown. RECORD, RECORD_AND_SAVE: a window, which begins empty.

    Knows nothing of threads: the owner holds a lock around each call. `observe(True)` and `observe(False)` attach and
    detach the owner's module hooks, so that a step without observation costs nothing.
    """

    def __init__(self, schedule: Schedule, profiler: core.Profiler, observe: Callable[[bool], None]) -> None:
        _refuse_other(schedule)
        self._schedule = schedule
        self._core = profiler
        self._observe = observe
        self._step = 0
        self._action = self._action_of(0)
        self._observing = False
        self._recording = False
        self._steps_ended = 0
        self._delivering = False
        #: What there is to see while no window is open: the last one's figures.
        self._shown = profiler.get_stats()

    def start(self) -> None:
        """Starts the core, at the step that `stop` left. A window that stop() ended is not continued."""
        self._core.start()
        self._observing = self._recording = False
        # A pause of its own, so that those of the program nest with it.
        self._core.pause()
        self._enter()

    def step(self) -> bool:
        """Ends a step. True when a window has ended: then it is for the owner to deliver it and to call `go_on`."""
        if not self._core.running:
            raise Error("step() on a stopped profiler; call start() first, or step() inside its scope")
        # Asked first, so that an exception of the schedule changes nothing.
        following = self._action_of(self._step + 1)
        ended, self._action = self._action, following
        self._step += 1
        if self._delivering:
            return False
        if self._observing:
            self._core.step()
        if self._recording:
            self._steps_ended += 1
            if ended is ProfilerAction.RECORD_AND_SAVE:
                self._close()
                self._delivering = True
                return True
            if following not in _COLLECTED:
                _warn_of_lost_window(following)
                self._close()
        self._enter()
        return False

    def go_on(self) -> None:
        """Ends the pause in which a window is delivered."""
        self._delivering = False
        if self._core.running:
            self._enter()

    def stop(self) -> bool:
        """Stops the core; the owner detaches its hooks. True when that ended a window that saw something."""
        self._core.stop()
        recorded = self._recording
        self._observing = self._recording = False
        if not recorded:
            return False
        figures = self._core.get_stats()
        if self._steps_ended == 0 and figures.to_dict()["total"]["calls"] == 0:
            return False
        self._shown = figures
        return True

    def reset(self) -> None:
        """Forgets what was collected; the schedule goes on where it is."""
        self._core.pause()
        self._clear()
        self._shown = self._core.get_stats()
        self._core.resume()

    def snapshot(self) -> core.Stats:
        """The open window's figures so far, else those of the last window."""
        return self._core.get_stats() if self._recording else self._shown

    def _enter(self) -> None:
        """Makes the current step what the schedule says."""
        if self._delivering:
            return
        if self._action is ProfilerAction.NONE:
            self._leave()
            return
        if not self._observing:
            self._observe(True)
        if self._action in _COLLECTED and not self._recording:
            self._clear()
            self._recording = True
            self._steps_ended = 0
        if not self._observing:
            self._observing = True
            self._core.resume()

    def _leave(self) -> None:
        if self._observing:
            self._core.pause()
            self._observing = False
            self._observe(False)

    def _close(self) -> None:
        self._leave()
        self._shown = self._core.get_stats()
        self._recording = False

    def _clear(self) -> None:
        self._core.reset(self._step)

    def _action_of(self, step: int) -> ProfilerAction:
        action = self._schedule(step)
        if action not in _KNOWN:
            raise Error(
                f"the schedule says {action!r} for step {step}, which is none of ProfilerAction.NONE, WARMUP, RECORD "
                f"and RECORD_AND_SAVE: {_REMEDY}"
            )
        return action


def _refuse_other(schedule: Any) -> None:
    if schedule is torch.profiler.schedule:
        raise Error("schedule is torch.profiler.schedule itself: call it, schedule(wait=…, warmup=…, active=…)")
    if not callable(schedule):
        raise Error(
            f"schedule must be a function from a step's number to a ProfilerAction, not {schedule!r}: {_REMEDY}"
        )


def _warn_of_lost_window(following: ProfilerAction) -> None:
    warnings.warn(
        f"the schedule says RECORD and then {following.name}: the window ends without on_ready. The last step of a "
        "window must be RECORD_AND_SAVE",
        stacklevel=4,
    )
