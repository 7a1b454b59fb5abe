// How fast a recorded trace is read: `headscope_trace_speed FILE [ROUNDS]` prints one JSON object. No torch.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "timeline/trace/trace_file.h"

namespace {

/// What attention is made of: the inputs of other ops are of no use to headscope.
bool is_attention(std::string_view op) {
  return op.find("attention") != std::string_view::npos || op.find("softmax") != std::string_view::npos ||
         op.ends_with("bmm");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: headscope_trace_speed FILE [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  double least_seconds = 0;
  headscope::records::TraceRecording recording;
  try {
    for (int round = 0; round < rounds; ++round) {
      recording = {};
      const auto start = std::chrono::steady_clock::now();
      recording = headscope::timeline::trace::read_trace(argv[1], {.keep_inputs = is_attention});
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (round == 0 || seconds.count() < least_seconds) {
        least_seconds = seconds.count();
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"seconds\":%.6f,\"peak_kib\":%ld,\"events\":%llu,\"ops\":%zu,\"launches\":%zu,\"device_spans\":%zu}\n",
              least_seconds, usage.ru_maxrss, static_cast<unsigned long long>(recording.events), recording.ops.size(),
              recording.device_activity.launches.size(), recording.device_activity.spans.size());
  return 0;
}
