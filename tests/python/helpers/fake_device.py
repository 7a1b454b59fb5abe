"""An attention op whose kernels a libcupti without a device reports. For a process of its own: CUPTI is loaded once.

`kernels(n)` makes each later call launch n kernels of 1,000 ns.
"""

from __future__ import annotations

import ctypes
import os
import time

import torch

import headscope


class _Launch(ctypes.Structure):
    """FakeLaunch of tests/support/fake_cupti/control.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("correlation", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("untimed", ctypes.c_bool),
        ("running", ctypes.c_bool),
        ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("by_driver", ctypes.c_bool),
        ("kernel_first", ctypes.c_bool),
        ("call_start", ctypes.c_uint64),
        ("call_end", ctypes.c_uint64),
    )


cupti = ctypes.CDLL(os.environ["FAKE_CUPTI"])
cupti.fake_cupti_reset()
ctypes.CDLL(os.environ["HEADSCOPE_CUDA_DRIVER_LIBRARY"]).fake_cuda_set(0, 1, 0, 13000)

_launches = 1
_ran_at = 0


def kernels(count: int) -> None:
    global _launches
    _launches = count


@torch.library.custom_op("fake_device::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    global _ran_at
    _ran_at = time.time_ns()
    launch = _Launch(name=b"attention_kernel", context=1, stream=7, grid=(1, 1, 1), block=(128, 1, 1))
    for _ in range(_launches):
        cupti.fake_cupti_launch(ctypes.byref(launch))
    return q.clone()


headscope.register_attention_op("fake_device::attention", query="q", key="k", value="v", variant="mine")


def attend() -> int:
    """Calls it, and tells when it ran, in ns since 1970."""
    attention(*(torch.ones(1, 2, 4, 8) for _ in range(3)))
    return _ran_at
