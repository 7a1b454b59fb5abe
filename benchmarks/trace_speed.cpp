// How fast a recorded trace becomes Stats: `headscope_trace_speed FILE [ROUNDS]` prints one JSON object. No torch.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "headscope/trace.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: headscope_trace_speed FILE [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  double least_seconds = 0;
  headscope::Stats stats;
  try {
    for (int round = 0; round < rounds; ++round) {
      stats = {};
      const auto start = std::chrono::steady_clock::now();
      stats = headscope::read_trace(argv[1]);
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
  std::printf("{\"seconds\":%.6f,\"peak_kib\":%ld,\"events\":%llu,\"calls\":%llu}\n", least_seconds, usage.ru_maxrss,
              static_cast<unsigned long long>(stats.meta.trace ? stats.meta.trace->events : 0),
              static_cast<unsigned long long>(stats.total.calls));
  return 0;
}
