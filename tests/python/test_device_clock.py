"""The device clock where there is no device."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
import torch

import headscope
from headscope import AttentionProfiler


def test_without_a_driver_calls_are_timed_on_the_host_and_the_reason_is_told(attend):
    with AttentionProfiler(device_timing="cupti") as prof:
        attend()

    stats = prof.get_stats()
    assert stats["diagnostics"]["device_timing"]["mode"] == "host"
    assert "driver" in stats["diagnostics"]["device_timing"]["reason"]
    assert stats.total["time_ns"]["total"] > 0


def test_options_of_the_profiler_are_in_its_figures():
    prof = AttentionProfiler(device_timing="cupti")

    assert prof.get_stats()["meta"]["options"]["device_timing"] == "cupti"


def test_capabilities_say_why_there_is_no_device_clock():
    found = {item["name"]: item for item in headscope.capabilities()}

    assert not found["device_clock"]["available"]
    assert "driver" in found["device_clock"]["detail"]


# A libcupti without a device, in processes of their own: it is loaded once in a process.


@pytest.fixture
def run_on_fake_device(run_python, monkeypatch):
    folder = os.environ.get("HEADSCOPE_FAKE_CUPTI_DIR")
    if not folder:
        pytest.skip("HEADSCOPE_FAKE_CUPTI_DIR names no folder with the libraries of tests/support/fake_cupti")
    cupti, cuda = (f"{folder}/libheadscope_fake_{name}.so" for name in ("cupti", "cuda"))
    monkeypatch.setenv("FAKE_CUPTI", cupti)
    monkeypatch.setenv("HEADSCOPE_CUPTI_LIBRARY", cupti)
    monkeypatch.setenv("HEADSCOPE_CUDA_DRIVER_LIBRARY", cuda)

    def run(code: str) -> str:
        helpers = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        done = run_python(helpers + HEAD + textwrap.dedent(code))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


HEAD = """
import torch
from headscope import AttentionProfiler
from helpers.fake_device import attend, cupti, kernels

def times(stats):
    return stats.total["calls"], stats.total["time_ns"] and stats.total["time_ns"]["total"]

def each_time(stats):
    return [call["time_ns"] for call in stats["calls"]]
"""


def test_a_call_is_timed_by_its_kernels(run_on_fake_device):
    run_on_fake_device("""
        with AttentionProfiler(device_timing="cupti") as prof:
            kernels(3)
            attend()
        assert times(prof.get_stats()) == (1, 3000)
        assert prof.get_stats()["diagnostics"]["device_timing"]["mode"] == "cupti"
    """)


def test_torch_profiler_in_between_gets_cupti_and_gives_it_back(run_on_fake_device):
    run_on_fake_device("""
        with AttentionProfiler(device_timing="cupti", keep_calls=20) as prof:
            attend()
            with torch.profiler.profile() as inner:
                attend()
            kernels(2)
            attend()
        names = [event.key for event in inner.key_averages()]
        assert "fake_device::attention" in names
        assert not [name for name in names if "headscope" in name]
        stats = prof.get_stats()
        assert each_time(stats) == [1000, None, 2000], stats["calls"]
    """)


def test_a_profiler_that_starts_inside_torch_profiler_waits_for_its_end(run_on_fake_device):
    run_on_fake_device("""
        prof = AttentionProfiler(device_timing="cupti", keep_calls=20)
        with torch.profiler.profile():
            prof.start()
            attend()
        attend()
        prof.stop()
        assert each_time(prof.get_stats()) == [None, 1000], prof.get_stats()["calls"]
    """)


def test_schedules_of_torch_profiler_pass_by(run_on_fake_device):
    run_on_fake_device("""
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2)
        with AttentionProfiler(device_timing="cupti", keep_calls=20) as prof:
            with torch.profiler.profile(schedule=schedule, acc_events=True) as inner:
                for _ in range(8):
                    attend()
                    inner.step()
            attend()
        stats = prof.get_stats()
        # Two of three steps are torch.profiler's: it needs CUPTI from its warmup on.
        assert [time is None for time in each_time(stats)] == 2 * [False, True, True] + 3 * [False]
    """)


def test_events_of_a_device_that_torch_profiler_recorded_time_the_calls(run_on_fake_device):
    run_on_fake_device("""
        from torch.autograd import DeviceType
        from headscope.integrations import torch_profiler

        class Event:
            def __init__(self, kind, device, start, end, stream=0):
                self.values = dict(activity_type=kind, device_type=device, start_ns=start, end_ns=end, name=kind,
                                   correlation_id=5, start_thread_id=1, device_index=0, device_resource_id=stream)
            def __getattr__(self, name):
                return lambda: self.values[name]

        class Results:
            def events(self):
                return [Event("cuda_runtime", DeviceType.CPU, inside, inside + 10),
                        Event("kernel", DeviceType.CUDA, inside + 100, inside + 850, stream=7),
                        Event("gpu_user_annotation", DeviceType.CUDA, inside, inside + 900)]

        attend()  # builds what custom ops build at their first call
        with AttentionProfiler(device_timing="cupti") as prof:
            torch_profiler.core.torch_profiler_starts()
            kernels(0)
            inside = attend()
            torch_profiler._Ending(lambda: Results())()
        stats = prof.get_stats()
        assert times(stats) == (1, 750), times(stats)
    """)


def test_results_that_cannot_be_read_break_nothing(run_on_fake_device):
    run_on_fake_device("""
        import warnings
        from headscope.integrations import torch_profiler

        class Results:
            def events(self):
                raise RuntimeError("torn")

        results = Results()
        with AttentionProfiler(device_timing="cupti", keep_calls=9) as prof:
            torch_profiler.core.torch_profiler_starts()
            attend()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert torch_profiler._Ending(lambda: results)() is results
            attend()
        assert "torn" in str(caught[0].message)
        assert each_time(prof.get_stats()) == [None, 1000]
    """)


def test_an_installed_cupti_is_found_beside_torch(run_on_fake_device, run_python, monkeypatch, tmp_path):
    packages = tmp_path / "site-packages"
    (packages / "nvidia/cu13/lib").mkdir(parents=True)
    (packages / "nvidia/cu13/lib/libcupti.so.13").symlink_to(os.environ["FAKE_CUPTI"])
    (packages / "torch").symlink_to(Path(torch.__file__).parent)
    monkeypatch.delenv("HEADSCOPE_CUPTI_LIBRARY")

    done = run_python(f"""
import sys
sys.path.insert(0, {str(packages)!r})
import torch
from headscope import AttentionProfiler
with AttentionProfiler(device_timing="cupti") as prof:
    pass
print(prof.get_stats()["diagnostics"]["device_timing"]["mode"])
""")

    assert done.stdout == "cupti\n", done.stdout + done.stderr


def test_doctor_names_the_library_and_its_version(run_on_fake_device):
    run_on_fake_device("""
        import headscope
        found = {item["name"]: item for item in headscope.capabilities()}["device_clock"]
        assert found["available"], found
        assert "version 22, " in found["detail"] and "fake_cupti" in found["detail"], found
        cupti.fake_cupti_hold_subscriber(b"a debugger")
        found = {item["name"]: item for item in headscope.capabilities()}["device_clock"]
        assert not found["available"] and "in use by" in found["detail"], found
    """)
