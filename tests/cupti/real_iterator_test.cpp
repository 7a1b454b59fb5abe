// Records as the fake writes them, walked by the iterators of real libcupti's. These work without a device or a driver
// in the releases from 12.4 to 13.1; scripts/sanitize.sh brings some.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/fake_cupti/records.h"
#include "timeline/cupti/record_decoder.h"

namespace headscope::timeline::cupti {
namespace {

constexpr std::uint32_t kKernels = 1000;

/// Folders of HEADSCOPE_REAL_CUPTI_DIR, each with a libcupti.
std::vector<std::string> real_libraries() {
  std::vector<std::string> found;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs
  if (const char* const folder = std::getenv("HEADSCOPE_REAL_CUPTI_DIR")) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("libcupti.so")) {
        found.push_back(entry.path());
      }
    }
  }
  return found;
}

void append(fake_cupti::Bytes& buffer, const fake_cupti::Bytes& record) {
  buffer.insert(buffer.end(), record.begin(), record.end());
}

/// External id, API call and kernel of many launches, a copy and a fill at the end.
fake_cupti::Bytes buffer_of(const FakeLayout& layout) {
  fake_cupti::Bytes buffer;
  for (std::uint32_t i = 1; i <= kKernels; ++i) {
    append(buffer, fake_cupti::external_record(abi::kCustom2, 100 + i, i));
    append(buffer, fake_cupti::api_record({.kind = abi::kRuntime, .start = i, .end = i + 1, .correlation = i}));
    FakeLaunch launch;
    launch.name = "real";
    launch.start = std::uint64_t{10} * i;
    launch.end = std::uint64_t{10} * i + 3;
    append(buffer, fake_cupti::kernel_record(layout, launch, i, 0, 0));
  }
  for (const std::uint32_t kind : {abi::kMemcpy, abi::kMemset}) {
    append(buffer, fake_cupti::transfer_record(layout, {.kind = kind, .bytes = 64, .start = 1, .end = 2}));
  }
  return buffer;
}

/// 0 when the library's own iterator finds every record; in a process of its own, since two libcupti's conflict.
int check(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());  // NOLINT(concurrency-mt-unsafe)
    return 1;
  }
  const auto get_version = reinterpret_cast<abi::Result (*)(std::uint32_t*)>(dlsym(library, "cuptiGetVersion"));
  const auto next_record = reinterpret_cast<NextRecord>(dlsym(library, "cuptiActivityGetNextRecord"));
  std::uint32_t version = 0;
  if (get_version == nullptr || next_record == nullptr || get_version(&version) != abi::kSuccess) {
    return 2;
  }
  const fake_cupti::Bytes buffer = buffer_of(fake_cupti::layout_of(version));
  NameTable names;
  Decoded decoded;
  decode_buffer(buffer.data(), buffer.size(), next_record, {.begin_ticks = 0, .first_op = 101, .end_op = 2'000}, names,
                decoded);
  std::fprintf(stderr, "version %u: %zu spans, %zu launches, %zu links, %llu broken\n", version, decoded.spans.size(),
               decoded.launches.size(), decoded.links.size(), static_cast<unsigned long long>(decoded.broken));
  bool right = decoded.spans.size() == kKernels + 2 && decoded.launches.size() == kKernels &&
               decoded.links.size() == kKernels && decoded.broken == 0;
  for (std::uint32_t i = 0; right && i < kKernels; ++i) {
    const records::DeviceSpan& span = decoded.spans[i];
    right = span.correlation == i + 1 && span.end_ns - span.start_ns == 3 && span.name == "real";
  }
  return right ? 0 : 3;
}

TEST(RealIterator, FindsEveryRecordOfItsRelease) {
  const std::vector<std::string> libraries = real_libraries();
  if (libraries.empty()) {
    GTEST_SKIP() << "HEADSCOPE_REAL_CUPTI_DIR names no folder with libcupti's";
  }
  for (const std::string& library : libraries) {
    EXPECT_EXIT(std::_Exit(check(library)), ::testing::ExitedWithCode(0), "") << library;
  }
}

}  // namespace
}  // namespace headscope::timeline::cupti
