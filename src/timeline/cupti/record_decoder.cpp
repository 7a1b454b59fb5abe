#include "timeline/cupti/record_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

namespace headscope::timeline::cupti {
namespace {

/// In the order of CUpti_ActivityMemcpyKind.
constexpr std::array<std::string_view, 11> kCopyNames = {
    "Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
    "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP",
};

/// The fields of a record of `kind`; false when the buffer ends before them.
template <class Record>
bool read(const std::uint8_t* at, std::size_t left, Record& record) {
  if (left < sizeof(Record)) {
    return false;
  }
  std::memcpy(&record, at, sizeof(Record));
  return true;
}

records::Device device_of(std::uint32_t index) {
  const bool fits = index <= static_cast<std::uint32_t>(std::numeric_limits<std::int8_t>::max());
  return {records::DeviceType::kCuda, fits ? static_cast<std::int8_t>(index) : std::int8_t{-1}};
}

/// Where the device had no room for a time stamp both are 0; a forced flush hands out what still runs with end 0.
void set_times(records::DeviceSpan& span, std::uint64_t start, std::uint64_t end) {
  if (start != 0 && end > start) {
    span.start_ns = static_cast<std::int64_t>(start);
    span.end_ns = static_cast<std::int64_t>(end);
  }
}

class Reader {
 public:
  Reader(const Scope& scope, NameTable& names, Decoded& out) : scope_(scope), names_(names), out_(out) {}

  /// False when the record is cut off.
  bool add(std::uint32_t kind, const std::uint8_t* at, std::size_t left) {
    switch (kind) {
      case abi::kSerialKernel:
      case abi::kConcurrentKernel:
        return add_kernel(at, left);
      case abi::kMemcpy:
      case abi::kMemset:
        return add_transfer(kind, at, left);
      case abi::kRuntime:
      case abi::kDriver:
        return add_call(kind, at, left);
      case abi::kExternalCorrelation:
        return add_link(at, left);
      default:
        return true;
    }
  }

 private:
  bool is_stale(std::uint64_t end) {
    const bool stale = end != 0 && end < scope_.begin_ticks;
    out_.stale += stale ? 1 : 0;
    return stale;
  }

  bool add_kernel(const std::uint8_t* at, std::size_t left) {
    abi::KernelRecord record;
    if (!read(at, left, record)) {
      return false;
    }
    if (is_stale(record.end)) {
      return true;
    }
    records::DeviceSpan& span = out_.spans.emplace_back();
    span.kind = records::DeviceSpan::Kind::kKernel;
    span.device = device_of(record.device);
    span.context = record.context;
    span.stream = record.stream;
    span.correlation = record.correlation;
    span.graph = record.graph;
    span.graph_node = record.graph_node;
    set_times(span, record.start, record.end);
    span.grid = record.grid;
    span.block = record.block;
    span.name = names_.intern(record.name);
    return true;
  }

  bool add_transfer(std::uint32_t kind, const std::uint8_t* at, std::size_t left) {
    abi::TransferRecord record;
    if (!read(at, left, record)) {
      return false;
    }
    if (is_stale(record.end)) {
      return true;
    }
    const bool copy = kind == abi::kMemcpy;
    records::DeviceSpan& span = out_.spans.emplace_back();
    span.kind = copy ? records::DeviceSpan::Kind::kMemcpy : records::DeviceSpan::Kind::kMemset;
    span.device = device_of(record.device);
    span.context = record.context;
    span.stream = record.stream;
    span.correlation = record.correlation;
    span.graph = record.graph;
    span.graph_node = record.graph_node;
    set_times(span, record.start, record.end);
    span.bytes = static_cast<std::int64_t>(record.bytes);
    const std::size_t direction = record.what & 0xFF;
    span.name = copy ? kCopyNames[direction < kCopyNames.size() ? direction : 0] : std::string_view("Memset");
    return true;
  }

  bool add_call(std::uint32_t kind, const std::uint8_t* at, std::size_t left) {
    abi::ApiRecord record;
    if (!read(at, left, record)) {
      return false;
    }
    if (is_stale(record.end)) {
      return true;
    }
    const auto& graph_launches = kind == abi::kRuntime ? abi::kRuntimeGraphLaunch : abi::kDriverGraphLaunch;
    records::Launch& launch = out_.launches.emplace_back();
    launch.correlation = record.correlation;
    launch.thread = record.thread;
    launch.start_ns = static_cast<std::int64_t>(record.start);
    launch.end_ns = static_cast<std::int64_t>(record.end);
    launch.of_graph = std::find(graph_launches.begin(), graph_launches.end(), record.function) != graph_launches.end();
    return true;
  }

  bool add_link(const std::uint8_t* at, std::size_t left) {
    abi::ExternalRecord record;
    if (!read(at, left, record)) {
      return false;
    }
    // Other tools push ids of other kinds; ids of an earlier session stay on a thread's stack in CUPTI.
    if (record.external_kind == abi::kCustom2 && record.external_id >= scope_.first_op &&
        record.external_id < scope_.end_op) {
      out_.links.push_back({record.correlation, record.external_id});
    }
    return true;
  }

  const Scope& scope_;
  NameTable& names_;
  Decoded& out_;
};

/// Calls `visit(kind, place, bytes left)` for each record until it says false. False when the buffer is broken.
template <class Visit>
bool walk(const std::uint8_t* buffer, std::size_t valid_bytes, NextRecord next_record, Visit&& visit) {
  const std::uint8_t* const end = buffer + valid_bytes;
  const std::uint8_t* last = nullptr;
  void* record = nullptr;
  if (valid_bytes == 0) {
    return true;
  }
  while (true) {
    // The function takes a mutable buffer and only reads it.
    const abi::Result result = next_record(const_cast<std::uint8_t*>(buffer), valid_bytes, &record);
    if (result == abi::kMaxLimitReached) {
      return true;
    }
    const auto* at = static_cast<const std::uint8_t*>(record);
    // A step that does not lead on inside the buffer would never end.
    if (result != abi::kSuccess || at < buffer || at >= end || (last != nullptr && at <= last) ||
        end - at < static_cast<std::ptrdiff_t>(sizeof(std::uint32_t))) {
      return false;
    }
    std::uint32_t kind = 0;
    std::memcpy(&kind, at, sizeof kind);
    if (!visit(kind, at, static_cast<std::size_t>(end - at))) {
      return false;
    }
    last = at;
  }
}

}  // namespace

void decode_buffer(const std::uint8_t* buffer, std::size_t valid_bytes, NextRecord next_record, const Scope& scope,
                   NameTable& names, Decoded& out) {
  Reader reader(scope, names, out);
  const bool whole =
      walk(buffer, valid_bytes, next_record, [&](std::uint32_t kind, const std::uint8_t* at, std::size_t left) {
        ++out.records;
        return reader.add(kind, at, left);
      });
  out.broken += whole ? 0 : 1;
}

std::uint64_t count_records(const std::uint8_t* buffer, std::size_t valid_bytes, NextRecord next_record) {
  std::uint64_t records = 0;
  walk(buffer, valid_bytes, next_record, [&](std::uint32_t kind, const std::uint8_t*, std::size_t) {
    records += kind == abi::kExternalCorrelation ? 0 : 1;
    return true;
  });
  return records;
}

}  // namespace headscope::timeline::cupti
