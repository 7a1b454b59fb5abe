"""A profiled program computes, bit for bit, what it computes alone; it never fails for being profiled."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headscope import AttentionProfiler
from helpers.memory import allocated_bytes
from helpers.programs import Block, EagerBlock, autocast, checkpointed, trained
from helpers.watching import watch
from helpers.work import forward_flops

EAGER = ["off", "basic", "detail"]


def assert_same(plain: Any, profiled: Any) -> None:
    assert len(plain) == len(profiled)
    for one, other in zip(plain, profiled, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def by_hand(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ key.transpose(-2, -1), -1) @ value


# Training.

WAYS: dict[str, Callable[[nn.Module], Callable[[torch.Tensor], torch.Tensor]]] = {
    "plainly": lambda model: model,
    "under autocast": autocast,
    "with checkpoints": lambda model: checkpointed(model, reentrant=False),
    "with reentrant checkpoints": lambda model: checkpointed(model, reentrant=True),
}


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("block", [Block, EagerBlock])
@pytest.mark.parametrize("way", WAYS)
def test_training_is_the_same(way, block, eager):
    model = block()
    parameters, x = list(model.parameters()), torch.randn(2, 12, 32)
    run = WAYS[way](model)

    plain = trained(run, parameters, x)
    watched = watch(lambda: trained(run, parameters, x), model, eager=eager)

    assert_same(plain, watched.result)
    seen = block is Block or eager != "off"
    assert (watched.stats.total["calls"] > 0) == seen


@pytest.mark.parametrize("block", [Block, EagerBlock])
def test_compiled_training_is_the_same(private_cache, block):
    model = block()
    parameters, x = list(model.parameters()), torch.randn(2, 12, 32)
    compiled = torch.compile(model, fullgraph=True)
    plain = trained(compiled, parameters, x)

    again = watch(lambda: trained(compiled, parameters, x), model)
    torch._dynamo.reset()
    recompiled = watch(lambda: trained(torch.compile(model, fullgraph=True), parameters, x), model)

    assert_same(plain, again.result)
    assert_same(plain, recompiled.result)
    if block is Block:
        assert [call["direction"] for call in recompiled.calls()] == ["forward", "backward"]


def test_math_path_is_the_same():
    model = Block()
    parameters, x = list(model.parameters()), torch.randn(2, 12, 32)

    with sdpa_kernel(SDPBackend.MATH):
        plain = trained(model, parameters, x)
        watched = watch(lambda: trained(model, parameters, x), model)

    assert_same(plain, watched.result)
    assert {call["variant"] for call in watched.calls()} == {"sdpa_math"}


def test_dropout_draws_the_same_numbers():
    tensors = [torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3)]

    def program() -> list[torch.Tensor]:
        torch.manual_seed(3)
        out = F.scaled_dot_product_attention(*tensors, dropout_p=0.5)
        return [out, *torch.autograd.grad(out.sum(), tensors)]

    plain = program()

    assert_same(plain, watch(program, eager="detail").result)


def test_checkpoint_repeats_its_forward_as_recompute():
    model = Block()
    run = checkpointed(model, reentrant=False)

    calls = watch(lambda: trained(run, list(model.parameters()), torch.randn(2, 12, 32)), model).calls()

    assert [call["direction"] for call in calls] == ["forward", "recompute", "backward"]
    assert calls[0]["flops"] == calls[1]["flops"]


COMPILED_PROGRAM = """
import json, sys, torch
if sys.argv[1] == "profiled":
    from headscope import AttentionProfiler
torch.manual_seed(0)
tensors = [torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3)]

def attend(query, key, value):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True) + query

def step(attend):
    out = attend(*tensors)
    assert out.grad_fn is not None
    return [out, *torch.autograd.grad(out.square().sum(), tensors)]

compiled = torch.compile(attend, fullgraph=True)
if sys.argv[1] == "profiled":
    with AttentionProfiler() as profiler:
        outcome = step(compiled)
    calls = profiler.get_stats().total["calls"]
else:
    outcome, calls = step(compiled), None
    assert "headscope" not in sys.modules
torch.testing.assert_close(outcome, step(attend))
hits = torch._dynamo.utils.counters["aot_autograd"].get("autograd_cache_hit", 0)
print(json.dumps({"sums": [tensor.double().sum().item() for tensor in outcome], "calls": calls, "hits": hits}))
"""


def test_code_compiled_while_profiling_is_right_in_a_later_process(run_python, tmp_path, monkeypatch):
    """What the compiler keeps on disk must not be made of hooked graphs that have lost their gradients."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "shared"))
    monkeypatch.setenv("TORCHINDUCTOR_AUTOGRAD_CACHE", "1")
    script = tmp_path / "program.py"
    script.write_text(COMPILED_PROGRAM)

    def run(how: str) -> dict[str, Any]:
        process = run_python(str(script), how)
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    profiled, later = run("profiled"), run("plain")

    assert profiled["calls"] == 2
    assert (profiled["hits"], later["hits"]) == (0, 1)
    assert profiled["sums"] == later["sums"]


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_dynamic_shapes_make_as_many_graphs(private_cache, attend, eager):
    from torch._dynamo.testing import CompileCounterWithBackend

    def graphs(profiled: bool) -> int:
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(attend, backend=counter, dynamic=True)

        def lengths() -> None:
            for length in (5, 6, 7, 9, 11):
                compiled(*(torch.randn(2, 2, length, 16, requires_grad=True) for _ in range(3))).sum().backward()

        if profiled:
            watch(lengths, eager=eager)
        else:
            lengths()
        return counter.frame_count

    assert graphs(True) == graphs(False) == 1


# Tensors of other kinds. Each says whether it is counted.


def unchanged(program: Callable[[], torch.Tensor], **options: Any) -> list[dict[str, Any]]:
    plain = program()
    watched = watch(program, **options)
    assert_same([plain], [watched.result])
    return watched.calls()


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
@pytest.mark.parametrize("shape", [(0, 2, 8, 16), (1, 0, 8, 16), (1, 2, 0, 16)])
def test_empty_tensors_have_no_work(shape, attend, eager):
    tensors = [torch.randn(shape) for _ in range(3)]

    calls = unchanged(lambda: attend(*tensors), eager=eager)

    assert all(call["flops"] == 0 for call in calls)


def test_no_keys_at_all_are_no_work():
    query, key = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 0, 16)

    def program() -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, key).isnan()

    assert all(call["flops"] == 0 for call in unchanged(program))


@pytest.mark.parametrize("eager", EAGER)
def test_three_axes_are_one_head_a_batch_entry(eager):
    tensors = [torch.randn(3, 8, 16) for _ in range(3)]

    (call,) = unchanged(lambda: F.scaled_dot_product_attention(*tensors), eager=eager)

    # torch 2.14 adds the missing axis in front and stays on the fused kernel.
    heads_of_entry = (1, 3) if call["variant"] == "sdpa_flash" else (3, 1)
    assert (call["batch"], call["heads"], call["flops"]) == (*heads_of_entry, forward_flops(3 * 8 * 8, 16))


def test_two_axes_are_one_head():
    tensors = [torch.randn(8, 16) for _ in range(3)]

    (call,) = unchanged(lambda: F.scaled_dot_product_attention(*tensors))

    assert (call["batch"], call["heads"], call["flops"]) == (1, 1, forward_flops(8 * 8, 16))


@pytest.mark.parametrize("eager", EAGER)
def test_five_axes_have_a_batch_of_the_first_two(eager):
    tensors = [torch.randn(2, 3, 4, 8, 16) for _ in range(3)]

    (call,) = unchanged(lambda: F.scaled_dot_product_attention(*tensors), eager=eager)

    assert (call["batch"], call["heads"], call["flops"]) == (6, 4, forward_flops(6 * 4 * 8 * 8, 16))


@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_six_axes_are_counted(attend):
    tensors = [torch.randn(2, 1, 2, 2, 4, 8) for _ in range(3)]

    (call,) = unchanged(lambda: attend(*tensors))

    assert call["flops"] == forward_flops(8 * 4 * 4, 8)


@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_views_are_counted_as_their_elements(attend):
    packed = torch.randn(2, 8, 3, 4, 16)

    (call,) = unchanged(lambda: attend(*packed.permute(2, 0, 3, 1, 4)))

    assert call["flops"] == forward_flops(2 * 4 * 8 * 8, 16)
    assert call["bytes"] == 4 * (2 * 8 * 4 * 16) * 4


def test_last_axis_with_a_stride_is_counted():
    tensors = [torch.randn(1, 2, 16, 8).transpose(-2, -1) for _ in range(3)]

    (call,) = unchanged(lambda: F.scaled_dot_product_attention(*tensors))

    assert call["flops"] == forward_flops(2 * 8 * 8, 16)


def test_expanded_keys_are_read_once():
    query = torch.randn(1, 4, 8, 16)
    key = torch.randn(1, 1, 8, 16).expand(1, 4, 8, 16)
    value = torch.randn(1, 1, 8, 16).expand(1, 4, 8, 16)

    (call,) = unchanged(lambda: F.scaled_dot_product_attention(query, key, value))

    assert call["flops"] == forward_flops(4 * 8 * 8, 16)
    assert call["bytes"] == 4 * (2 * 4 * 8 * 16 + 2 * 8 * 16)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_other_dtypes_are_counted_by_their_size(attend, dtype):
    tensors = [torch.randn(1, 2, 8, 16, dtype=dtype) for _ in range(3)]

    (call,) = unchanged(lambda: attend(*tensors))

    assert call["dtype"] == str(dtype).removeprefix("torch.")
    assert call["bytes"] == 4 * (2 * 8 * 16) * dtype.itemsize


def test_mixed_dtypes_under_autocast_are_one_call():
    query, key = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 8, 16, dtype=torch.bfloat16)

    def program() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.scaled_dot_product_attention(query, key, key)

    (call,) = unchanged(program)

    assert call["flops"] == forward_flops(2 * 8 * 8, 16)


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
@pytest.mark.parametrize("shape", [(8, 8), (1, 8), (1, 1, 8), (2, 1, 1, 8), (1, 4, 8, 8), (2, 4, 8, 1)])
def test_masks_of_any_shape_are_counted(shape, dtype, eager):
    tensors = [torch.randn(2, 4, 8, 16) for _ in range(3)]
    keep = torch.rand(shape) > 0.3
    keep[..., 0] = True
    mask = keep if dtype == torch.bool else torch.zeros(shape).masked_fill(~keep, float("-inf"))

    (call,) = unchanged(lambda: F.scaled_dot_product_attention(*tensors, attn_mask=mask), eager=eager)

    assert (call["mask"], call["flops"]) == ("counted", forward_flops(int(keep.expand(2, 4, 8, 8).sum()), 16))


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_jagged_tensors_are_not_counted(eager):
    lengths = (3, 7)
    nested = torch.nested.nested_tensor([torch.randn(n, 2, 16) for n in lengths], layout=torch.jagged).transpose(1, 2)

    def program() -> torch.Tensor:
        return torch.cat([part.flatten() for part in F.scaled_dot_product_attention(nested, nested, nested).unbind()])

    assert unchanged(program, eager=eager) == []


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_not_counted(eager):
    lengths = (3, 7)
    nested = torch.nested.nested_tensor([torch.randn(2, n, 16) for n in lengths])

    def program() -> torch.Tensor:
        return torch.cat([part.flatten() for part in F.scaled_dot_product_attention(nested, nested, nested).unbind()])

    assert unchanged(program, eager=eager) == []


def test_meta_tensors_are_not_counted():
    tensors = [torch.randn(1, 2, 8, 16, device="meta") for _ in range(3)]

    watched = watch(lambda: (F.scaled_dot_product_attention(*tensors), by_hand(*tensors)), eager="detail")

    assert watched.result[0].device.type == "meta"
    assert watched.calls() == []


@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_fake_tensors_are_not_counted(attend):
    from torch._subclasses.fake_tensor import FakeTensorMode

    def program() -> torch.Size:
        with FakeTensorMode():
            tensors = [torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3)]
            out = attend(*tensors)
            out.sum().backward()
            return out.shape

    watched = watch(program, eager="detail")

    assert watched.result == (1, 2, 8, 16)
    assert watched.calls() == []


def test_subclasses_of_tensor_are_unchanged():
    class Named(torch.Tensor):
        pass

    tensors = [torch.randn(1, 2, 8, 16).as_subclass(Named) for _ in range(3)]

    watched = watch(lambda: F.scaled_dot_product_attention(*tensors))

    assert type(watched.result) is Named
    assert watched.call["flops"] == forward_flops(2 * 8 * 8, 16)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_dispatch_modes_see_the_same_ops():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    tensors = [torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3)]

    def program() -> list[str]:
        with Names() as names:
            torch.autograd.grad(F.scaled_dot_product_attention(*tensors).sum(), tensors)
            by_hand(*tensors)
        return names.seen

    assert watch(program).result == program()


# Modes and transforms.


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_modes_without_gradients_are_counted(attend, mode):
    tensors = [torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3)]

    def program() -> torch.Tensor:
        with mode():
            return attend(*tensors).clone()

    (call,) = unchanged(program)

    assert call["flops"] == forward_flops(2 * 8 * 8, 16)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_vmap_is_counted(attend):
    tensors = [torch.randn(3, 1, 2, 8, 16) for _ in range(3)]

    calls = unchanged(lambda: torch.vmap(attend)(*tensors))

    assert sum(call["flops"] for call in calls) == forward_flops(3 * 2 * 8 * 8, 16)


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand])
def test_functional_gradients_are_counted_or_left_out(attend, eager):
    tensors = [torch.randn(1, 2, 8, 16) for _ in range(3)]

    calls = unchanged(lambda: torch.func.grad(lambda *t: attend(*t).sum())(*tensors), eager=eager)

    forward = [call for call in calls if call["direction"] == "forward"]
    if attend is F.scaled_dot_product_attention or eager != "off":
        assert [call["flops"] for call in forward] == [forward_flops(2 * 8 * 8, 16)]
    else:
        assert calls == []


@pytest.mark.parametrize("attend", [by_hand])
def test_forward_mode_and_second_derivatives_are_unchanged(attend):
    tensors = [torch.randn(1, 1, 4, 4, dtype=torch.float64) for _ in range(3)]

    unchanged(lambda: torch.func.jvp(attend, tuple(tensors), tuple(tensors))[1], eager="detail")
    unchanged(lambda: torch.func.hessian(lambda q: attend(q, *tensors[1:]).sum())(tensors[0]), eager="detail")


def test_export_is_the_same_graph_and_no_call():
    tensors = tuple(torch.randn(1, 2, 8, 16) for _ in range(3))

    class Attend(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(query, key, value) + by_hand(query, key, value)

    def program() -> str:
        return torch.export.export(Attend(), tensors).graph_module.code

    plain = program()
    watched = watch(program, eager="detail")

    assert watched.result == plain
    assert watched.calls() == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traced_program_is_the_same_and_counted():
    tensors = tuple(torch.randn(1, 2, 8, 16) for _ in range(3))

    def trace() -> torch.jit.ScriptFunction:
        return torch.jit.trace(lambda *t: F.scaled_dot_product_attention(*t), tensors)

    plain = trace()
    traced = watch(trace).result
    assert str(traced.graph) == str(plain.graph)

    (call,) = unchanged(lambda: traced(*tensors))

    assert call["flops"] == forward_flops(2 * 8 * 8, 16)


def test_deep_copied_and_swapped_parameters_are_unchanged():
    model = Block()
    x = torch.randn(2, 12, 32)

    def program() -> torch.Tensor:
        parameters = {name: parameter * 2 for name, parameter in model.named_parameters()}
        return torch.func.functional_call(model, parameters, (x,))

    (call,) = unchanged(program)

    assert call["flops"] == forward_flops(2 * 4 * (12 * 13 // 2), 8)


# Failing ops.


@pytest.mark.parametrize("eager", EAGER)
def test_exception_of_an_op_passes_unchanged_and_its_call_is_counted_as_failed(eager):
    query, key = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 8, 12)

    def failure(program: Callable[[], Any]) -> tuple[type, str]:
        with pytest.raises(RuntimeError) as caught:
            program()
        return type(caught.value), str(caught.value).split("\n")[0]

    def attend() -> None:
        F.scaled_dot_product_attention(query, key, key)

    plain = failure(attend)
    watched = watch(lambda: failure(attend), eager=eager)

    assert watched.result == plain
    assert watched.calls() == []
    assert watched.stats["diagnostics"]["calls_failed"] == 1


def test_failing_kernel_is_one_failed_call_and_the_next_one_is_seen():
    with torch.library._scoped_library("headscope_failing", "DEF") as library:
        library.define("attention(Tensor query, Tensor key, Tensor value) -> Tensor")

        class Refused(Exception):
            pass

        def refuse(query, key, value):
            raise Refused("no")

        library.impl("attention", refuse, "CPU")
        import headscope

        headscope.register_attention_op("headscope_failing::attention", variant="failing")
        query = torch.randn(1, 2, 8, 16)

        def program() -> None:
            with pytest.raises(Refused, match="no"):
                torch.ops.headscope_failing.attention(query, query, query)
            F.scaled_dot_product_attention(query, query, query)

        watched = watch(program)

    assert watched.call["variant"] == "sdpa_flash"
    assert watched.stats["diagnostics"]["calls_failed"] == 1


@pytest.mark.parametrize("eager", EAGER)
def test_failing_product_passes_its_exception(eager):
    query, key = torch.randn(2, 8, 16), torch.randn(2, 12, 8)

    def program() -> str:
        with pytest.raises(RuntimeError) as caught:
            torch.bmm(query, key)
        return str(caught.value)

    assert watch(program, eager=eager).result == program()


def test_exception_in_a_backward_passes_unchanged():
    tensors = [torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3)]

    class Refused(Exception):
        pass

    def refuse(gradient: torch.Tensor) -> None:
        raise Refused

    def program() -> None:
        out = F.scaled_dot_product_attention(*tensors)
        out.register_hook(refuse)
        with pytest.raises(Refused):
            out.sum().backward()

    assert [call["direction"] for call in watch(program).calls()] == ["forward"]


# Lifetimes.


@pytest.mark.parametrize("eager", EAGER)
@pytest.mark.parametrize("way", ["fused", "math", "by hand", "unfinished"])
def test_no_tensor_is_kept_alive(way, eager):
    def attend() -> list[weakref.ref]:
        query, key, value = (torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3))
        mask = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1) > 0, float("-inf"))
        scores = query @ key.transpose(-2, -1) + mask
        tensors = [query, key, value, mask, scores]
        if way == "unfinished":
            tensors.append(scores.softmax(-1))
        elif way == "by hand":
            probabilities = scores.softmax(-1)
            out = probabilities @ value
            out.sum().backward()
            tensors += [probabilities, out]
        else:
            with sdpa_kernel(SDPBackend.MATH if way == "math" else SDPBackend.FLASH_ATTENTION):
                out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
                out.sum().backward()
            tensors.append(out)
        return [weakref.ref(tensor) for tensor in tensors]

    gc.collect()
    with AttentionProfiler(eager=eager, keep_calls=10):
        references = attend()
        gc.collect()
        alive = [reference() for reference in references if reference() is not None]

        assert alive == []


@pytest.mark.parametrize("eager", EAGER)
def test_memory_of_operands_is_given_back_while_profiling(eager):
    """Without weak references the storages of 300 operands of 1 MB each would stay allocated."""

    def attend() -> None:
        query = torch.ones(1, 8, 32, 1024)
        F.scaled_dot_product_attention(query, query, query, attn_mask=torch.zeros(32, 32))
        by_hand(query, query, query)

    with torch.no_grad(), AttentionProfiler(eager=eager):
        for _ in range(5):
            attend()
        before = allocated_bytes()
        for _ in range(300):
            attend()
        grown = allocated_bytes() - before

    assert grown < 10_000_000


# Threads.


def test_threads_compute_the_same_and_each_call_is_counted_once():
    tensors = [torch.randn(1, 2, 8, 16) for _ in range(3)]
    plain = [F.scaled_dot_product_attention(*tensors), by_hand(*tensors)]
    results: list[list[torch.Tensor]] = []

    def work() -> None:
        results.append([F.scaled_dot_product_attention(*tensors), by_hand(*tensors)])

    def program() -> None:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    watched = watch(program, eager="detail")

    for result in results:
        assert_same(plain, result)
    assert len(results) == 8
    assert sorted(call["variant"] for call in watched.calls()) == 8 * ["eager"] + 8 * ["sdpa_flash"]
