"""The device clock where there is no device."""

from __future__ import annotations

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
