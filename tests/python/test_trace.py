"""Traces of this machine's torch.profiler as input, against a profiler that ran beside it; the trace command."""

from __future__ import annotations

import gzip
import json

import pytest
import torch

import headscope
from headscope import AttentionProfiler, read_trace
from helpers.training import VARIANTS, batch, stack


@pytest.fixture
def command(run_python):
    return lambda *arguments, **options: run_python("-m", "headscope", *arguments, **options)


def record(path, step, **options):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as recorded:
        step()
    recorded.export_chrome_trace(str(path))
    return path


@pytest.fixture
def trace(tmp_path):
    model, x = stack("sdpa flash"), batch()
    model(x).sum().backward()
    return record(tmp_path / "run.json", lambda: model(x).sum().backward(), record_shapes=True, with_stack=True)


def figures(stats):
    shape = ("q_len", "kv_len", "heads", "head_dim", "causal")
    keys = ("variant", "direction", "inside_backward", *shape, "flops", "bytes")
    return sorted(tuple(call[key] for key in keys) for call in stats.calls)


# A trace has no modules' attributes: heads of 3-D products are not told from the batch, nor are registered ops known.
WITHOUT_MODULES = ("eager bmm", "multi-head with weights")


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("registered op", *WITHOUT_MODULES)])
def test_trace_gives_what_a_profiler_gives(name, tmp_path):
    model, x = stack(name), batch()
    model(x).sum().backward()
    with AttentionProfiler(model, keep_calls=100) as prof:
        path = record(tmp_path / "run.json", lambda: model(x).sum().backward(), record_shapes=True)

    read = read_trace(path, keep_calls=100)

    assert figures(read) == figures(prof.get_stats())


@pytest.mark.parametrize("name", WITHOUT_MODULES)
def test_without_modules_the_work_is_the_same(name, tmp_path):
    model, x = stack(name), batch()
    model(x).sum().backward()
    with AttentionProfiler(model) as prof:
        path = record(tmp_path / "run.json", lambda: model(x).sum().backward(), record_shapes=True)

    read = read_trace(path)

    for key in ("calls", "flops", "bytes"):
        assert read.total[key] == prof.get_stats().total[key]


def test_layers_are_the_modules_of_the_trace(trace):
    layers = {row["layer"] for row in read_trace(trace).rows(direction="forward")}

    assert len(layers) == 2
    assert all("Attention" in layer for layer in layers)


def test_backward_names_its_forward(trace):
    stats = read_trace(trace, keep_calls=10)

    forwards = {call["call_id"]: call["layer"] for call in stats.calls if call["direction"] == "forward"}
    backwards = [call for call in stats.calls if call["direction"] == "backward"]
    assert len(backwards) == 2
    assert all(forwards[call["forward_call_id"]] == call["layer"] for call in backwards)


def test_without_a_device_times_are_the_hosts(trace):
    stats = read_trace(trace)

    assert stats.total["time_ns"]["source"] == "host"
    assert stats.total["time_ns"]["total"] == sum(row["time_ns"]["total"] for row in stats.rows()) > 0
    assert stats["diagnostics"]["device_timing"]["mode"] == "host"
    assert stats["diagnostics"]["overhead_ns"] is None
    assert stats["memory"] is None


def test_without_shapes_calls_and_times_are_known_and_work_is_not(tmp_path):
    model, x = stack("sdpa flash"), batch()
    path = record(tmp_path / "run.json", lambda: model(x).sum().backward())

    stats = read_trace(path)

    assert stats.total["calls"] == 4
    assert stats.total["time_ns"]["total"] > 0
    assert stats.total["flops"] is None
    assert any("record_shapes" in item["reason"] for item in stats["diagnostics"]["not_observable"])


def test_steps_are_those_of_the_trace(tmp_path):
    model, x = stack("sdpa flash"), batch()
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=3)
    path = tmp_path / "run.json"
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=schedule,
        record_shapes=True,
        acc_events=True,  # else torch warns
        on_trace_ready=lambda recorded: recorded.export_chrome_trace(str(path)),
    ) as recorded:
        for _ in range(4):
            model(x).sum().backward()
            recorded.step()

    stats = read_trace(path)

    assert [(point["first_step"], point["calls"]) for point in stats.steps] == [(1, 4), (2, 4), (3, 4)]
    assert {row["layer"] for row in stats.rows()} == {"attention[0]", "attention[1]"}


def test_compressed_trace_is_the_same(trace, tmp_path):
    packed = tmp_path / "run.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))

    assert read_trace(packed).attention_breakdown == read_trace(trace).attention_breakdown


def test_progress_ends_with_the_whole_file(trace):
    seen = []

    read_trace(trace, progress=lambda done, total: seen.append((done, total)))

    assert seen == sorted(seen)
    assert seen[-1] == (trace.stat().st_size,) * 2


def test_failing_progress_is_the_callers_own_exception(trace):
    def fail(done, total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        read_trace(trace, progress=fail)


BAD = {
    "empty": (b"", "byte"),
    "no JSON": (b"hello", "byte"),
    "cut off": (b'{"traceEvents": [{"ph": "X", "name": "a"', "byte"),
    "no trace": (b'{"a": 1}', "traceEvents"),
    "damaged gzip": (b"\x1f\x8b\x08\x00garbage", "gzip"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_clear_errors(name, tmp_path):
    text, word = BAD[name]
    path = tmp_path / "bad.json"
    path.write_bytes(text)

    with pytest.raises(headscope.Error, match=word):
        read_trace(path)


def test_wrong_options_say_what_they_take(trace):
    with pytest.raises(headscope.Error, match="decode_max_q"):
        read_trace(trace, decode_max_q=0)
    with pytest.raises(headscope.Error, match="keep_calls"):
        read_trace(trace, keep_calls="many")


# The command.


def test_command_prints_a_table_and_writes_a_report(command, trace, tmp_path):
    done = command("trace", str(trace), "-o", str(tmp_path / "out.json"))

    assert done.returncode == 0, done.stderr
    assert "sdpa_flash" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["total"]["calls"] == 4


def test_command_compares_ranks(command, trace, tmp_path):
    text = json.loads(trace.read_text())
    paths = []
    for rank in range(2):
        text["distributedInfo"] = {"rank": rank, "world_size": 2}
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps(text))
        paths.append(str(path))
    (tmp_path / "reports").mkdir()

    done = command("trace", *paths, "-o", str(tmp_path / "reports"))

    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2" in done.stdout
    assert "slowest ÷ fastest attention: 1.000" in done.stdout
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == [
        "rank0.headscope.json",
        "rank1.headscope.json",
    ]


def test_command_reads_the_others_when_one_is_bad(command, trace, tmp_path):
    (tmp_path / "bad.json").write_text("hello")

    done = command("trace", str(tmp_path / "bad.json"), str(trace))

    assert done.returncode == 1
    assert "bad.json" in done.stderr
    assert "sdpa_flash" in done.stdout


def test_command_finds_out_first_that_it_cannot_write(command, trace, tmp_path):
    done = command("trace", str(trace), str(trace), "-o", str(tmp_path / "nowhere"))

    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert done.stdout == ""
