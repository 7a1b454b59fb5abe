"""Attention as a track of its own in what torch.profiler exports."""

from __future__ import annotations

import gzip
import json

import pytest
import torch

import headscope
from headscope import AttentionProfiler
from headscope.integrations.trace_track import add_track


def tracks(path) -> list[dict]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [event for event in json.loads(text)["traceEvents"] if event.get("cat") == "headscope"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_calls_are_a_track_of_the_exported_trace(attend, tmp_path, name):
    with AttentionProfiler(), torch.profiler.profile() as theirs:
        with headscope.layer("decoder.0"):
            attend(heads=2, length=16, dim=8)
        attend()
    theirs.export_chrome_trace(str(tmp_path / name))

    first, second = tracks(tmp_path / name)
    assert first["name"] == "decoder.0 · sdpa_flash · forward"
    assert first["args"]["flops"] == 4 * 2 * 16 * 16 * 8
    assert second["args"]["layer"] is None
    assert first["dur"] > 0


def test_the_track_lies_over_the_ops_of_the_trace(attend, tmp_path):
    path = tmp_path / "trace.json"
    with AttentionProfiler(), torch.profiler.profile() as theirs:
        attend()
    theirs.export_chrome_trace(str(path))

    (call,) = tracks(path)
    events = json.loads(path.read_text())["traceEvents"]
    (op,) = [event for event in events if event.get("name") == "aten::scaled_dot_product_attention"]
    # Two clock readings that torch and we take at different moments; the op takes longer than they differ.
    slack_us = 50
    assert op["ts"] - slack_us <= call["ts"]
    assert call["ts"] + call["dur"] <= op["ts"] + op["dur"] + slack_us


def test_calls_before_and_after_are_not_in_the_trace(attend, tmp_path):
    path = tmp_path / "trace.json"
    with AttentionProfiler():
        attend()
        with torch.profiler.profile() as theirs:
            attend()
        attend()
    theirs.export_chrome_trace(str(path))

    assert len(tracks(path)) == 1


def test_each_window_of_a_schedule_has_its_own_calls(attend, tmp_path):
    paths = []

    def export(theirs):
        paths.append(tmp_path / f"{len(paths)}.json")
        theirs.export_chrome_trace(str(paths[-1]))

    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with (
        AttentionProfiler(),
        torch.profiler.profile(schedule=schedule, on_trace_ready=export, acc_events=True) as theirs,
    ):
        for _ in range(8):
            attend()
            theirs.step()

    assert [len(tracks(path)) for path in paths] == [2, 2]


def test_without_a_profiler_of_ours_the_trace_is_torchs_alone(attend, tmp_path):
    path = tmp_path / "trace.json"
    with torch.profiler.profile() as theirs:
        attend()
    theirs.export_chrome_trace(str(path))

    assert tracks(path) == []


def test_read_trace_counts_the_calls_once(attend, tmp_path):
    path = tmp_path / "trace.json"
    with AttentionProfiler(), torch.profiler.profile(record_shapes=True) as theirs:
        attend()
        attend()
    theirs.export_chrome_trace(str(path))

    assert headscope.read_trace(path).total["calls"] == 2


def test_files_of_another_layout_are_left_as_they_are(tmp_path):
    call = {"layer": None, "variant": "x", "direction": "forward", "thread": 1, "start_ns": 1, "end_ns": 2}
    for text in ("", "[]", '{"events": []}', "no json at all", '{"traceEvents": [] '):
        path = tmp_path / "other.json"
        path.write_text(text)
        assert not add_track(path, [call])
        assert path.read_text() == text
