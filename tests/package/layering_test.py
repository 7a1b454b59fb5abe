"""Run by ctest: the source tree keeps to the include table, and the checker notices when it does not."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import layering

ROOT = Path(__file__).resolve().parents[2]


class SourceTree(unittest.TestCase):
    def test_every_include_is_allowed_by_the_table(self) -> None:
        self.assertEqual(layering.forbidden_includes(ROOT), [])

    def test_every_cpp_file_is_named_in_a_cmake_lists(self) -> None:
        self.assertEqual(layering.unlisted_sources(ROOT), [])

    def test_every_header_has_pragma_once(self) -> None:
        self.assertEqual(layering.headers_without_pragma_once(ROOT), [])


class Checker(unittest.TestCase):
    def found_for(self, path: str, include: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / path
            file.parent.mkdir(parents=True)
            file.write_text(f"#include {include}\n", encoding="utf-8")
            return layering.forbidden_includes(Path(folder))

    def test_a_stage_that_includes_another_is_found(self) -> None:
        self.assertEqual(self.found_for("src/model/a.cpp", '"capture/b.h"'), ["src/model/a.cpp: capture/b.h"])

    def test_torch_outside_its_folder_is_found(self) -> None:
        self.assertEqual(self.found_for("src/profiler.cpp", "<ATen/ATen.h>"), ["src/profiler.cpp: ATen/ATen.h"])

    def test_torch_in_its_folder_is_allowed(self) -> None:
        self.assertEqual(self.found_for("src/capture/torch/a.cpp", "<ATen/ATen.h>"), [])

    def test_fmt_in_a_header_is_found(self) -> None:
        self.assertEqual(self.found_for("src/report/a.h", "<fmt/format.h>"), ["src/report/a.h: fmt/format.h"])

    def test_fmt_in_a_source_of_report_is_allowed(self) -> None:
        self.assertEqual(self.found_for("src/report/a.cpp", "<fmt/format.h>"), [])

    def test_a_public_header_that_includes_an_internal_one_is_found(self) -> None:
        self.assertEqual(
            self.found_for("include/headscope/a.h", '"records/b.h"'), ["include/headscope/a.h: records/b.h"]
        )

    def test_a_binding_that_includes_an_internal_header_is_found(self) -> None:
        self.assertEqual(self.found_for("python/src/a.cpp", '"model/b.h"'), ["python/src/a.cpp: model/b.h"])

    def test_a_pure_stage_that_includes_the_torch_side_is_found(self) -> None:
        self.assertEqual(
            self.found_for("src/capture/a.cpp", '"capture/torch/b.h"'), ["src/capture/a.cpp: capture/torch/b.h"]
        )

    def test_a_stage_that_includes_the_cupti_side_is_found(self) -> None:
        self.assertEqual(
            self.found_for("src/timeline/a.cpp", '"timeline/cupti/b.h"'), ["src/timeline/a.cpp: timeline/cupti/b.h"]
        )
        self.assertEqual(
            self.found_for("src/session/a.cpp", '"timeline/cupti/b.h"'), ["src/session/a.cpp: timeline/cupti/b.h"]
        )

    def test_cupti_outside_its_folder_or_in_a_header_is_found(self) -> None:
        header = "<cupti_activity.h>"
        self.assertEqual(self.found_for("src/timeline/a.cpp", header), ["src/timeline/a.cpp: cupti_activity.h"])
        self.assertEqual(self.found_for("src/timeline/cupti/a.h", header), ["src/timeline/cupti/a.h: cupti_activity.h"])
        self.assertEqual(self.found_for("src/timeline/cupti/a.cpp", header), [])

    def test_a_source_that_no_cmake_lists_names_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "src").mkdir()
            (Path(folder) / "src" / "a.cpp").touch()
            self.assertEqual(layering.unlisted_sources(Path(folder)), ["src/a.cpp"])


if __name__ == "__main__":
    unittest.main()
