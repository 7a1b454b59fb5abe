"""Which file may include what: the table of docs/architecture.md as data, and a checker for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SYSTEM = re.compile(r"[a-z_0-9]+|(time|unistd|pthread|dlfcn|link|fcntl|cxxabi|sched|sys/\w+|linux/\w+)\.h")


@dataclass(frozen=True)
class Layer:
    """What the files of one folder may include."""

    folder: str
    own: tuple[str, ...] = ()  # prefixes of headscope's own headers
    vendor: tuple[str, ...] = ()
    vendor_in_headers: bool = False


TYPES = ("headscope/types.h", "headscope/export.h")
EVERYTHING = (
    "headscope/",
    "base/",
    "records/",
    "capture/",
    "model/",
    "aggregate/",
    "probe/",
    "correlate/",
    "kv_cache/",
    "session/",
    "report/",
    "timeline/",
)

VENDOR_FOLDERS = ("capture/torch/", "timeline/cupti/")

# The first entry whose folder holds a file decides.
LAYERS = (
    Layer("include/headscope/testing.h", ("headscope/",), ("gtest/", "gmock/"), vendor_in_headers=True),
    Layer("include/headscope", ("headscope/",)),
    Layer("src/base", ("base/", *TYPES)),
    Layer("src/records", ("records/", "base/", *TYPES)),
    Layer(
        "src/capture/torch",
        (
            "capture/",
            "probe/",
            "records/",
            "base/",
            "headscope/annotate.h",
            "headscope/error.h",
            "headscope/stats.h",
            *TYPES,
        ),
        ("ATen/", "c10/", "torch/"),
        vendor_in_headers=True,
    ),
    Layer("src/capture", ("capture/", "records/", "base/", "headscope/annotate.h", "headscope/error.h", *TYPES)),
    Layer(
        "src/timeline/trace",
        ("timeline/", "records/", "base/", "headscope/error.h", *TYPES),
        ("simdjson.h", "zlib.h", "emmintrin.h"),
    ),
    Layer("src/correlate", ("correlate/", "records/", "base/", *TYPES)),
    Layer("src/timeline/cupti", ("timeline/", "records/", "base/", *TYPES), ("cupti_",)),
    Layer("src/timeline", ("timeline/", "records/", "base/", *TYPES)),
    Layer("src/kv_cache", ("kv_cache/", "base/", "headscope/kv_cache.h", "headscope/error.h", *TYPES)),
    Layer("src/probe", ("probe/", "records/", "base/", *TYPES)),
    Layer("src/model", ("model/", "records/", "base/", *TYPES)),
    Layer(
        "src/aggregate",
        (
            "aggregate/",
            "model/",
            "kv_cache/describe.h",
            "records/",
            "base/",
            "headscope/stats.h",
            "headscope/patterns.h",
            "headscope/tolerance.h",
            "headscope/kv_cache.h",
            "headscope/annotate.h",
            *TYPES,
        ),
    ),
    Layer("src/report", ("report/", "headscope/"), ("fmt/",)),
    Layer("src", ("device_clock.h", "process.h", *EVERYTHING)),
    Layer("python/src", ("headscope/", "bindings.h", "convert.h"), ("pybind11/",), vendor_in_headers=True),
)


def layer_of(path: str) -> Layer | None:
    for layer in LAYERS:
        if path == layer.folder or path.startswith(layer.folder + "/"):
            return layer
    return None


def is_allowed(path: str, layer: Layer, quote: str, target: str) -> bool:
    if quote == '"':
        # A folder named after a vendor is for its own files, and for those that wire the stages.
        vendor_folder = next((folder for folder in VENDOR_FOLDERS if target.startswith(folder)), None)
        may_enter = vendor_folder is None or path.startswith("src/" + vendor_folder) or path.count("/") == 1
        return target.startswith(layer.own) and may_enter
    if SYSTEM.fullmatch(target):
        return True
    return target.startswith(layer.vendor) and (layer.vendor_in_headers or path.endswith(".cpp"))


def sources(root: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        for suffix in ("*.h", "*.cpp"):
            yield from sorted((root / folder).rglob(suffix))


def forbidden_includes(root: Path) -> list[str]:
    """Each include that the table does not allow, as `file: header`."""
    found = []
    for source in sources(root, "include", "src", "python/src"):
        path = source.relative_to(root).as_posix()
        layer = layer_of(path)
        for quote, target in INCLUDE.findall(source.read_text(encoding="utf-8")):
            if layer is None or not is_allowed(path, layer, quote, target):
                found.append(f"{path}: {target}")
    return found


def unlisted_sources(root: Path) -> list[str]:
    """Each .cpp file that no CMakeLists.txt names: one that is never built, or a test that never runs."""
    folders = ("src", "python", "tests", "benchmarks", "examples")
    listed = set()
    for folder in folders:
        for cmake in (root / folder).rglob("CMakeLists.txt"):
            for name in re.findall(r"[\w./]+\.cpp", cmake.read_text(encoding="utf-8")):
                listed.add((cmake.parent / name).resolve())
    return [
        source.relative_to(root).as_posix()
        for source in sources(root, *folders)
        if source.suffix == ".cpp" and source.resolve() not in listed
    ]


def headers_without_pragma_once(root: Path) -> list[str]:
    return [
        source.relative_to(root).as_posix()
        for source in sources(root, "include", "src", "python/src", "tests")
        if source.suffix == ".h" and "#pragma once" not in source.read_text(encoding="utf-8")
    ]
