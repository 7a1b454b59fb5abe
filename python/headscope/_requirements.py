"""What this process must offer before the C++ core may be loaded. Needs neither torch nor the core."""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType

REBUILD = "pip install --no-build-isolation --force-reinstall ."

_REASONS = {
    "darwin": "macOS is not supported: attention on MPS does not pass the dispatcher keys that headscope hooks",
    "win32": "Windows is not supported: the C++ core is built for Linux only",
    "cygwin": "Windows is not supported: the C++ core is built for Linux only",
}


def refuse_unsupported_platform(platform: str | None = None) -> None:
    """Raises ImportError with the reason unless `platform` (default: this one) is Linux."""
    platform = sys.platform if platform is None else platform
    if not platform.startswith("linux"):
        reason = _REASONS.get(platform, f"{platform} is not supported: the C++ core is built for Linux only")
        raise ImportError(f"headscope: {reason}. Use Linux on x86_64 or aarch64 (a container or WSL will do).")


def refuse_other_torch(built_for: str, found: str) -> None:
    """Raises ImportError unless both versions have the same major and minor number.

    The core uses torch's dispatcher, which promises no stable ABI between minor versions.
    """
    if _minor(built_for) != _minor(found):
        raise ImportError(
            f"headscope was built for torch {built_for}, but torch {found} is installed. "
            f"Rebuild it in the source folder of headscope: {REBUILD}"
        )


def build_info() -> ModuleType:
    """The module that the build wrote."""
    try:
        return importlib.import_module("headscope._build_info")
    except ModuleNotFoundError as missing:
        raise ImportError(
            "headscope is not built here. Install it from its source folder: pip install --no-build-isolation ."
        ) from missing


def _minor(version: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", version)[:2])
