"""Wrong use is a headscope.Error (or ImportError) that says what to do."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import headscope
from headscope import AttentionProfiler, Budget, Error
from headscope._requirements import refuse_other_torch, refuse_unsupported_platform


@pytest.mark.parametrize(
    ("option", "wrong", "words"),
    [
        ("memory", "all", ("calls", "off")),
        ("eager", "full", ("basic", "off", "detail")),
        ("device_timing", "cuda", ("auto", "cupti", "host")),
        ("threads", 4, ("all", "current")),
        ("memory", None, ("calls", "off")),
    ],
)
def test_wrong_choice_lists_the_choices(option, wrong, words):
    with pytest.raises(Error) as caught:
        AttentionProfiler(**{option: wrong})
    assert option in str(caught.value)
    assert repr(wrong) in str(caught.value)
    assert all(f"'{word}'" in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("per_head", 1),
        ("decode_max_q", "1"),
        ("decode_max_q", 1.5),
        ("decode_max_q", 0),
        ("decode_max_q", 2**70),
        ("mask_count_budget", -1),
        ("keep_calls", -1),
        ("keep_calls", True),
    ],
)
def test_wrong_value_of_an_option_names_it(option, wrong):
    with pytest.raises(Error, match=option):
        AttentionProfiler(**{option: wrong})


@pytest.mark.parametrize("model", [[1, 2], "model", torch.randn(2)])
def test_model_that_is_no_module_names_the_remedy(model):
    with pytest.raises(Error, match=r"torch\.nn\.Module"):
        AttentionProfiler(model)


def test_holder_of_a_model_is_told_to_pass_it():
    class Pipeline:
        model = torch.nn.Linear(2, 2)

    with pytest.raises(Error, match=r"\.model"):
        AttentionProfiler(Pipeline())


def test_bare_decorator_is_told_to_call_first():
    with pytest.raises(Error, match=r"@AttentionProfiler\(\)"):

        @AttentionProfiler
        def work():
            pass


def test_decorating_no_function_is_refused():
    with pytest.raises(Error, match="decorates functions"):
        AttentionProfiler()(3)


def test_profiler_cannot_be_pickled_or_copied():
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(Error, match="get_stats"):
            way(AttentionProfiler())


def test_layer_name_must_be_a_str():
    with pytest.raises(Error, match="name must be a str"), headscope.layer(3):
        pass


@pytest.mark.parametrize(
    ("limit", "wrong"),
    [
        ("max_total_flops", -1),
        ("max_total_flops", "many"),
        ("max_total_flops", 1.5),
        ("max_total_flops", float("nan")),
        ("max_total_flops", 2**64),
        ("max_p50_us", float("inf")),
        ("max_p50_us", -2.0),
        ("min_gb_per_s", "fast"),
        ("layer", 3),
        ("phase", "training"),
        ("direction", "sideways"),
        ("forbid_variants", 5),
        ("forbid_variants", [5]),
        ("allow_missing", 1),
        ("max_flops", 1),
    ],
)
def test_wrong_limit_of_a_budget_names_it(limit, wrong):
    with pytest.raises(Error, match=limit):
        Budget(**{limit: wrong})


def test_wrong_phase_lists_the_phases():
    with pytest.raises(Error, match="'prefill', 'chunked_prefill', 'decode'"):
        Budget(phase="training")


def test_check_needs_something_to_check():
    stats = AttentionProfiler().get_stats()
    with pytest.raises(Error, match="Budget"):
        stats.check()
    with pytest.raises(Error, match="not both"):
        stats.check(Budget(max_total_flops=1), max_total_flops=2)
    with pytest.raises(Error, match=r"headscope\.Budget"):
        stats.check({"max_total_flops": 1})


def test_glob_must_be_a_str():
    with pytest.raises(Error, match="layer must be a str"):
        AttentionProfiler().get_stats().rows(layer=3)


def test_unknown_table_lists_the_tables():
    with pytest.raises(Error, match="'heads'"):
        AttentionProfiler().get_stats().to_pandas("rows")


@pytest.mark.parametrize("width", [-1, 3.5, "wide"])
def test_wrong_width_is_named(width):
    with pytest.raises(Error, match="width"):
        AttentionProfiler().get_stats().table(width=width)


@pytest.mark.parametrize(("platform", "word"), [("darwin", "macOS"), ("win32", "Windows"), ("sunos5", "sunos5")])
def test_other_platforms_are_refused_with_the_reason(platform, word):
    with pytest.raises(ImportError, match=word):
        refuse_unsupported_platform(platform)


@pytest.mark.parametrize("found", ["2.12.1", "2.14.0+cu130", "3.13.0"])
def test_other_minor_version_of_torch_is_refused_with_the_rebuild_line(found):
    with pytest.raises(ImportError, match="pip install --no-build-isolation --force-reinstall"):
        refuse_other_torch("2.13.0+cpu", found)


@pytest.mark.parametrize("found", ["2.13.0+cpu", "2.13.1", "2.13.0a0+git123"])
def test_same_minor_version_of_torch_is_accepted(found):
    refuse_other_torch("2.13.0+cpu", found)


def test_import_under_another_torch_fails_before_the_core_is_loaded(run_python):
    code = (
        "import torch, sys; torch.__version__ = '2.5.1'\n"
        "try:\n    from headscope import AttentionProfiler\n"
        "except ImportError as error:\n    print('--force-reinstall' in str(error), 'headscope._core' in sys.modules)"
    )
    done = run_python(code)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_import_without_torch_names_the_pip_line(run_python):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import headscope\n"
        "try:\n    headscope.AttentionProfiler\n"
        "except ImportError as error:\n    print(error)"
    )
    done = run_python(code)
    assert "pip install torch" in done.stdout, done.stderr
