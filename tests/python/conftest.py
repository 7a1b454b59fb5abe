"""Shared by all tests: small inputs, and a private cache for whatever compiles."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# Before torch is imported: compiled code of these tests must not reach the user's cache.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="headscope-inductor-")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch

pytest_plugins = ["pytester"]

PACKAGE_PARENT = Path(importlib.import_module("headscope").__file__ or "").parents[1]


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def attend() -> Callable[..., torch.Tensor]:
    """Runs fused attention of `batch` × `heads` × `length` × `dim`, once."""

    def run(batch: int = 1, heads: int = 2, length: int = 16, dim: int = 8, *, grad: bool = False) -> torch.Tensor:
        query, key, value = (torch.randn(batch, heads, length, dim, requires_grad=grad) for _ in range(3))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    return run


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code (or arguments of the interpreter) in a process of its own, in an empty folder."""

    def run(*arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(arguments if len(arguments) > 1 else ("-c", arguments[0]))]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE_PARENT)}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, cwd=tmp_path, env=environment, check=False
        )

    return run


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of compiled code for this test alone, so that it compiles what it runs."""
    cache = tmp_path / "inductor"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    torch._dynamo.reset()
    yield cache
    torch._dynamo.reset()


@pytest.fixture
def plugin_arguments() -> list[str]:
    """What makes pytest load the plugin where headscope is not installed."""
    names = {entry.value for entry in importlib.metadata.entry_points(group="pytest11")}
    module = "headscope.integrations.pytest_plugin"
    return [] if module in names else ["-p", module]
