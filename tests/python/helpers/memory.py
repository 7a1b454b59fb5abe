"""How much memory this process has allocated."""

from __future__ import annotations

import ctypes
import gc


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


_mallinfo2 = ctypes.CDLL("libc.so.6").mallinfo2
_mallinfo2.restype = _Mallinfo2


def allocated_bytes() -> int:
    """Bytes allocated by malloc and not freed: those of tensors and of C++.

    Python's small objects are not in it, nor is freed memory that the allocator keeps, for which the process's resident
    size is no evidence.
    """
    gc.collect()
    info = _mallinfo2()
    return info.uordblks + info.hblkhd
