"""What counts as a recompute, and which forward it repeats."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from helpers.training import FULL, Attention, B, D, H, S, Stack, batch, by_hand, flash, math_path, own_op
from helpers.watching import watch

X = FULL * D
both_kinds = pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non-reentrant"])


def operands():
    return tuple(torch.randn(B, H, S, D, requires_grad=True) for _ in range(3))


def story(watched):
    """(direction, layer) of each call, in the order of the run."""
    return [(call["direction"], call["layer"]) for call in watched.calls()]


def directions(watched):
    return Counter(call["direction"] for call in watched.calls())


def repeated(watched):
    """The layer of each recompute; its forward must be of that layer."""
    layer_of = {call["call_id"]: call["layer"] for call in watched.calls("forward")}
    calls = watched.calls("recompute") + watched.calls("backward")
    assert all(layer_of[call["forward_call_id"]] == call["layer"] for call in calls)
    return [call["layer"] for call in watched.calls("recompute")]


# Which forward is repeated.


@both_kinds
@pytest.mark.parametrize("attend", [flash, by_hand, own_op])
def test_attentions_of_one_segment_keep_their_order(attend, reentrant):
    def segment(q, k, v):
        x = attend(q, k, v) * 2
        x = attend(x, k, v) * 2
        return attend(x, k, v) * 2

    def step():
        x, k, v = operands()
        for _ in range(2):
            x = checkpoint(segment, x, k, v, use_reentrant=reentrant)
        x.sum().backward()

    watched = watch(step)

    names = [f"attention[{i}]" for i in range(6)]
    assert repeated(watched) == names[3:] + names[:3]
    assert [call["layer"] for call in watched.calls("backward")] == names[::-1]


@both_kinds
def test_checkpoint_of_the_core_alone_is_named_like_the_module_around_it(reentrant):
    def core(q, k, v):
        return checkpoint(flash, q, k, v, use_reentrant=reentrant)

    model = Stack(lambda: Attention(core))

    watched = watch(lambda: model(batch()).sum().backward(), model)

    assert repeated(watched) == ["layers.1", "layers.0"]


@pytest.mark.parametrize("inner_reentrant", [True, False], ids=["inner reentrant", "inner non-reentrant"])
@pytest.mark.parametrize("outer_reentrant", [True, False], ids=["outer reentrant", "outer non-reentrant"])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_nested_checkpoints_repeat_each_run_of_a_layer_but_the_first(outer_reentrant, inner_reentrant):
    model = Stack(lambda: Attention(flash), reentrant=inner_reentrant)
    runs = Counter()
    for i, layer in enumerate(model.layers):
        layer.out_proj.register_forward_pre_hook(lambda *_, name=f"layers.{i}": runs.update([name]))

    watched = watch(lambda: checkpoint(model, batch(), use_reentrant=outer_reentrant).sum().backward(), model)

    assert Counter(repeated(watched)) == runs - Counter(["layers.0", "layers.1"])
    assert directions(watched)["forward"] == directions(watched)["backward"] == 2


@pytest.mark.parametrize("attend", [flash, by_hand, own_op])
def test_second_backward_of_a_retained_graph_repeats_the_same_forwards(attend):
    model, x = Stack(lambda: Attention(attend), reentrant=False), batch()

    def step():
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    watched = watch(step, model)

    assert repeated(watched) == ["layers.1", "layers.0"] * 2
    assert directions(watched) == {"forward": 2, "recompute": 4, "backward": 4}


@both_kinds
def test_reference_model_without_gradients_is_not_what_is_repeated(reentrant):
    policy, reference, x = Stack(lambda: Attention(flash), reentrant), Stack(lambda: Attention(flash)), batch()

    def step():
        with torch.no_grad():
            reference(x)
        loss = policy(x).sum()
        with torch.no_grad():
            reference(x)
        loss.backward()

    watched = watch(step)

    assert repeated(watched) == ["attention[3]", "attention[2]"]


@both_kinds
def test_later_steps_repeat_their_own_forwards(reentrant):
    model = Stack(lambda: Attention(flash), reentrant)

    def steps():
        for _ in range(5):
            model(batch()).sum().backward()

    watched = watch(steps)

    forwards = [call["call_id"] for call in watched.calls("forward")]
    pairs = zip(forwards[::2], forwards[1::2], strict=True)
    assert [call["forward_call_id"] for call in watched.calls("recompute")] == [i for pair in pairs for i in pair[::-1]]


@both_kinds
def test_sequence_of_checkpoints(reentrant):
    layers = nn.Sequential(*(Attention(flash) for _ in range(4)))

    watched = watch(lambda: checkpoint_sequential(layers, 2, batch(), use_reentrant=reentrant).sum().backward(), layers)

    # The last chunk is not checkpointed.
    assert repeated(watched) == ["0", "1"]


@both_kinds
def test_transformers_gradient_checkpointing(reentrant):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=99,
    )
    model = transformers.LlamaForCausalLM(config).train()
    # transformers 5 renames it.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    tokens = torch.arange(3, 13)[None]

    watched = watch(lambda: model(input_ids=tokens, labels=tokens).loss.backward(), model)

    names = [f"model.layers.{i}.self_attn" for i in range(3)]
    assert repeated(watched) == names[::-1]
    assert [call["layer"] for call in watched.calls("backward")] == names[::-1]


# Selective checkpointing: the policy says what is kept.


@pytest.mark.parametrize("policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE])
def test_selective_checkpoint_recomputes_what_its_policy_does_not_save(policy):
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    model = Attention(flash)

    def decide(context, called, *args, **kwargs):
        return policy if called == op else CheckpointPolicy.PREFER_RECOMPUTE

    def step():
        contexts = functools.partial(create_selective_checkpoint_contexts, decide)
        checkpoint(model, batch(), use_reentrant=False, context_fn=contexts).sum().backward()

    watched = watch(step, model)

    saved = policy == CheckpointPolicy.MUST_SAVE
    assert directions(watched) == {"forward": 1, "backward": 1} | ({} if saved else {"recompute": 1})
    assert {call["variant"] for call in watched.calls()} == {"sdpa_flash"}
    repeated(watched)


# Compiled segments.


@both_kinds
def test_checkpointed_compiled_layers(reentrant, private_cache):
    model = Stack(lambda: torch.compile(Attention(flash)), reentrant)
    model(batch()).sum().backward()

    watched = watch(lambda: model(batch()).sum().backward())

    assert repeated(watched) == ["attention[1]", "attention[0]"]


def test_checkpoint_inside_compiled_code(private_cache):
    model = Stack(lambda: Attention(flash), reentrant=False)
    compiled = torch.compile(model, fullgraph=True)
    compiled(batch()).sum().backward()

    watched = watch(lambda: compiled(batch()).sum().backward())

    assert directions(watched) == {"forward": 2, "recompute": 2, "backward": 2}
    assert repeated(watched) == ["attention[1]", "attention[0]"]


# A forward in a backward pass that repeats nothing.


class AttendsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return scaled_dot_product_attention(q, k, v)

    @staticmethod
    def backward(ctx, grad):
        scaled_dot_product_attention(*ctx.saved_tensors)
        return grad, grad, grad


def kinds(watched):
    return [(call["direction"], call["inside_backward"]) for call in watched.calls()]


OWN = [("forward", False), ("forward", True)]


def test_attention_of_a_functions_backward_is_a_forward():
    assert kinds(watch(lambda: AttendsInBackward.apply(*operands()).sum().backward())) == OWN


def test_attention_of_a_functions_backward_under_hooks_is_a_forward():
    def step():
        with save_on_cpu():
            AttendsInBackward.apply(*operands()).sum().backward()

    assert kinds(watch(step)) == OWN


def test_attention_of_a_tensor_hook_is_a_forward():
    def step():
        q, k, v = operands()
        x = scaled_dot_product_attention(q, k, v)
        x.register_hook(lambda grad: scaled_dot_product_attention(grad, grad, grad))
        x.sum().backward()

    assert kinds(watch(step)) == [*OWN, ("backward", False)]


def test_attention_of_a_hook_on_a_leaf_is_a_forward():
    def attend(leaf):
        scaled_dot_product_attention(leaf, leaf, leaf)

    def step():
        q, k, v = operands()
        q.register_post_accumulate_grad_hook(attend)
        scaled_dot_product_attention(q, k, v).sum().backward()

    assert kinds(watch(step)) == [("forward", False), ("backward", False), ("forward", True)]


def test_attention_of_a_hook_with_gradients_is_a_forward():
    def attend(grad):
        with torch.enable_grad():
            scaled_dot_product_attention(grad, grad, grad)

    def step():
        q, k, v = operands()
        x = scaled_dot_product_attention(q, k, v)
        x.register_hook(attend)
        x.sum().backward()

    assert kinds(watch(step)) == [*OWN, ("backward", False)]


# Shares of the step.


def test_shares_tell_recompute_from_the_model():
    model = Stack(lambda: Attention(flash), reentrant=False)

    time = watch(lambda: model(batch()).sum().backward(), model).stats["time"]

    assert time["hardware_flops"] - time["model_flops"] == 2 * (4 + 2) * X  # and QKᵀ in the fused backward
    assert time["recompute_ns"] > 0


def test_math_path_in_a_checkpoint_is_recomputed_in_full_before_its_projection():
    model = Stack(lambda: Attention(math_path), reentrant=False)

    watched = watch(lambda: model(batch()).sum().backward(), model)

    assert [call["flops"] for call in watched.calls("recompute")] == [4 * X] * 2
    assert repeated(watched) == ["layers.1", "layers.0"]
