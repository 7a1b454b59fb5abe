"""Budgets: checked by hand, asserted, and through the pytest plugin."""

from __future__ import annotations

import pytest

import headscope
from headscope import AttentionProfiler, Budget

FLOPS = 2 * (2 * 16 * 16) * (8 + 8)  # one call of `attend`: 2·P·(D+Dv)


@pytest.fixture
def stats(attend):
    with AttentionProfiler() as profiler, headscope.layer("block.0"):
        attend()
    return profiler.get_stats()


def test_met_budget_has_no_violations(stats):
    assert stats.check(max_total_flops=FLOPS) == []
    stats.assert_budget(Budget(max_total_flops=FLOPS))


def test_violation_has_layer_limit_asked_and_measured(stats):
    (violation,) = stats.check(max_call_flops=FLOPS - 1)
    assert (violation.layer, violation.limit) == ("block.0", "max_call_flops")
    assert str(FLOPS - 1) in violation.asked.replace(",", "")
    assert str(FLOPS) in violation.measured.replace(",", "")
    assert str(violation).startswith("block.0: max_call_flops asked ")


def test_assertion_lists_each_violation(stats):
    with pytest.raises(AssertionError) as caught:
        stats.assert_budget(max_total_flops=1, max_step_bytes=1)
    assert "max_total_flops" in str(caught.value)
    assert "max_step_bytes" in str(caught.value)


def test_budget_that_selects_nothing_is_violated_unless_allowed(stats):
    assert len(stats.check(layer="decoder.*", max_total_flops=1)) == 1
    assert stats.check(layer="decoder.*", max_total_flops=1, allow_missing=True) == []


def test_forbidden_variant_is_found(stats):
    assert stats.check(forbid_variants=["sdpa_math"]) == []
    assert len(stats.check(forbid_variants="sdpa_flash")) == 1


def test_whole_floats_are_taken_for_counts(stats):
    assert Budget(max_total_flops=1e9) == Budget(max_total_flops=10**9)


def test_none_is_the_same_as_left_out():
    assert Budget(layer=None, max_p50_us=None) == Budget()


def test_repr_shows_what_differs_from_a_plain_budget():
    assert repr(Budget(layer="*.3.*", max_total_flops=10)) == "Budget(layer='*.3.*', max_total_flops=10)"


def test_profiler_asserts_on_what_it_has_seen(attend):
    with AttentionProfiler() as profiler:
        attend()
        profiler.assert_budget(max_total_flops=FLOPS)
        attend()
        with pytest.raises(AssertionError):
            profiler.assert_budget(max_total_flops=FLOPS)


assert FLOPS == 16384  # as the suite says
SUITE = """
import pytest, torch

def attend():
    q = torch.randn(1, 2, 16, 8)
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)

def test_fixture_is_running(attention_profiler):
    assert attention_profiler.running
    attend()
    attention_profiler.assert_budget(max_total_flops=16384, forbid_variants=["sdpa_math"])

def test_fixture_starts_empty(attention_profiler):
    assert attention_profiler.get_stats().total["calls"] == 0

def test_over_budget(attention_profiler):
    attend()
    attention_profiler.assert_budget(max_total_flops=1)

@pytest.mark.attention_budget(max_total_flops=16384)
def test_marked_and_met():
    attend()

@pytest.mark.attention_budget(max_total_flops=16383)
def test_marked_and_over():
    attend()

@pytest.mark.attention_budget(max_total_flops=1)
def test_marked_and_broken_otherwise():
    raise ValueError("its own")
"""


def test_plugin_runs_fixture_and_mark(pytester, plugin_arguments):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*plugin_arguments, "--strict-markers")
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(["*attention is over budget*", "*ValueError: its own*"])


def test_plugin_stops_the_profiler_at_teardown(pytester, plugin_arguments):
    pytester.makepyfile(
        """
        kept = []
        def test_first(attention_profiler):
            kept.append(attention_profiler)
        def test_second():
            assert not kept[0].running
        """
    )
    pytester.runpytest_subprocess(*plugin_arguments).assert_outcomes(passed=2)


def test_plugin_imports_no_torch_unless_a_test_asks(pytester, plugin_arguments):
    pytester.makepyfile("def test_none():\n    import sys\n    assert 'torch' not in sys.modules\n")
    pytester.runpytest_subprocess(*plugin_arguments).assert_outcomes(passed=1)
