"""Ways to run a backward pass: threads, retained graphs, second order, frozen parts, adapters."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from helpers.training import FULL, VARIANTS, Attention, D, Stack, batch, by_hand, flash, math_path, stack
from helpers.watching import watch

X = FULL * D


def run_in_thread(work):
    failures = []

    def guarded():
        try:
            work()
        except BaseException as failure:  # handed to the test's own thread
            failures.append(failure)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def layers_of(watched, direction):
    return [call["layer"] for call in watched.calls(direction)]


def assert_linked(watched):
    forwards = {call["call_id"]: call["layer"] for call in watched.calls("forward")}
    for call in watched.calls("backward"):
        assert forwards[call["forward_call_id"]] == call["layer"]


@pytest.mark.parametrize("name", VARIANTS)
def test_backward_called_from_another_thread_names_its_forward(name):
    """pytorch#144778: the range of a forward does not cover its backward."""
    model = stack(name)

    watched = watch(lambda: run_in_thread(model(batch()).sum().backward), model)

    assert layers_of(watched, "backward") == list(VARIANTS[name].layers)[::-1]
    assert_linked(watched)


@pytest.mark.parametrize(("attend", "backend"), [(flash, "inductor"), (by_hand, "aot_eager")])
def test_compiled_backward_called_from_another_thread_names_its_forward(attend, backend, private_cache):
    """pytorch#144778, compiled: no module and no node of the forward is left to ask."""
    model = Stack(lambda: Attention(attend))
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    compiled(batch()).sum().backward()

    watched = watch(lambda: run_in_thread(compiled(batch()).sum().backward), model)

    assert Counter(layers_of(watched, "backward")) == {"layers.0": 1, "layers.1": 1}
    assert_linked(watched)


def test_threads_that_train_replicas_keep_their_calls_apart():
    replicas = [Stack(lambda: Attention(flash)) for _ in range(4)]
    model = nn.ModuleList(replicas)

    def train():
        threads = [
            threading.Thread(target=lambda r=replica: [r(batch()).sum().backward() for _ in range(10)])
            for replica in replicas
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with_profiler = watch(train, model)

    names = [f"{i}.layers.{j}" for i in range(4) for j in range(2)]
    rows = {(row["layer"], row["direction"]): row["calls"] for row in with_profiler.stats.rows()}
    assert rows == {(name, direction): 10 for name in names for direction in ("forward", "backward")}


@pytest.mark.parametrize("name", VARIANTS)
def test_two_backwards_of_a_retained_graph_are_two_calls_of_one_forward(name):
    model = stack(name)

    def step():
        loss = model(batch()).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    watched = watch(step, model)

    assert Counter(layers_of(watched, "backward")) == dict.fromkeys(VARIANTS[name].layers, 2)
    assert {call["flops"] for call in watched.calls("backward")} == {VARIANTS[name].backward_flops}
    assert_linked(watched)


def gradient_penalty(attend):
    q, k, v = (torch.randn(1, 2, 4, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    (grad,) = torch.autograd.grad(attend(q, k, v).square().sum(), q, create_graph=True)
    grad.square().sum().backward()
    return q.grad, k.grad, v.grad


@pytest.mark.parametrize("attend", [by_hand_small := (lambda q, k, v: (q @ k.mT).softmax(-1) @ v), None])
def test_double_backward_gives_the_same_gradients(attend):
    def math_attend(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(q, k, v)

    torch.manual_seed(1)
    plain = gradient_penalty(attend or math_attend)
    torch.manual_seed(1)
    watched = watch(lambda: gradient_penalty(attend or math_attend))

    assert all(torch.equal(a, b) for a, b in zip(plain, watched.result, strict=True))
    assert watched.calls("forward")[0]["flops"] == 2 * (2 * 4 * 4) * 16
    assert watched.calls("backward")
    assert watched.stats.diagnostics["hook_errors"] == 0


def test_double_backward_of_a_fused_kernel_is_torchs_own_error():
    def second_order():
        q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
        (grad,) = torch.autograd.grad(scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)
        grad.sum().backward()

    with pytest.raises(RuntimeError) as plain:
        second_order()
    with pytest.raises(RuntimeError) as watched:
        watch(second_order)

    assert str(watched.value) == str(plain.value)


# Products of an eager backward by which inputs need gradients, in units of 2·P·D: dP for Q or K, then dQ, dK, dV.
FROZEN = {"qkv": 4, "qk": 3, "q": 2, "k": 2, "qv": 3, "kv": 3}


@pytest.mark.parametrize("attend", [by_hand, math_path])
@pytest.mark.parametrize("trained", FROZEN)
def test_eager_backward_with_frozen_inputs_counts_what_ran(trained, attend):
    inputs = {name: torch.randn(2, 4, 8, 16, requires_grad=name in trained) for name in "qkv"}

    def step():
        attend(*inputs.values()).sum().backward()

    with_frozen = watch(step)

    (backward,) = with_frozen.calls("backward")
    assert backward["flops"] == FROZEN[trained] * 2 * X
    assert_linked(with_frozen)


class Adapted(nn.Module):
    """A frozen projection with a trained one of low rank beside it."""

    def __init__(self, frozen: nn.Linear) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, 4, bias=False)
        self.up = nn.Linear(4, frozen.out_features, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


@pytest.mark.parametrize("attend", [by_hand, math_path, flash])
def test_adapters_on_queries_and_values_leave_each_layer_its_backward(attend):
    model = Stack(lambda: Attention(attend)).requires_grad_(False)
    for layer in model.layers:
        layer.q_proj, layer.v_proj = Adapted(layer.q_proj), Adapted(layer.v_proj)

    watched = watch(lambda: model(batch().detach()).sum().backward(), model)

    assert layers_of(watched, "backward") == ["layers.1", "layers.0"]
    assert_linked(watched)
    if attend is not flash:
        # The first layer's keys come from an input without gradients: its backward makes no dK.
        assert [call["flops"] for call in watched.calls("backward")] == [8 * X, 6 * X]
