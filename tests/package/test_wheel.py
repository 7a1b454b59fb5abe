"""The installed package serves C++ programs too."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headscope

CONSUMER = Path(__file__).parent / "consumer"


def test_a_cpp_program_builds_against_the_installed_package_and_runs(tmp_path: Path) -> None:
    tools = [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]
    if tools:
        pytest.skip(f"needs {' and '.join(tools)} on PATH")
    configure = [
        "cmake",
        f"-S{CONSUMER}",
        f"-B{tmp_path}",
        f"-DCMAKE_PREFIX_PATH={headscope.cmake_prefix_path}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    for command in (configure, ["cmake", "--build", str(tmp_path)]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    program = subprocess.run([tmp_path / "consumer"], capture_output=True, text=True, check=True)
    assert program.stdout == f"headscope {headscope.__version__} saw 0 calls\n"


def test_the_wheel_has_no_dependency_that_pip_could_install_over_torch() -> None:
    required = importlib.metadata.requires("headscope") or []
    assert [line for line in required if "extra ==" not in line] == []
