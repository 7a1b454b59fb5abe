"""Sweeps: the figures of each cell, what happens to cells that fail, and what is found in the rows."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import torch
from torch import nn

import headscope
from headscope import Error, SweepResult
from headscope.cli import main
from headscope.sweeping.find import cliffs, sweet_spots
from helpers.work import forward_flops
from tiny_models import SMALL, of_transformers

BARE: dict[str, Any] = {"heads": 2, "head_dim": 8, "repeats": 3, "warmup": 1}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def attend(cell: Any) -> torch.Tensor:
    query = torch.zeros(cell.batch, 2, cell.q_len, 8)
    return torch.nn.functional.scaled_dot_product_attention(query, query, query)


def only(result: SweepResult, **wanted: Any) -> dict[str, Any]:
    (row,) = [row for row in result.rows if all(row[name] == value for name, value in wanted.items())]
    return row


# The figures of a cell.


def test_flops_and_bytes_are_those_of_the_geometry():
    result = headscope.sweep(
        batch=[1, 3],
        q_len=[4],
        kv_len=[4, 16],
        phases=["prefill", "decode", "encode"],
        variants=["eager", "sdpa_math", "sdpa_flash"],
        **BARE,
    )

    assert {row["status"] for row in result.rows} == {"ok"}
    pairs = {("prefill", 4): 1 + 2 + 3 + 4, ("prefill", 16): 13 + 14 + 15 + 16, ("encode", 4): 16}
    for row in result.rows:
        batch, queries, keys = row["batch"], row["q_len"], row["kv_len"]
        admitted = keys if row["phase"] == "decode" else pairs[row["phase"], keys]
        # Of a rectangle's causal mask one boolean a pair of tokens is read too.
        mask = queries * keys if row["phase"] == "prefill" and queries != keys else 0
        masked_eager = queries * keys if row["phase"] == "prefill" and row["variant"] == "eager" else mask
        assert row["flops"] == forward_flops(batch * 2 * admitted, 8), row
        assert row["bytes"] == 4 * batch * 2 * 8 * (2 * queries + 2 * keys) + masked_eager, row
        assert row["kv_bytes"] == 4 * batch * 2 * 8 * 2 * keys
        assert row["variants_seen"] == [row["variant"]]
        assert row["kv_len_seen"] == [keys]
        assert row["latency_p10_ns"] <= row["latency_ns"] <= row["latency_p90_ns"]
        assert row["attention_calls"] == 1


def test_grouped_heads_and_another_dtype():
    result = headscope.sweep(
        batch=2, q_len=4, heads=4, kv_heads=2, head_dim=8, head_dim_v=16, dtype=[torch.bfloat16], variants="sdpa_math"
    )

    (row,) = result.rows
    assert (row["status"], row["dtype"]) == ("ok", "bfloat16")
    assert row["kv_bytes"] == 2 * 2 * 2 * 4 * (8 + 16)
    assert row["flops"] == 2 * (2 * 4 * 10) * (8 + 16)


def test_a_variant_that_does_not_run_here_is_a_row_with_its_reason():
    result = headscope.sweep(q_len=4, variants=["flash_attn_2", "sdpa_cudnn", "sdpa_flash"], **BARE)

    assert [row["status"] for row in result.rows] == ["unavailable", "unavailable", "ok"]
    assert "CUDA" in only(result, variant="sdpa_cudnn")["reason"]
    assert only(result, variant="sdpa_cudnn")["latency_ns"] is None


def test_what_cannot_be_is_left_out_with_a_reason():
    result = headscope.sweep(q_len=[4, 8], kv_len=[4], phases=["prefill", "decode"], variants="sdpa_flash", **BARE)

    assert [(row["phase"], row["q_len"], row["kv_len"]) for row in result.rows] == [("prefill", 4, 4), ("decode", 1, 4)]
    assert any("8 tokens of a prompt" in entry["reason"] for entry in result.left_out)
    assert any("one query" in entry["reason"] for entry in result.left_out)


# Targets.


def test_a_language_model_decodes_on_a_cache_that_does_not_grow():
    model = of_transformers("LlamaForCausalLM", "LlamaConfig", **SMALL, num_key_value_heads=2)()
    result = headscope.sweep(
        model, batch=[1, 2], q_len=[8], kv_len=[8, 24], phases=["prefill", "decode"], repeats=3, warmup=1
    )

    assert {row["status"] for row in result.rows} == {"ok"}
    for row in result.rows:
        assert row["kv_len_seen"] == [row["kv_len"]], row
        assert row["attention_calls"] == 2
        assert (row["heads"], row["kv_heads"], row["head_dim"]) == (4, 2, 8)
        assert row["kv_bytes"] == 2 * 4 * row["batch"] * 2 * row["kv_len"] * (8 + 8)
    phases = {(row["phase"], row["kv_len"]): row["phases_seen"] for row in result.rows}
    assert phases == {
        ("prefill", 8): ["prefill"],
        ("prefill", 24): ["chunked_prefill"],
        ("decode", 8): ["decode"],
        ("decode", 24): ["decode"],
    }


def test_a_sliding_window_and_another_backend():
    model = of_transformers("MistralForCausalLM", "MistralConfig", **SMALL, num_key_value_heads=2, sliding_window=6)()
    result = headscope.sweep(model, kv_len=[16], phases="decode", variants=["sdpa_math"], repeats=3)

    (row,) = result.rows
    assert (row["status"], row["kv_len_seen"], row["variants_seen"]) == ("ok", [6], ["sdpa_math"])


def test_a_module_with_inputs_and_one_without():
    class Block(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(x, x, x)

    with pytest.raises(Error, match="inputs="):
        headscope.sweep(Block(), q_len=4)
    result = headscope.sweep(
        Block(),
        q_len=4,
        phases="encode",
        repeats=3,
        inputs=lambda cell: {"x": torch.zeros(cell.batch, 2, cell.q_len, 8)},
    )

    assert result.rows[0]["flops"] == forward_flops(2 * 16, 8)


# Cells that do not end well.


def test_an_exception_and_lack_of_memory_are_rows():
    def target(cell: Any) -> object:
        if cell.batch == 2:
            raise ValueError("no twos")
        if cell.batch == 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        if cell.batch == 8:
            return torch.empty(10**16)
        if cell.batch == 16:
            raise MemoryError
        return attend(cell)

    result = headscope.sweep(target, batch=[1, 2, 4, 8, 16, 32], q_len=4, repeats=3)

    assert [row["status"] for row in result.rows] == ["ok", "failed", "oom", "oom", "oom", "ok"]
    assert result.rows[1]["reason"] == "ValueError: no twos"
    assert "allocate" in result.rows[3]["reason"]
    assert all(row["latency_ns"] is None for row in result.rows[1:5])


def test_scores_beyond_all_memory_are_not_tried(monkeypatch):
    monkeypatch.setattr("headscope.sweeping.cells._free_bytes", lambda: 1000)
    result = headscope.sweep(q_len=[4, 64], variants=["eager", "sdpa_flash"], **BARE)

    assert only(result, variant="eager", q_len=64)["status"] == "oom"
    assert "not tried" in only(result, variant="eager", q_len=64)["reason"]
    assert only(result, variant="sdpa_flash", q_len=64)["status"] == "ok"
    assert any(cliff["at"] == 64 and "not tried" in str(cliff["reason"]) for cliff in result.cliffs)


def test_the_budget_ends_the_sweep(monkeypatch):
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr("headscope.sweeping.time.monotonic", lambda: next(clock))
    result = headscope.sweep(batch=[1, 2, 4], q_len=4, variants="sdpa_flash", budget_s=25, **BARE)

    assert [row["status"] for row in result.rows] == ["ok", "ok", "not_run"]


# Resuming.


def test_a_sweep_goes_on_where_it_was_interrupted(tmp_path):
    path = tmp_path / "cells.jsonl"
    ran: list[int] = []
    interrupt = True

    def target(cell: Any) -> object:
        ran.append(cell.batch)
        if cell.batch == 4 and interrupt:
            raise KeyboardInterrupt
        return attend(cell)

    with pytest.raises(KeyboardInterrupt):
        headscope.sweep(target, batch=[1, 2, 4, 8], q_len=4, repeats=3, resume=path)
    assert [json.loads(line).get("batch") for line in path.read_text().splitlines()] == [None, 1, 2]

    with path.open("a") as file:
        file.write('{"phase": "pref')  # as of a process that was killed
    ran.clear()
    interrupt = False
    result = headscope.sweep(target, batch=[1, 2, 4, 8], q_len=4, repeats=3, resume=path)

    assert set(ran) == {4, 8}
    assert [row["status"] for row in result.rows] == ["ok"] * 4
    ran.clear()
    again = headscope.sweep(target, batch=[1, 2, 4, 8], q_len=4, repeats=3, resume=path)
    assert (ran, again.rows) == ([], result.rows)


def test_a_failed_cell_is_run_again(tmp_path):
    broken = True

    def target(cell: Any) -> object:
        if broken:
            raise ValueError("not yet")
        return attend(cell)

    settings: dict[str, Any] = {"q_len": 4, "repeats": 3, "resume": tmp_path / "cells.jsonl"}
    assert headscope.sweep(target, **settings).rows[0]["status"] == "failed"
    broken = False
    assert headscope.sweep(target, **settings).rows[0]["status"] == "ok"


def test_files_of_something_else_are_refused_and_left_alone(tmp_path):
    path = tmp_path / "cells.jsonl"
    headscope.sweep(q_len=4, variants="sdpa_flash", resume=path, **BARE)
    kept = path.read_bytes()
    with pytest.raises(Error, match=r"another sweep.*heads 2 there, 4 here"):
        headscope.sweep(q_len=4, variants="sdpa_flash", resume=path, **{**BARE, "heads": 4})
    assert path.read_bytes() == kept

    for other in ("my diary\n", "my diary", "{}\n", "[1]\n"):
        path.write_text(other)
        with pytest.raises(Error, match="no resume file"):
            headscope.sweep(q_len=4, resume=path, **BARE)
        assert path.read_text() == other

    path.write_bytes(kept.replace(b"\n", b"\n{broken\n", 1))
    with pytest.raises(Error, match=r"line 2 .* damaged"):
        headscope.sweep(q_len=4, variants="sdpa_flash", resume=path, **BARE)
    with pytest.raises(Error, match="cannot write"):
        headscope.sweep(q_len=4, resume=tmp_path / "no" / "cells", **BARE)


# Wrong use.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch": []}, "batch is empty"),
        ({"batch": [0]}, "positive integer, not 0"),
        ({"batch": [-1]}, "positive"),
        ({"batch": [1.5]}, "positive integer"),
        ({"batch": True}, "positive integer"),
        ({"batch": itertools.cycle([1])}, "no end"),
        ({"batch": itertools.count(1)}, "no end"),
        ({"batch": range(1, 200), "q_len": range(1, 200)}, "at most 10,000"),
        ({"q_len": None}, "q_len"),
        ({"heads": None}, "give heads"),
        ({"kv_heads": 3, "heads": 4}, "divide"),
        ({"variants": ["fast"]}, "sdpa_flash"),
        ({"phases": ["training"]}, "prefill, decode, encode"),
        ({"dtype": "int8"}, "bfloat16"),
        ({"q_len": 8, "kv_len": 4}, "no cell is left.*8 tokens"),
        ({"device": "nonsense"}, "cannot be used"),
        ({"repeats": 0}, "repeats"),
        ({"min_time_s": -1}, "min_time_s"),
        ({"budget_s": 0}, "budget_s"),
        ({"target": 3}, "function of a cell"),
        ({"inputs": dict}, "bare attention"),
    ],
)
def test_wrong_use_is_refused(arguments, words):
    with pytest.raises(Error, match=words):
        headscope.sweep(**{"q_len": 4, "heads": 2, **arguments})


def test_a_model_keeps_its_own_geometry():
    model = of_transformers("LlamaForCausalLM", "LlamaConfig", **SMALL, num_key_value_heads=2)()
    for arguments, words in (({"heads": 2}, "its own heads"), ({"dtype": "float16"}, "its own dtype")):
        with pytest.raises(Error, match=words):
            headscope.sweep(model, q_len=4, **arguments)
    with pytest.raises(Error, match="others are for the target"):
        headscope.sweep(model, q_len=4, variants="eager")


# What stands out, on measurements made by hand.


def made(latency: float, memory: int, flops: int = 100, spread: float = 0.05, **place: Any) -> dict[str, Any]:
    where = {"phase": "decode", "variant": "sdpa_flash", "dtype": "float32", "batch": 1, "q_len": 1, "kv_len": 64}
    row = {**where, **place, "status": "ok", "reason": None}
    figures = {
        "latency_ns": latency,
        "latency_p10_ns": latency * (1 - spread),
        "latency_p90_ns": latency * (1 + spread),
        "runs": 10,
        "tokens_per_s": row["batch"] * row["q_len"] * 1e9 / latency,
        "memory_bytes": memory,
        "flops": flops,
    }
    return {**row, **figures}


def test_the_sweet_spot_is_the_most_throughput_per_byte():
    # tokens/s per byte: 1/100·1000, 2/120·1200 = 13.9e-6 …, of which batch 2 has the most
    rows = [made(100, 1000, batch=1), made(120, 1200, batch=2), made(260, 2000, batch=4)]
    (spot,) = sweet_spots(rows)

    assert spot["coordinates"]["batch"] == 2
    assert spot["tokens_per_s_per_byte"] == pytest.approx(2e9 / 120 / 1200)
    assert spot["clear"]


def test_a_sweet_spot_within_the_noise_is_not_clear():
    (spot,) = sweet_spots([made(100, 1000, batch=1, spread=0.2), made(190, 1000, batch=2, spread=0.8)])

    assert (spot["coordinates"]["batch"], spot["clear"]) == (2, False)


def test_one_cell_has_no_sweet_spot_and_two_need_to_run():
    assert sweet_spots([made(100, 1000)]) == []
    lost = {**made(100, 1000, batch=2), "status": "oom", "tokens_per_s": None}
    (spot,) = sweet_spots([made(100, 1000), lost])
    assert spot["coordinates"] is None
    assert "2 batch sizes 1 ran" in spot["reason"]


def test_the_cliff_is_the_first_step_that_is_superlinear_beyond_the_noise():
    lengths, times = [64, 128, 256, 512], [100, 190, 390, 1600]
    rows = [made(time, 10 * kv, flops=kv, kv_len=kv) for kv, time in zip(lengths, times, strict=True)]
    (cliff,) = cliffs(rows)

    assert (cliff["axis"], cliff["metric"], cliff["before"], cliff["at"]) == ("kv_len", "latency_ns", 256, 512)
    assert cliff["growth"] == pytest.approx(1600 / 390)
    assert cliff["exponent"] == pytest.approx(2.0365, abs=1e-3)
    assert (cliff["work_exponent"], cliff["beyond_work"]) == (1.0, True)


def test_noise_is_no_cliff():
    rows = [made(time, 10 * kv, kv_len=kv, spread=0.4) for kv, time in ((64, 100), (128, 290), (256, 610))]

    assert cliffs(rows) == []


def test_few_runs_bound_no_time():
    rows = [{**made(time, 10, kv_len=kv), "runs": 2} for kv, time in ((64, 100), (128, 1000))]

    assert cliffs(rows) == []


def test_growth_as_the_work_is_told_from_growth_beyond_it():
    # The first step grows as its FLOPs, with the square; the third with the third power.
    points = [(16, 100), (32, 400), (64, 1600), (128, 12800)]
    rows = [made(time, 10 * n, flops=n * n, phase="prefill", q_len=n, kv_len=n) for n, time in points]
    found = [(cliff["before"], cliff["at"], cliff["beyond_work"]) for cliff in cliffs(rows)]

    assert found == [(16, 32, False), (64, 128, True)]


def test_memory_is_judged_by_itself_and_running_out_of_it_is_a_cliff():
    rows = [
        made(100, 1000, batch=1),
        made(200, 4000, batch=2),
        {**made(1, 1, batch=4), "status": "oom", "reason": "no more"},
    ]
    found = [(cliff["metric"], cliff["before"], cliff["at"], cliff["exponent"]) for cliff in cliffs(rows)]

    assert found == [("memory_bytes", 1, 2, pytest.approx(2.0)), ("memory_bytes", 2, 4, None)]


# What is done with a result.


@pytest.fixture
def result() -> SweepResult:
    return headscope.sweep(batch=[1, 2], q_len=[4, 8], variants=["sdpa_flash", "sdpa_cudnn"], **BARE)


def test_json_and_pandas_keep_everything(result, tmp_path):
    result.to_json(tmp_path / "result.json")
    again = SweepResult.from_json(tmp_path / "result.json")

    assert again.to_dict() == result.to_dict()
    assert list(result.to_pandas()["batch"]) == [row["batch"] for row in result.rows]
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(Error, match="no result"):
        SweepResult.from_json(tmp_path / "other.json")


def test_table_and_page_show_cells_and_reasons(result, tmp_path):
    text = str(result)
    assert "unavailable" in text
    assert "has kernels for CUDA alone" in text
    result.to_html(tmp_path / "page.html", result.heat_map(x="q_len", variant="sdpa_flash", value="flops"))
    page = (tmp_path / "page.html").read_text()
    assert "sdpa_flash" in page
    assert "<caption>flops over q_len and batch" in page


def test_heat_map(result):
    shown = result.heat_map(x="q_len", y="batch", value="flops", variant="sdpa_flash")

    assert (shown.xs, shown.ys) == ([4, 8], [1, 2])
    pairs = [[2 * 10, 2 * 36], [4 * 10, 4 * 36]]
    assert shown.values == [[forward_flops(count, 8) for count in line] for line in pairs]
    assert "█" in str(shown)
    assert result.heat_map(x="q_len", variant="sdpa_cudnn").marks[0][0] == "unavailable"
    with pytest.raises(Error, match="fix variant too"):
        result.heat_map(x="q_len")
    for arguments, words in (
        ({"x": "color"}, "x must be"),
        ({"value": "speed"}, "value must be"),
        ({"batch": 1}, "fix 'batch'"),
    ):
        with pytest.raises(Error, match=words):
            result.heat_map(**arguments)


# The command.


def test_command_end_to_end(tmp_path, capsys):
    paths = {name: str(tmp_path / name) for name in ("out.json", "page.html", "cells.jsonl")}
    common = ["sweep", "--batch", "1,2", "--q-len", "4:16", "--heads", "2", "--head-dim", "8", "--repeats", "3"]
    status = main(
        [
            *common,
            "--variants",
            "sdpa_flash",
            "-o",
            paths["out.json"],
            "--html",
            paths["page.html"],
            "--resume",
            paths["cells.jsonl"],
        ]
    )

    assert status == 0
    assert "sweep of attention on cpu" in capsys.readouterr().out
    rows = SweepResult.from_json(paths["out.json"]).rows
    assert [(row["batch"], row["q_len"]) for row in rows] == [(b, n) for b in (1, 2) for n in (4, 8, 16)]
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 7


def test_command_takes_a_target(tmp_path, capsys, monkeypatch):
    (tmp_path / "sweep_target.py").write_text(
        "def work(cell):\n    return cell.batch\ndef stop(cell):\n    raise KeyboardInterrupt\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    assert main(["sweep", "--target", "sweep_target:work", "--q-len", "4", "--repeats", "1"]) == 0
    assert "sweep of sweep_target.work" in capsys.readouterr().out
    assert main(["sweep", "--target", "sweep_target:stop", "--q-len", "4"]) == 130
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--q-len", "4"], "give heads"),
        (["--target", "nowhere", "--q-len", "4"], "MODULE:NAME"),
        (["--target", "nowhere:x", "--q-len", "4"], "No module named"),
        (["--heads", "2", "--q-len", "4", "-o", "/no/such/folder/x"], "cannot write"),
    ],
)
def test_wrong_use_of_the_command_is_one_line(arguments, words, capsys):
    assert main(["sweep", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "0", "-4", "a", "8:4", "1:2:3"])
def test_sizes_that_are_none(text, capsys):
    with pytest.raises(SystemExit):
        main(["sweep", f"--batch={text}"])
    assert "--batch" in capsys.readouterr().err
