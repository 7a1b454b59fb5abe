#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headscope/error.h"
#include "support/trace_text.h"

namespace headscope::timeline::trace {
namespace {

using records::TraceRecording;
using test_support::an_event;
using test_support::recording_of;
using test_support::trace_of;
using testing::HasSubstr;

/// A file that goes with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / ("headscope-trace-" + std::to_string(getpid()))) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string error_of(const std::string& text) {
  try {
    recording_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string file_error_of(const std::string& bytes) {
  const TemporaryFile file(bytes);
  try {
    read_trace(file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string& small_trace() {
  static const std::string text =
      trace_of({an_event("cpu_op", "aten::mm", "1", "2"), an_event("kernel", "k", "2", "1")});
  return text;
}

TEST(ReadTraceFile, PlainAndCompressedFilesAreToldByTheirFirstBytes) {
  for (const std::string& bytes : {small_trace(), gzip(small_trace())}) {
    const TemporaryFile file(bytes);
    EXPECT_EQ(read_trace(file.path()).ops.size(), 1U);
  }
}

TEST(ReadTraceFile, JoinedGzipMembersAreOneText) {
  const std::string& text = small_trace();
  const TemporaryFile file(gzip(text.substr(0, 40)) + gzip(text.substr(40)));
  EXPECT_EQ(read_trace(file.path()).ops.size(), 1U);
}

TEST(ReadTraceFile, ProgressEndsAtTheFilesSize) {
  for (const std::string& bytes : {small_trace(), gzip(small_trace())}) {
    const TemporaryFile file(bytes);
    std::uint64_t last = 0;
    std::uint64_t total = 0;
    read_trace(file.path(), {.progress = [&](std::uint64_t done, std::uint64_t of) {
                 EXPECT_GE(done, last);
                 last = done;
                 total = of;
               }});
    EXPECT_EQ(total, bytes.size());
    EXPECT_EQ(last, bytes.size());
  }
}

TEST(ReadTraceFile, AMissingFileIsNamed) {
  try {
    read_trace("/nowhere/trace.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot open '/nowhere/trace.json': No such file"));
  }
}

TEST(ReadTraceFile, AFolderIsNoTrace) { EXPECT_THROW(read_trace("/tmp"), Error); }

TEST(ReadTraceFile, DamagedGzipDataAreToldWithTheByte) {
  std::string packed = gzip(trace_of(std::vector<std::string>(1000, an_event("cpu_op", "aten::mm", "1", "2"))));
  EXPECT_THAT(file_error_of(packed.substr(0, packed.size() / 2)), HasSubstr("ends in the middle, at byte"));
  packed[packed.size() - 6] ^= 1;  // of the checksum
  EXPECT_THAT(file_error_of(packed), HasSubstr("is damaged, at byte"));
  EXPECT_THAT(file_error_of("\x1f\x8bnothing"), HasSubstr("is damaged"));
}

TEST(ReadTraceFile, EmptyFilesSaySo) {
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
  EXPECT_THAT(error_of(" \n"), HasSubstr("is empty"));
  EXPECT_THAT(file_error_of(gzip("")), HasSubstr("is empty"));
}

TEST(ReadTraceFile, WhatIsNoJsonSaysSoWithTheByte) {
  EXPECT_THAT(error_of("PK\x03\x04"), HasSubstr("is no JSON"));
  EXPECT_THAT(error_of("  <html>"), HasSubstr("at byte 2"));
  EXPECT_THAT(error_of("{traceEvents:[]}"), HasSubstr("a field's name is missing, at byte 1"));
  EXPECT_THAT(error_of("{\"traceEvents\" []}"), HasSubstr("the colon after \"traceEvents\" is missing"));
  EXPECT_THAT(error_of("{\"a\":}"), HasSubstr("a value is missing, at byte 5"));
}

TEST(ReadTraceFile, EveryCutIsAnErrorWithTheByte) {
  const std::string text =
      trace_of({an_event("cpu_op", R"(a\"{)", "1", "2", R"("x":["}"])"), an_event("kernel", "k", "2", "1")},
               R"("deviceProperties":[{"id":0,"name":"NVIDIA"}],"traceName":"a\\b",)");
  for (std::size_t length = 1; length < text.size(); ++length) {
    EXPECT_THAT(error_of(text.substr(0, length)), HasSubstr("at byte ")) << text.substr(0, length);
  }
  EXPECT_EQ(error_of(text), "no error");
}

TEST(ReadTraceFile, JsonWithoutEventsIsNoTrace) {
  EXPECT_THAT(error_of("{}"), HasSubstr("it has no traceEvents"));
  EXPECT_THAT(error_of(R"({"traceEvents":{}})"), HasSubstr("it has no traceEvents"));
}

TEST(ReadTraceFile, ABareArrayIsATrace) {
  EXPECT_EQ(recording_of("[" + an_event("cpu_op", "aten::mm", "1", "2") + "]").ops.size(), 1U);
}

TEST(ReadTraceFile, ABareArrayMayBeLeftOpen) {
  EXPECT_EQ(recording_of("[" + an_event("cpu_op", "aten::mm", "1", "2") + ",\n").ops.size(), 1U);
}

TEST(ReadTraceFile, AByteOrderMarkIsPassed) { EXPECT_EQ(recording_of("\xEF\xBB\xBF" + small_trace()).ops.size(), 1U); }

TEST(ReadTraceFile, FieldsAroundTheEventsAreReadBeforeAndAfter) {
  const std::string events = "\"traceEvents\":[" + an_event("kernel", "k", "2", "1") + "]";
  const std::string fields =
      R"("schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100"},{"id":1,"name":"NVIDIA H100"}],)"
      R"("distributedInfo":{"backend":"nccl","rank":3,"world_size":8},"baseTimeNanoseconds":1735632360000000000)";
  for (const std::string& text : {"{" + events + "," + fields + "}", "{" + fields + "," + events + "}"}) {
    const TraceRecording recording = recording_of(text);
    ASSERT_EQ(recording.devices.size(), 2U);
    EXPECT_EQ(recording.devices[1].name, "NVIDIA H100");
    EXPECT_EQ(recording.platform, records::TracePlatform::kCuda);
    EXPECT_EQ(recording.device_activity.spans.at(0).device.type, records::DeviceType::kCuda);
    EXPECT_EQ(recording.rank, 3);
    EXPECT_EQ(recording.world_size, 8);
    EXPECT_EQ(recording.base_time_ns, 1735632360000000000);
  }
}

TEST(ReadTraceFile, ThePlatformFollowsFromCallsWhereNoDeviceIsDescribed) {
  const auto platform_of = [](const std::string& category, const std::string& call) {
    return recording_of(trace_of({an_event(category, call, "1", "1")}, "\"deviceProperties\":[],")).platform;
  };
  EXPECT_EQ(platform_of("cuda_runtime", "hipModuleLaunchKernel"), records::TracePlatform::kRocm);
  EXPECT_EQ(platform_of("cuda_driver", "cuLaunchKernel"), records::TracePlatform::kCuda);
  EXPECT_EQ(platform_of("xpu_runtime", "urEnqueueKernelLaunch"), records::TracePlatform::kXpu);
}

TEST(ReadTraceFile, MetadataOfAnySizeAndFormIsPassed) {
  const std::string big = "\"metadata\":{\"environment\":\"" + std::string(5'000'000, 'x') + "\",\"n\":[" +
                          std::string(1'000'000, ' ') + "1]},\"text\":\"" + std::string(2'000'000, '\\') +
                          "\",\"number\":" + std::string(2'000'000, '7') + ",\"none\":null,";
  EXPECT_EQ(recording_of(trace_of({an_event("cpu_op", "aten::mm", "1", "2")}, big)).ops.size(), 1U);
}

TEST(ReadTraceFile, TracesOfOtherToolsAreReadAndCounted) {
  const TraceRecording recording = recording_of(
      R"([{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},{"ph":"E","pid":1,"tid":1,"ts":2},{"ph":"C","name":"n","ts":1}])");
  EXPECT_EQ(recording.events, 3U);
  EXPECT_EQ(recording.skipped_for(records::SkipReason::kOtherPhase), 3U);
}

}  // namespace
}  // namespace headscope::timeline::trace
