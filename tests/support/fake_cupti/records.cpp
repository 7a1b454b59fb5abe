#include "support/fake_cupti/records.h"

#include <cstring>

namespace headscope::fake_cupti {
namespace {

/// What lies behind the fields that are read must not matter.
constexpr std::uint8_t kFiller = 0xA5;

template <class Record>
Bytes bytes_of(const Record& record, std::size_t length) {
  Bytes bytes(length, kFiller);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

}  // namespace

const FakeLayout& layout_of(std::uint32_t version) {
  const FakeLayout* found = &kLayouts.front();
  for (const FakeLayout& layout : kLayouts) {
    if (layout.version <= version) {
      found = &layout;
    }
  }
  return *found;
}

std::size_t length_of(std::uint32_t kind, const FakeLayout& layout) {
  switch (kind) {
    case abi::kConcurrentKernel:
    case abi::kSerialKernel:
      return layout.kernel;
    case abi::kMemcpy:
      return layout.memcpy;
    case abi::kMemset:
      return layout.memset;
    case abi::kRuntime:
    case abi::kDriver:
      return sizeof(abi::ApiRecord);
    case abi::kExternalCorrelation:
      return sizeof(abi::ExternalRecord);
    default:
      return 0;
  }
}

Bytes kernel_record(const FakeLayout& layout, const FakeLaunch& launch, std::uint32_t correlation, std::uint32_t graph,
                    std::uint64_t node) {
  abi::KernelRecord record;
  record.kind = abi::kConcurrentKernel;
  record.start = launch.untimed ? 0 : launch.start;
  record.end = launch.untimed || launch.running ? 0 : launch.end;
  record.device = launch.device;
  record.context = launch.context;
  record.stream = launch.stream;
  for (std::size_t i = 0; i < 3; ++i) {
    record.grid[i] = launch.grid[i];
    record.block[i] = launch.block[i];
  }
  record.correlation = correlation;
  record.name = launch.name;
  record.graph = graph;
  record.graph_node = node;
  return bytes_of(record, layout.kernel);
}

Bytes transfer_record(const FakeLayout& layout, const abi::TransferRecord& record) {
  return bytes_of(record, length_of(record.kind, layout));
}

Bytes external_record(std::uint32_t external_kind, std::uint64_t id, std::uint32_t correlation) {
  abi::ExternalRecord record;
  record.kind = abi::kExternalCorrelation;
  record.external_kind = external_kind;
  record.external_id = id;
  record.correlation = correlation;
  return bytes_of(record, sizeof record);
}

Bytes api_record(const abi::ApiRecord& record) { return bytes_of(record, sizeof record); }

}  // namespace headscope::fake_cupti
