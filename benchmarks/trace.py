"""How fast recorded traces are read: `python benchmarks/trace.py [--megabytes N] [--rounds N] [--reader PATH]`.

Builds a trace, the same each time, and reads it with headscope, json.load and, where it is installed
(`pip install HolisticTraceAnalysis`), with HolisticTraceAnalysis. Prints, asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
READER = ROOT / "build" / "bench" / "benchmarks" / "headscope_trace_speed"
MEGABYTE = 1_000_000
HOST = '"pid": 25286, "tid": 25286'
STREAM = '"pid": 0, "tid": 7'

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
POINTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, "
    "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, at::native::"
    "BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >)"
)
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>,"
    " false, true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
)


class TraceWriter:
    """Layers of a transformer, an event a method, in the form in which torch.profiler writes them."""

    def __init__(self, file: TextIO) -> None:
        self.file = file  # not kept in memory: a child's peak begins with that of its parent
        self.size = 0
        self.ns = 1_428_625_748_107_736
        self.id = 1

    def write(self, text: str) -> None:
        self.size += self.file.write(text)

    def complete(self, category: str, name: str, where: str, start_ns: int, dur_ns: int, args: str) -> None:
        self.write(
            f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", {where},\n'
            f'    "ts": {start_ns // 1000}.{start_ns % 1000:03d}, "dur": {dur_ns // 1000}.{dur_ns % 1000:03d},\n'
            f'    "args": {{\n      {args}\n    }}\n  }},\n'
        )

    def op(self, name: str, dur_ns: int, dims: list[list[int]], concrete: list[str]) -> int:
        """Begins an op, inside of which the next one lies. When it ends, for `end`."""
        self.id += 1
        strides = [[dim[-1] * 4, dim[-1], 1][-len(dim) :] if dim else [] for dim in dims]
        types = ["c10::BFloat16" if dim else "Scalar" for dim in dims]
        args = (
            f'"External id": {self.id},"Record function id": 0, "Concrete Inputs": {json.dumps(concrete)}, '
            f'"Input type": {json.dumps(types)}, "Input Strides": {strides}, "Input Dims": {dims}, "Ev Idx": {self.id}'
        )
        self.complete("cpu_op", name, HOST, self.ns, dur_ns, args)
        end_ns = self.ns + dur_ns
        self.ns += 731
        return end_ns

    def end(self, end_ns: int) -> None:
        self.ns = end_ns + 1_009

    def launch(self, kernel: str, dur_ns: int) -> None:
        self.id += 1
        ids = f'"External id": {self.id - 1},'
        self.complete(
            "cuda_runtime",
            "cudaLaunchKernel",
            HOST,
            self.ns,
            4_100,
            f'{ids}"cbid": 211, "correlation": {self.id}',
        )
        self.flow("s", HOST, self.ns)
        start_ns = self.ns + 21_377
        self.complete(
            "kernel",
            kernel,
            STREAM,
            start_ns,
            dur_ns,
            f'{ids}"queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {self.id}, '
            '"registers per thread": 255, "shared memory": 24576, "blocks per SM": 75.85185, "warps per SM": 303.4074, '
            '"grid": [5, 16, 16], "block": [128, 1, 1], "est. achieved occupancy %": 12',
        )
        self.flow("f", STREAM, start_ns)
        self.ns += 5_003

    def flow(self, phase: str, where: str, start_ns: int) -> None:
        end = ', "bp": "e"' if phase == "f" else ""
        self.write(
            f'  {{\n    "ph": "{phase}", "id": {self.id}, {where}, "ts": {start_ns // 1000}.{start_ns % 1000:03d},\n'
            f'    "cat": "ac2g", "name": "ac2g"{end}\n  }},\n'
        )

    def python(self, name: str, dur_ns: int) -> None:
        self.id += 1
        args = f'"Python parent id": {self.id - 1}, "Python id": {self.id}, "Ev Idx": {self.id}'
        self.complete("python_function", name, HOST, self.ns, dur_ns, args)

    def memory(self) -> None:
        self.write(
            '  {\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n'
            f'    "pid": 25286, "tid": 25286,\n    "ts": {self.ns // 1000}.{self.ns % 1000:03d},\n    "args": {{\n'
            '      "Total Reserved": 4588568576, "Total Allocated": 403304448, "Bytes": 38535168, '
            '"Addr": 137125622185984, "Device Id": 0, "Device Type": 1, "Ev Idx": 3560\n    }\n  },\n'
        )

    def linear(self) -> None:
        self.python("torch/nn/modules/linear.py(120): forward", 61_000)
        linear = self.op("aten::linear", 42_000, [[16, 559, 1024], [1024, 1024], [1024]], ["", "", ""])
        transposed = self.op("aten::t", 3_000, [[1024, 1024]], [""])
        self.op("aten::transpose", 2_000, [[1024, 1024], [], []], ["", "0", "1"])
        self.op("aten::as_strided", 400, [[1024, 1024], [], [], []], ["", "[1024, 1024]", "[1, 1024]", ""])
        self.end(transposed)
        self.op("aten::addmm", 31_000, [[1024], [8944, 1024], [1024, 1024], [], []], ["", "", "", "1", "1"])
        self.memory()
        self.launch(GEMM, 41_216)
        self.end(linear)

    def layer(self, number: int) -> None:
        self.python(f"nn.Module: Attention_{number}", 400_000)
        for _ in range(4):
            self.linear()
        heads = [16, 16, 559, 64]
        attention = self.op(
            "aten::scaled_dot_product_attention",
            91_000,
            [heads] * 3 + [[]] * 5,
            [""] * 4 + ["0.", "True", "", ""],
        )
        self.op(
            "aten::_scaled_dot_product_flash_attention",
            80_000,
            [heads] * 3 + [[]] * 4,
            ["", "", "", "0.", "True", "False", ""],
        )
        self.op(
            "aten::_flash_attention_forward",
            61_000,
            [[16, 559, 16, 64]] * 3 + [[]] * 12,
            [""] * 5 + ["559", "559", "0.", "True", "False", "", "", "", "", ""],
        )
        self.launch(FLASH, 115_711)
        self.end(attention)
        scaled = self.op("aten::mul", 9_000, [[16, 559, 1024], [16, 559, 1024]], ["", ""])
        self.launch(POINTWISE, 18_240)
        self.end(scaled)


def write_trace(writer: TraceWriter, size: int) -> None:
    writer.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],\n')
    writer.write('  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1751410836000000000,\n  "traceEvents": [\n')
    layer = 0
    while writer.size < size:
        if layer % 24 == 0:
            step = f"ProfilerStep#{layer // 24}"
            writer.complete("user_annotation", step, HOST, writer.ns, 7_000_000, '"Ev Idx": 0')
        writer.layer(layer % 24)
        layer += 1
    writer.write(
        '  {"name": "process_name", "ph": "M", "ts": 0, "pid": 25286, "tid": 0, "args": {"name": "python"}}\n]}\n'
    )


JSON_LOAD = """
import json, resource, sys, time
seconds = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    with open(sys.argv[1]) as file:
        trace = json.load(file)
    seconds.append(time.perf_counter() - start)
    del trace
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": min(seconds), "peak_kib": peak}))
"""

HOLISTIC = """
import json, logging, resource, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace import parse_trace_file
start = time.perf_counter()
parse_trace_file(sys.argv[1])
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "peak_kib": peak}))
"""


def measure(command: list[str]) -> dict[str, float] | None:
    """What a process of its own prints as its last line, since peaks of memory are those of a process."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        error = done.stderr.strip().splitlines()
        print(f"  {' '.join(command[:2])[:60]}: {error[-1] if error else 'no output'}", file=sys.stderr)
        return None
    answer: dict[str, float] = json.loads(lines[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reader", type=Path, default=READER, help="the built headscope_trace_speed")
    arguments = parser.parse_args()
    if not arguments.reader.exists():
        raise SystemExit(f"{arguments.reader} is missing: `make bench` builds it, or name it with --reader")

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        with plain.open("w") as file:
            write_trace(TraceWriter(file), arguments.megabytes * MEGABYTE)
        packed = Path(folder) / "trace.json.gz"
        subprocess.run(["gzip", "-k", str(plain)], check=True)
        megabytes = plain.stat().st_size / MEGABYTE
        rounds = str(arguments.rounds)
        readers = {
            "headscope": [str(arguments.reader), str(plain), rounds],
            "headscope, from .gz": [str(arguments.reader), str(packed), rounds],
            "json.load": [sys.executable, "-c", JSON_LOAD, str(plain), rounds],
            "HolisticTraceAnalysis": [sys.executable, "-c", HOLISTIC, str(plain)],
            "headscope again": [str(arguments.reader), str(plain), rounds],
        }
        print(f"a trace of {megabytes:.0f} MB ({packed.stat().st_size / MEGABYTE:.1f} MB compressed)")
        print(f"  {'reader':<22}  {'seconds':>7}  {'MB/s':>6}  {'peak memory':>11}  {'÷ file':>6}")
        for name, command in readers.items():
            answer = measure(command)
            if answer is None:
                print(f"  {name:<22}  {'-':>7}")
                continue
            seconds, peak = answer["seconds"], answer["peak_kib"] * 1024 / MEGABYTE
            speed = megabytes / seconds
            print(f"  {name:<22}  {seconds:7.3f}  {speed:6.0f}  {peak:8.0f} MB  {peak / megabytes:6.2f}")


if __name__ == "__main__":
    main()
