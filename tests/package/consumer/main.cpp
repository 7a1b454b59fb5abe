// Links headscope without torch's headers.

#include <headscope/headscope.h>

#include <cstdio>

int main() {
  const headscope::AttentionProfiler profiler;
  std::printf("headscope %s saw %llu calls\n", headscope::kVersion.data(),
              static_cast<unsigned long long>(profiler.get_stats().total.calls));
}
