"""What a profiler sees, and that it stays sound whatever its scope goes through."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import torch

from headscope import AttentionProfiler, Error, layer


def calls(profiler: AttentionProfiler) -> int:
    return profiler.get_stats().total["calls"]


def test_stats_before_any_call_are_empty_and_unknown_figures_are_none():
    profiler = AttentionProfiler()

    stats = profiler.get_stats()

    assert stats.total["calls"] == 0
    assert stats["attention_breakdown"] == []
    assert stats.total["time_ns"] is None
    assert "0" in str(stats)


def test_with_block_counts_the_calls_inside_and_none_outside(attend):
    attend()
    with AttentionProfiler() as profiler:
        attend()
        attend()
    attend()

    assert calls(profiler) == 2


def test_stats_are_readable_while_running(attend):
    with AttentionProfiler() as profiler:
        attend()
        assert calls(profiler) == 1
        attend()
        assert calls(profiler) == 2


def test_snapshot_does_not_change_when_the_profiler_goes_on(attend):
    with AttentionProfiler() as profiler:
        attend()
        before = profiler.get_stats()
        attend()

    assert before.total["calls"] == 1


def test_backward_is_a_row_of_its_own(attend):
    with AttentionProfiler() as profiler:
        attend(grad=True).sum().backward()

    assert [row["calls"] for row in profiler.get_stats().rows(direction="backward")] == [1]


def test_entering_a_stopped_profiler_again_continues_it(attend):
    profiler = AttentionProfiler()
    with profiler:
        attend()
    with profiler:
        attend()

    assert calls(profiler) == 2


def test_reset_forgets_and_keeps_running(attend):
    with AttentionProfiler() as profiler:
        attend()
        profiler.reset()
        assert profiler.running
        attend()

    assert calls(profiler) == 1


def test_same_profiler_entered_twice_runs_until_the_outer_exit(attend):
    profiler = AttentionProfiler()
    with profiler:
        with profiler:
            attend()
        attend()
    attend()

    assert calls(profiler) == 2


def test_nested_profilers_each_see_their_own_scope(attend):
    with AttentionProfiler() as outer:
        attend()
        with AttentionProfiler() as inner:
            attend()
        attend()

    assert (calls(outer), calls(inner)) == (3, 1)


def test_overlapping_profilers_may_end_in_any_order(attend):
    first, second = AttentionProfiler(), AttentionProfiler()
    first.start()
    attend()
    second.start()
    attend()
    first.stop()
    attend()
    second.stop()

    assert (calls(first), calls(second)) == (2, 2)


def test_a_seventeenth_running_profiler_is_refused_and_the_others_go_on(attend):
    running = [AttentionProfiler() for _ in range(16)]
    for profiler in running:
        profiler.start()
    try:
        with pytest.raises(Error):
            AttentionProfiler().start()
        attend()
    finally:
        for profiler in running:
            profiler.stop()

    assert [calls(profiler) for profiler in running] == [1] * 16


def test_exception_passes_through_unchanged_and_data_stay_readable(attend):
    profiler = AttentionProfiler()
    failure = KeyError("the program's own")

    def work() -> None:
        with profiler:
            attend()
            raise failure

    with pytest.raises(KeyError) as caught:
        work()

    assert caught.value is failure
    assert not profiler.running
    assert calls(profiler) == 1


def test_exception_of_the_op_itself_is_counted_as_failed_and_in_no_row(attend):
    query = torch.randn(1, 2, 4, 8)
    with AttentionProfiler() as profiler:
        with pytest.raises(RuntimeError):
            torch.nn.functional.scaled_dot_product_attention(query, torch.randn(1, 2, 4, 9), query)
        attend()

    assert calls(profiler) == 1
    assert profiler.get_stats().diagnostics["hook_errors"] == 0


def test_stop_twice_and_without_start_has_no_effect(attend):
    profiler = AttentionProfiler()
    profiler.stop()
    profiler.start()
    attend()
    profiler.stop()
    profiler.stop()

    assert calls(profiler) == 1


def test_start_twice_needs_one_stop(attend):
    profiler = AttentionProfiler()
    profiler.start()
    profiler.start()
    profiler.stop()
    attend()

    assert calls(profiler) == 0


def test_with_block_inside_start_and_stop_does_not_stop(attend):
    profiler = AttentionProfiler()
    profiler.start()
    with profiler:
        attend()
    attend()
    profiler.stop()

    assert calls(profiler) == 2


def test_stop_inside_the_block_ends_it(attend):
    with AttentionProfiler() as profiler:
        attend()
        profiler.stop()
        attend()

    assert calls(profiler) == 1


def test_paused_leaves_calls_out_and_nests(attend):
    with AttentionProfiler() as profiler:
        attend()
        with profiler.paused():
            attend()
            with profiler.paused():
                attend()
            attend()
        attend()

    assert calls(profiler) == 2


def test_paused_resumes_after_an_exception(attend):
    with AttentionProfiler() as profiler:
        with pytest.raises(NotImplementedError), profiler.paused():
            raise NotImplementedError
        attend()

    assert calls(profiler) == 1


def test_decorated_function_keeps_its_name_and_is_profiled_at_each_call(attend):
    profiler = AttentionProfiler()

    @profiler
    def work(scale: int) -> int:
        """Does the work."""
        attend()
        return 2 * scale

    assert work(3) == 6
    assert work(scale=4) == 8
    attend()
    assert (work.__name__, work.__doc__) == ("work", "Does the work.")
    assert calls(profiler) == 2


def test_decorated_coroutine_function_is_profiled_while_it_runs(attend):
    profiler = AttentionProfiler()

    @profiler
    async def work() -> int:
        await asyncio.sleep(0)
        attend()
        return 7

    assert asyncio.run(work()) == 7
    assert calls(profiler) == 1


def test_decorating_a_generator_function_names_the_remedy():
    with pytest.raises(Error, match="with prof"):

        @AttentionProfiler()
        def work():
            yield 1


def test_all_threads_are_seen_by_default(attend):
    with AttentionProfiler() as profiler:
        threads = [threading.Thread(target=lambda: [attend() for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert calls(profiler) == 80


def test_threads_current_leaves_other_threads_out(attend):
    with AttentionProfiler(threads="current") as profiler:
        thread = threading.Thread(target=attend)
        thread.start()
        thread.join()
        attend()

    assert calls(profiler) == 1


def test_threads_current_sees_the_backward_that_it_starts(attend):
    with AttentionProfiler(threads="current") as profiler:
        attend(grad=True).sum().backward()

    assert len(profiler.get_stats().rows(direction="backward")) == 1


def test_stats_taken_while_threads_attend_lose_no_call(attend):
    stop = threading.Event()
    counts = [0, 0]

    def work(slot: int) -> None:
        while not stop.is_set():
            attend(length=4)
            counts[slot] += 1

    with AttentionProfiler(memory="off") as profiler:
        threads = [threading.Thread(target=work, args=(slot,)) for slot in range(2)]
        for thread in threads:
            thread.start()
        seen = []
        for _ in range(30):
            seen.append(calls(profiler))
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()

    assert seen == sorted(seen)
    assert calls(profiler) == sum(counts)


def test_profilers_of_concurrent_threads_each_see_only_their_thread(attend):
    results = {}
    barrier = threading.Barrier(4)

    def work(count: int) -> None:
        barrier.wait()
        with AttentionProfiler(threads="current") as profiler:
            for _ in range(count):
                attend()
        results[count] = calls(profiler)

    threads = [threading.Thread(target=work, args=(count,)) for count in (1, 5, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {1: 1, 5: 5, 10: 10, 20: 20}


def test_step_restarts_the_numbers_of_unnamed_layers(attend):
    with AttentionProfiler() as profiler:
        for _ in range(3):
            attend()
            attend(length=8)
            profiler.step()

    stats = profiler.get_stats()
    assert [(row["layer"], row["calls"]) for row in stats.rows()] == [("attention[0]", 3), ("attention[1]", 3)]
    assert stats.time["steps"] == 3


def test_innermost_layer_name_wins(attend):
    with AttentionProfiler() as profiler, layer("decoder"):
        attend()
        with layer("decoder.3"):
            attend()

    stats = profiler.get_stats()
    assert len(stats.layer("decoder")) == 1
    assert len(stats.layer("decoder.3")) == 1


def test_layer_name_ends_with_an_exception(attend):
    with AttentionProfiler() as profiler:
        with pytest.raises(NotImplementedError), layer("broken"):
            raise NotImplementedError
        attend()

    assert [row["layer"] for row in profiler.get_stats().rows()] == ["attention[0]"]


def test_profiling_does_not_change_results(attend):
    torch.manual_seed(1)
    plain = attend(grad=True)
    torch.manual_seed(1)
    with AttentionProfiler(eager="detail"):
        profiled = attend(grad=True)

    assert torch.equal(plain, profiled)


def test_runs_while_torch_profiler_is_active(attend):
    with torch.profiler.profile() as theirs, AttentionProfiler() as profiler:
        attend()

    assert calls(profiler) == 1
    assert any("scaled_dot_product" in event.key for event in theirs.key_averages())


def test_torch_profiler_starts_and_stops_inside(attend):
    with AttentionProfiler() as profiler:
        with torch.profiler.profile(profile_memory=True):
            attend()
        attend()

    assert calls(profiler) == 2


FORK = """
import os, torch
torch.set_num_threads(1)
from headscope import AttentionProfiler
def attend():
    q = torch.randn(1, 2, 16, 8)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
parents = AttentionProfiler()
parents.start()
attend()
child = os.fork()
if child == 0:
    own = AttentionProfiler()
    with own:
        attend()
    os._exit(0 if own.get_stats().total["calls"] == 1 else 7)
_, status = os.waitpid(child, 0)
attend()
parents.stop()
print(os.waitstatus_to_exitcode(status), parents.get_stats().total["calls"])
"""


def test_fork_child_starts_clean_and_the_parent_goes_on(run_python):
    done = run_python(FORK)

    assert done.stdout.split() == ["0", "2"], done.stderr


ACTIVE_AT_EXIT = """
import threading, torch
from headscope import AttentionProfiler
profiler = AttentionProfiler()
profiler.start()
def attend():
    q = torch.randn(1, 2, 16, 8)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
thread = threading.Thread(target=attend)
thread.start()
thread.join()
attend()
print(profiler.get_stats().total["calls"])
class Late:
    def __del__(self):
        attend()
late = Late()
"""


def test_interpreter_may_exit_while_a_profiler_is_active(run_python):
    done = run_python(ACTIVE_AT_EXIT)

    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr


def test_profiler_dropped_while_running_frees_its_place(attend):
    for _ in range(40):
        AttentionProfiler().start()
    with AttentionProfiler() as profiler:
        attend()

    assert calls(profiler) == 1
