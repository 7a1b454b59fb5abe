"""Attention ops of the program's own: registered before and after their definition."""

from __future__ import annotations

import itertools

import pytest
import torch

from headscope import AttentionProfiler, Error, register_attention_op

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"headscope_tests::attention_{next(_numbers)}"


def define(name: str):
    @torch.library.custom_op(name, mutates_args=())
    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool) -> torch.Tensor:
        # By sums, so that no other op of the table is seen inside.
        scores = (query.unsqueeze(-2) * key.unsqueeze(-3)).sum(-1)
        if is_causal:
            scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        return (weights.unsqueeze(-1) * value.unsqueeze(-3)).sum(-2)

    return attention


def run(op, causal: bool = False, shape=(1, 2, 16, 8)):
    query = torch.randn(shape)
    with AttentionProfiler() as profiler:
        op(query, query, query, causal)
    return profiler.get_stats()


def test_op_defined_before_it_is_registered(name):
    op = define(name)
    register_attention_op(name, variant="mine")

    (row,) = run(op).rows()

    assert (row["variant"], row["op"], row["calls"]) == ("mine", name, 1)
    assert row["flops"] == 2 * (2 * 16 * 16) * 16


def test_op_defined_after_it_is_registered(name):
    register_attention_op(name, variant="mine")
    op = define(name)

    assert [row["variant"] for row in run(op).rows()] == ["mine"]


def test_op_itself_may_be_given(name):
    op = define(name)
    register_attention_op(op, variant="mine")

    assert len(run(op).rows()) == 1


def test_packet_of_torch_ops_may_be_given(name):
    op = define(name)
    namespace, short = name.split("::")
    register_attention_op(getattr(getattr(torch.ops, namespace), short), variant="mine")

    assert len(run(op).rows()) == 1


def test_causal_argument_is_read(name):
    op = define(name)
    register_attention_op(name, variant="mine", causal="is_causal")

    # 1 + 2 + … + 16 pairs in each of 2 heads
    assert run(op, causal=True).total["flops"] == 2 * (2 * 136) * 16
    assert run(op, causal=False).total["flops"] == 2 * (2 * 256) * 16


def test_layout_decides_which_axis_holds_the_heads(name):
    op = define(name)
    register_attention_op(name, variant="mine", layout="bshd")

    (row,) = run(op, shape=(1, 16, 2, 8)).rows()

    assert (row["heads"], row["q_len"], row["head_dim"]) == (2, 16, 8)


def test_same_spec_again_has_no_effect(name):
    op = define(name)
    register_attention_op(name, variant="mine")
    register_attention_op(name, variant="mine")

    assert run(op).total["calls"] == 1


def test_another_spec_of_a_known_op_is_refused(name):
    register_attention_op(name, variant="mine")
    with pytest.raises(Error, match="attention"):
        register_attention_op(name, variant="mine", layout="bshd")


def test_argument_that_the_schema_lacks_is_refused(name):
    define(name)
    with pytest.raises(Error, match="q_heads"):
        register_attention_op(name, variant="mine", query="q_heads")


@pytest.mark.parametrize("bad", ["attention", "", "a::b::c", "::x"])
def test_malformed_name_is_refused(bad):
    with pytest.raises(Error):
        register_attention_op(bad, variant="mine")


def test_layout_that_is_unknown_lists_the_layouts(name):
    with pytest.raises(Error, match="'bhsd', 'bshd', 'thd' or 'hsd'"):
        register_attention_op(name, variant="mine", layout="sbhd")


def test_object_that_is_no_op_is_refused():
    with pytest.raises(Error, match="torch op"):
        register_attention_op(object(), variant="mine")
