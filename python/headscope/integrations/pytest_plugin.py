"""pytest: the fixture `attention_profiler` and the mark `attention_budget`.

Loaded by every run of pytest, so torch and the C++ core are imported only by a test that uses one of the two.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headscope.profiler import AttentionProfiler

_MARK = "attention_budget"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARK}(**limits): fail when the attention of the test is over budget; keywords as for headscope.Budget",
    )


@pytest.fixture
def attention_profiler() -> Iterator[AttentionProfiler]:
    """A running AttentionProfiler that has seen nothing yet; stopped after the test.

    Its `assert_budget(...)` checks what the test has run so far.
    """
    from headscope import AttentionProfiler

    profiler = AttentionProfiler()
    profiler.reset()
    with profiler:
        yield profiler


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    budgets = list(item.iter_markers(_MARK))
    if not budgets:
        return (yield)
    from headscope import AttentionProfiler, Budget

    limits = [mark.args[0] if mark.args else Budget(**mark.kwargs) for mark in budgets]
    with AttentionProfiler() as profiler:
        result = yield
    stats = profiler.get_stats()
    for limit in limits:
        stats.assert_budget(limit)
    return result
