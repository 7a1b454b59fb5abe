"""Stats as plain data, tables, files and selections."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys

import pytest
import torch

import headscope
from headscope import AttentionProfiler, Error, Stats

PLAIN = (dict, list, str, int, float, bool, type(None))


@pytest.fixture
def stats(attend) -> Stats:
    with AttentionProfiler(keep_calls=10) as profiler:
        with headscope.layer("encoder.0.attn"):
            attend(batch=2, heads=4, length=16, dim=8, grad=True).sum().backward()
        with headscope.layer("encoder.1.attn"):
            attend(batch=2, heads=4, length=16, dim=8)
        profiler.step()
    return profiler.get_stats()


def assert_plain(value: object) -> None:
    assert isinstance(value, PLAIN), value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        assert_plain(inner)


def test_is_a_mapping_of_plain_data(stats):
    assert set(stats) >= {"meta", "total", "attention_breakdown", "heads", "time", "diagnostics", "schema_version"}
    assert len(stats) == len(list(stats))
    assert "total" in stats
    assert_plain(dict(stats))


def test_keys_are_attributes(stats):
    for key in stats:
        assert getattr(stats, key) is stats[key]


def test_unknown_attribute_lists_the_keys(stats):
    with pytest.raises(AttributeError, match="attention_breakdown"):
        _ = stats.totals


def test_flops_of_a_dense_call_are_exact(stats):
    # forward 2·P·(D+Dv), P = 2 sequences · 4 heads · 16 · 16 pairs
    (row,) = stats.rows(layer="encoder.1.attn")
    assert row["flops"] == 2 * (2 * 4 * 16 * 16) * (8 + 8)
    assert isinstance(row["flops"], int)


def test_heads_sum_to_their_layer(stats):
    row = stats.layer("encoder.1.attn")[0]
    heads = [head for head in stats["heads"] if head["layer"] == "encoder.1.attn"]
    assert len(heads) == 4
    for key in ("flops", "bytes"):
        assert sum(head[key] for head in heads) == row[key]


def test_per_head_off_gives_none_with_a_reason(attend):
    with AttentionProfiler(per_head=False) as profiler:
        attend()
    stats = profiler.get_stats()
    assert stats.heads is None
    assert "per_head" in stats["meta"]["absent_sections"]["heads"]


def test_keep_calls_keeps_the_last_calls_one_by_one(attend):
    with AttentionProfiler(keep_calls=2) as profiler:
        for length in (4, 5, 6):
            attend(length=length)
    assert [call["q_len"] for call in profiler.get_stats()["calls"]] == [5, 6]


def test_rows_select_by_globs(stats):
    assert {row["layer"] for row in stats.rows(layer="*.0.*")} == {"encoder.0.attn"}
    assert {row["direction"] for row in stats.rows(direction="back*")} == {"backward"}
    assert len(stats.rows(layer="encoder.?.attn", direction="forward")) == 2
    assert stats.rows(layer="nothing") == []


def test_brackets_in_a_glob_are_themselves(attend):
    with AttentionProfiler() as profiler:
        attend()
    assert len(profiler.get_stats().rows(layer="attention[0]")) == 1


def test_layer_that_was_not_seen_lists_those_that_were(stats):
    with pytest.raises(Error, match=r"encoder\.0\.attn"):
        stats.layer("encoder.7.attn")


def test_text_shows_layers_and_variant_within_the_width(stats):
    text = stats.table(width=100)
    assert "encoder.0.attn" in text
    assert "sdpa_flash" in text
    assert str(stats) == stats.table()
    assert max(map(len, text.splitlines())) <= 100


def test_text_shows_heads_of_the_layers_asked_for(stats):
    assert len(stats.table(heads_of="encoder.1.*").splitlines()) > len(stats.table().splitlines())


def test_json_is_the_same_data(stats, tmp_path):
    path = tmp_path / "report.json"
    assert stats.to_json(path) is None
    assert json.loads(path.read_text()) == json.loads(stats.to_json()) == stats.to_dict()


def test_json_in_a_folder_that_is_missing_is_an_error(stats, tmp_path):
    with pytest.raises(Error, match="cannot write"):
        stats.to_json(tmp_path / "missing" / "report.json")


def test_dict_is_the_callers_own(stats):
    own = stats.to_dict()
    own["total"]["calls"] = -1
    assert stats.total["calls"] == 3


@pytest.mark.parametrize("table", ["attention_breakdown", "heads", "calls"])
def test_pandas_has_a_line_for_each_row(stats, table):
    pytest.importorskip("pandas")
    frame = stats.to_pandas(table)
    assert len(frame) == len(stats[table])
    assert list(frame["layer"]) == [row["layer"] for row in stats[table]]


def test_pandas_columns_of_inner_keys_have_a_dot(stats):
    pytest.importorskip("pandas")
    frame = stats.to_pandas()
    assert list(frame["time_ns.total"]) == [row["time_ns"]["total"] for row in stats.rows()]


def test_pandas_of_a_table_not_collected_tells_why(attend):
    with AttentionProfiler() as profiler:
        attend()
    with pytest.raises(Error, match="keep_calls"):
        profiler.get_stats().to_pandas("calls")


def test_pandas_missing_names_the_pip_line(stats, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Error, match="pip install pandas"):
        stats.to_pandas()


def test_html_is_offline_and_escapes_names(attend, tmp_path):
    with AttentionProfiler() as profiler, headscope.layer("<script>x</script>"):
        attend()
    stats = profiler.get_stats()
    stats.to_html(tmp_path / "report.html")
    for text in (stats._repr_html_(), (tmp_path / "report.html").read_text()):
        assert "&lt;script&gt;" in text
        assert "<script" not in text
        assert re.search(r"https?://", text) is None


def test_html_of_an_empty_profile():
    assert "No attention" in AttentionProfiler().get_stats()._repr_html_()


def test_copies_are_equal_data_and_pickling_names_the_way(stats):
    assert copy.copy(stats).to_dict() == copy.deepcopy(stats).to_dict() == stats.to_dict()
    with pytest.raises(Error, match="to_json"):
        pickle.dumps(stats)


def test_sums_over_calls_are_exact():
    query = torch.randn(1, 1, 1, 8).expand(1, 1, 4096, 8)
    with AttentionProfiler(memory="off", per_head=False) as profiler:
        for _ in range(3):
            torch.nn.functional.scaled_dot_product_attention(query, query, query)
    assert profiler.get_stats().total["flops"] == 3 * 2 * 4096 * 4096 * 16


def test_metrics_describe_the_keys_of_a_row(stats):
    described = {metric["id"]: metric for metric in headscope.metrics()}
    assert {"flops", "bytes", "calls"} <= described.keys()
    assert described.keys() <= stats.rows()[0].keys()
    assert all(metric["description"] for metric in described.values())


def test_capabilities_name_what_is_missing_and_why():
    rows = headscope.capabilities()
    assert rows
    assert all(row["detail"] for row in rows if not row["available"])


def test_version_and_cmake_path_are_known():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", headscope.__version__)
    assert headscope.cmake_prefix_path.endswith("headscope")


def test_names_of_the_package_are_all_there():
    for name in headscope.__all__:
        assert getattr(headscope, name) is not None
    assert set(headscope.__all__) <= set(dir(headscope))
    with pytest.raises(AttributeError, match="nothing"):
        _ = headscope.nothing


def test_import_needs_no_torch_until_a_name_is_used(run_python):
    code = (
        "import sys, headscope, headscope.cli; assert 'torch' not in sys.modules\n"
        "headscope.Error; assert 'torch' in sys.modules"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
