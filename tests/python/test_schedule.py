"""A schedule of torch.profiler decides which steps are collected, and on_ready gets each window of them."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerAction, record_function

from headscope import AttentionProfiler, Error
from helpers.memory import allocated_bytes
from test_layers import hook_counts
from tiny_models import FusedAttention, Tower

NONE, WARMUP, RECORD, SAVE = (
    ProfilerAction.NONE,
    ProfilerAction.WARMUP,
    ProfilerAction.RECORD,
    ProfilerAction.RECORD_AND_SAVE,
)


def torch_schedule(**settings: int) -> Callable[[int], ProfilerAction]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice to warm up
        return torch.profiler.schedule(**settings)


def steps_in(profiler: AttentionProfiler) -> list[int]:
    """The steps of which calls are shown: step i attends over i + 1 keys."""
    return [call["kv_len"] - 1 for call in profiler.get_stats()["calls"]]


def scheduled(schedule: Any, windows: list[list[int]] | None = None, **options: Any) -> AttentionProfiler:
    """A profiler whose on_ready appends the window's steps to `windows`."""
    on_ready = None if windows is None else lambda profiler: windows.append(steps_in(profiler))
    return AttentionProfiler(schedule=schedule, on_ready=on_ready, keep_calls=100, **options)


def of_torch(schedule: Any, windows: list[list[int]]) -> torch.profiler.profile:
    def ready(profile: torch.profiler.profile) -> None:
        names = [event.name for event in profile.events()]
        windows.append([int(name.split()[1]) for name in names if name.startswith("work ")])

    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=ready
    )


@pytest.fixture
def loop(attend):
    def run(profiler: Any, steps: int, *, last_ends: bool = True, first: int = 0) -> None:
        for step in range(first, first + steps):
            with record_function(f"work {step}"):
                attend(length=step + 1)
            if last_ends or step < first + steps - 1:
                profiler.step()

    return run


CYCLES = [
    dict(zip(("wait", "warmup", "active", "repeat", "skip_first"), values, strict=True))
    for values in itertools.product((0, 1, 2), (0, 1), (1, 3), (0, 1, 2), (0, 3))
]


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")
@pytest.mark.parametrize("settings", CYCLES, ids=lambda settings: "-".join(map(str, settings.values())))
def test_windows_are_those_of_torch_profiler(settings, loop):
    schedule = torch_schedule(**settings)
    for steps, last_ends in ((7, True), (10, False)):
        ours: list[list[int]] = []
        theirs: list[list[int]] = []
        with scheduled(schedule, ours) as profiler:
            loop(profiler, steps, last_ends=last_ends)
        with of_torch(schedule, theirs) as profile:
            loop(profile, steps, last_ends=last_ends)

        recorded = [step for step in range(steps) if schedule(step) in (RECORD, SAVE)]
        assert list(itertools.chain(*ours)) == recorded
        # torch also delivers a window that the end of the loop left empty; we have nothing to say of it.
        assert ours == [window for window in theirs if window]


def test_on_ready_sees_the_window_alone_while_nothing_is_collected(attend, loop):
    seen = []

    def ready(profiler):
        attend(length=50)
        stats = profiler.get_stats()
        seen.append((steps_in(profiler), stats.time["steps"], profiler.running, hook_counts(model)))

    model = Tower(FusedAttention())
    profiler = AttentionProfiler(
        model, schedule=torch_schedule(wait=0, warmup=0, active=2), on_ready=ready, keep_calls=100
    )
    with profiler:
        loop(profiler, 4)

    assert seen == [([0, 1], 2, True, 0), ([2, 3], 2, True, 0)]


def test_hooks_are_on_the_model_in_warmup_and_recorded_steps_only(loop):
    model = Tower(FusedAttention())
    profiler = AttentionProfiler(model, schedule=torch_schedule(wait=2, warmup=1, active=1, repeat=1))
    counts = []
    with profiler:
        for _ in range(6):
            counts.append(hook_counts(model))
            profiler.step()

    # Two name the layer; where transformers is loaded a third looks for caches.
    on = counts[2]
    assert on in (2, 3)
    assert counts == [0, 0, on, on, 0, 0]
    assert hook_counts(model) == 0


def test_layers_are_named_inside_a_window():
    model = Tower(FusedAttention(), FusedAttention())
    with AttentionProfiler(model, schedule=torch_schedule(wait=1, warmup=1, active=1)) as profiler:
        for _ in range(3):
            model(torch.randn(1, 8, 32)).sum().backward()
            profiler.step()

    rows = profiler.get_stats().rows()
    assert {(row["layer"], row["direction"], row["calls"]) for row in rows} == {
        (layer, direction, 1) for layer in ("blocks.0", "blocks.1") for direction in ("forward", "backward")
    }


def test_warmup_is_never_shown(loop):
    profiler = scheduled(torch_schedule(wait=0, warmup=2, active=1))
    shown = []
    with profiler:
        for step in range(6):
            loop(profiler, 1, last_ends=False, first=step)
            shown.append(steps_in(profiler))
            profiler.step()
        loop(profiler, 1, last_ends=False, first=6)

    assert shown == [[], [], [2], [2], [2], [5]]
    assert steps_in(profiler) == [5]


def test_time_outside_the_windows_does_not_count(loop):
    with scheduled(torch_schedule(wait=1, warmup=0, active=1)) as profiler:
        wall = [profiler.get_stats().time["wall_ns"]]
        loop(profiler, 2)
        wall.append(profiler.get_stats().time["wall_ns"])
        attention = profiler.get_stats().time["attention_ns"]
        threading.Event().wait(0.2)
        wall.append(profiler.get_stats().time["wall_ns"])

    assert wall[0] == 0
    assert attention <= wall[1] == wall[2] < 200_000_000


def test_without_a_schedule_on_ready_is_called_at_each_stop(loop):
    windows: list[list[int]] = []
    profiler = scheduled(None, windows)
    with profiler:
        loop(profiler, 2)
        assert windows == []
    profiler.stop()
    with profiler:
        loop(profiler, 1, first=2)

    assert windows == [[0, 1], [0, 1, 2]]


def test_stop_in_a_window_delivers_it_from_a_stopped_profiler(loop):
    running = []
    profiler = AttentionProfiler(schedule=lambda step: RECORD, on_ready=lambda prof: running.append(prof.running))
    with profiler:
        loop(profiler, 1)

    assert running == [False]


def test_window_in_which_nothing_happened_is_not_delivered_and_hides_nothing(loop):
    windows: list[list[int]] = []
    profiler = scheduled(torch_schedule(wait=0, warmup=0, active=2), windows)
    with profiler:
        loop(profiler, 2)

    assert windows == [[0, 1]]
    assert steps_in(profiler) == [0, 1]


def test_window_without_attention_is_delivered():
    windows: list[list[int]] = []
    with scheduled(torch_schedule(wait=0, warmup=0, active=1, repeat=1), windows) as profiler:
        profiler.step()

    assert windows == [[]]


def test_schedule_goes_on_after_a_stop_and_a_started_window_is_a_new_one(loop):
    windows: list[list[int]] = []
    profiler = scheduled(torch_schedule(wait=1, warmup=0, active=3, repeat=1), windows)
    with profiler:
        loop(profiler, 2)
    with profiler:
        loop(profiler, 3, first=2)

    assert windows == [[1], [2, 3]]


def test_numbers_of_unnamed_layers_start_again_in_each_step_of_a_window(attend):
    with scheduled(torch_schedule(wait=1, warmup=1, active=2)) as profiler:
        for _ in range(4):
            attend()
            attend(length=8)
            profiler.step()

    rows = profiler.get_stats().rows()
    assert [(row["layer"], row["calls"]) for row in rows] == [("attention[0]", 2), ("attention[1]", 2)]


def test_steps_have_the_numbers_of_the_schedule(loop):
    numbers = []
    profiler = AttentionProfiler(
        schedule=torch_schedule(wait=1, warmup=1, active=2, skip_first=1),
        on_ready=lambda prof: numbers.append([call["step"] for call in prof.get_stats()["calls"]]),
        keep_calls=10,
    )
    with profiler:
        loop(profiler, 9)

    assert numbers == [[3, 4], [7, 8]]


@pytest.mark.parametrize("pause", [0, 1, 2, 3, 5])
def test_paused_step_is_left_out_whatever_its_state(pause, loop):
    windows: list[list[int]] = []
    with scheduled(torch_schedule(wait=1, warmup=1, active=2), windows) as profiler:
        for step in range(8):
            if step == pause:
                with profiler.paused():
                    loop(profiler, 1, last_ends=False, first=step)
                profiler.step()
            else:
                loop(profiler, 1, first=step)

    assert windows == [[step for step in window if step != pause] for window in ([2, 3], [6, 7])]


def test_pause_over_several_steps_nests_with_those_of_the_schedule(loop):
    windows: list[list[int]] = []
    with scheduled(torch_schedule(wait=1, warmup=0, active=2), windows) as profiler:
        loop(profiler, 1)
        with profiler.paused():
            loop(profiler, 3, first=1)
        loop(profiler, 2, first=4)

    assert windows == [[], [4, 5]]


def test_pause_that_outlives_a_stop_resumes_nothing_of_the_next_start(loop):
    profiler = scheduled(torch_schedule(wait=1, warmup=0, active=1))
    profiler.start()
    with profiler.paused():
        profiler.stop()
        profiler.start()
    loop(profiler, 1)
    profiler.stop()

    assert steps_in(profiler) == []


def test_exception_of_on_ready_reaches_the_caller_of_step_and_the_schedule_goes_on(loop):
    failure = KeyError("on_ready's own")
    fail = [True, False]
    windows = []

    def ready(profiler):
        if fail.pop(0):
            raise failure
        windows.append(steps_in(profiler))

    profiler = AttentionProfiler(schedule=torch_schedule(wait=1, warmup=0, active=1), on_ready=ready, keep_calls=10)
    with profiler:
        loop(profiler, 2, last_ends=False)
        with pytest.raises(KeyError) as caught:
            profiler.step()
        assert caught.value is failure
        loop(profiler, 2, first=2)

    assert windows == [[3]]


def test_exception_of_on_ready_reaches_the_caller_of_exit_and_stop(attend):
    def ready(profiler):
        raise KeyError("on_ready's own")

    profiler = AttentionProfiler(on_ready=ready)
    with pytest.raises(KeyError), profiler:
        attend()
    profiler.start()
    attend()
    with pytest.raises(KeyError):
        profiler.stop()

    assert not profiler.running
    assert profiler.get_stats().total["calls"] == 2


def test_exception_of_the_program_outranks_that_of_on_ready(attend):
    failure = ZeroDivisionError("the program's own")

    def ready(profiler):
        raise KeyError("on_ready's own")

    def work():
        with AttentionProfiler(on_ready=ready):
            attend()
            raise failure

    with pytest.warns(RuntimeWarning, match="on_ready's own"), pytest.raises(ZeroDivisionError) as caught:
        work()
    assert caught.value is failure


def test_exception_through_the_scope_delivers_the_open_window(loop):
    windows: list[list[int]] = []
    profiler = scheduled(torch_schedule(wait=1, warmup=0, active=3), windows)

    def work():
        with profiler:
            loop(profiler, 3)
            raise NotImplementedError

    with pytest.raises(NotImplementedError):
        work()
    assert windows == [[1, 2]]


def test_exception_of_the_schedule_changes_nothing(loop):
    def schedule(step):
        if step == 2 and fail.pop():
            raise LookupError
        return SAVE if step == 2 else RECORD

    fail = [False, True]
    windows: list[list[int]] = []
    with scheduled(schedule, windows) as profiler:
        loop(profiler, 2, last_ends=False)
        with pytest.raises(LookupError):
            profiler.step()
        profiler.step()
        loop(profiler, 1, first=2)

    assert windows == [[0, 1, 2]]


@pytest.mark.parametrize("way", ["stop", "restart", "step", "reset"])
def test_on_ready_may_control_its_profiler(way, loop):
    windows = []

    def ready(profiler):
        windows.append(steps_in(profiler))
        if way in ("stop", "restart"):
            profiler.stop()
        if way == "restart":
            profiler.start()
        if way == "step":
            profiler.step()
        if way == "reset":
            profiler.reset()

    profiler = AttentionProfiler(schedule=torch_schedule(wait=1, warmup=0, active=1), on_ready=ready, keep_calls=9)
    profiler.start()
    loop(profiler, 2)
    if way == "stop":
        assert not profiler.running
        return
    # A step that on_ready itself takes moves the schedule on by one, to the next recorded step.
    assert steps_in(profiler) == ([] if way in ("reset", "step") else [1])
    loop(profiler, 2, first=2)
    profiler.stop()

    assert windows == ([[1], [2], [3]] if way == "step" else [[1], [3]])


def test_nested_profilers_follow_their_own_schedules(loop, attend):
    first: list[list[int]] = []
    second: list[list[int]] = []
    everything = scheduled(None)
    one = scheduled(torch_schedule(wait=1, warmup=0, active=1), first)
    other = scheduled(torch_schedule(wait=0, warmup=1, active=2), second)
    with everything, one, other:
        for step in range(6):
            attend(length=step + 1)
            for profiler in (one, other, everything):
                profiler.step()

    assert first == [[1], [3], [5]]
    assert second == [[1, 2], [4, 5]]
    assert steps_in(everything) == [0, 1, 2, 3, 4, 5]


def test_scopes_entered_twice_follow_one_schedule(loop):
    windows: list[list[int]] = []
    profiler = scheduled(torch_schedule(wait=1, warmup=0, active=2), windows)
    with profiler:
        with profiler:
            loop(profiler, 2)
        loop(profiler, 1, first=2)

    assert windows == [[1, 2]]


def test_reset_forgets_the_window_and_the_schedule_goes_on(loop):
    windows: list[list[int]] = []
    with scheduled(torch_schedule(wait=1, warmup=0, active=2), windows) as profiler:
        loop(profiler, 2)
        profiler.reset()
        assert steps_in(profiler) == []
        loop(profiler, 1, first=2)
        profiler.reset()
        assert steps_in(profiler) == []

    assert windows == [[2]]


def test_window_that_is_not_saved_is_warned_of_and_not_delivered(loop):
    windows: list[list[int]] = []
    actions = [RECORD, NONE, RECORD, WARMUP, SAVE, NONE]
    with scheduled(lambda step: actions[step], windows) as profiler, pytest.warns(UserWarning, match="SAVE") as caught:
        loop(profiler, 5)

    assert len(caught) == 2
    assert windows == [[4]]


def test_step_on_a_stopped_profiler_with_a_schedule_is_refused():
    with pytest.raises(Error, match="start"):
        scheduled(torch_schedule(wait=1, warmup=0, active=1)).step()


@pytest.mark.parametrize(
    "wrong", [3, "every 100", {"wait": 1}, (1, 1, 1), lambda step: True, lambda step: None, torch.profiler.schedule]
)
def test_wrong_schedule_names_the_remedy(wrong):
    with pytest.raises(Error, match=r"schedule\(wait=…, warmup=…, active=…\)"):
        AttentionProfiler(schedule=wrong)


def test_wrong_action_of_a_later_step_names_the_step(loop):
    with scheduled(lambda step: RECORD if step < 2 else "stop") as profiler:
        loop(profiler, 1)
        with pytest.raises(Error, match="'stop' for step 2"):
            profiler.step()


def test_on_ready_must_be_a_function():
    with pytest.raises(Error, match="on_ready"):
        AttentionProfiler(on_ready="report.json")


def test_windows_lose_no_call_of_other_threads_and_count_none_twice(attend):
    """Each call is in one window at most: all windows together hold no more than was run."""
    stop = threading.Event()
    done = [0, 0]
    seen = []

    def work(slot):
        while not stop.is_set():
            attend(length=4)
            done[slot] += 1

    profiler = AttentionProfiler(
        schedule=torch_schedule(wait=0, warmup=0, active=1),
        on_ready=lambda prof: seen.append(prof.get_stats().total["calls"]),
    )
    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(2)]
    with profiler:
        for thread in threads:
            thread.start()
        for _ in range(50):
            attend(length=4)
            profiler.step()
        stop.set()
        for thread in threads:
            thread.join()

    assert all(calls >= 1 for calls in seen)
    assert len(seen) in (50, 51)
    assert 50 <= sum(seen) <= sum(done) + 50


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("schedule", [None, torch_schedule(wait=7, warmup=1, active=2)], ids=["all", "scheduled"])
@pytest.mark.usefixtures("one_thread")
def test_ten_thousand_steps_keep_memory_and_report_flat(schedule):
    model = Tower(FusedAttention(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(1, 4, 8)
    sizes, allocated = [], []
    with AttentionProfiler(model, schedule=schedule) as profiler:
        # 512 steps fill what is bounded by a number of steps.
        for steps in (2_000, 8_000):
            for _ in range(steps):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                profiler.step()
            sizes.append(len(profiler.get_stats().to_json()))
            allocated.append(allocated_bytes())

    # 8,000 steps of 130 bytes would be more.
    assert allocated[1] - allocated[0] < 1 << 20
    # Figures grow by digits; no list grows.
    assert sizes[1] < 1.1 * sizes[0]
