#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "timeline/trace/event_kind.h"

namespace headscope::timeline::trace {

/// The fields of an event that any kind needs. Texts are valid until the next parse, as long as the event's own.
struct EventFields {
  std::string_view phase;
  std::string_view category;
  std::string_view name;
  std::optional<std::int64_t> process;
  std::optional<std::int64_t> thread;
  std::optional<std::int64_t> start_ns;
  std::optional<std::int64_t> duration_ns;

  std::optional<std::int64_t> external_id;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> forward_thread;
  /// JSON arrays as they stand, an element an argument; empty when absent.
  std::string_view input_sizes;
  std::string_view input_strides;
  std::string_view input_types;
  std::string_view concrete_inputs;

  std::optional<std::int64_t> device;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> stream;
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> graph;
  std::optional<std::int64_t> graph_node;
  std::optional<std::int64_t> bytes;
  std::string_view grid;
  std::string_view block;

  std::optional<std::int64_t> python_id;
  std::optional<std::int64_t> python_parent_id;
  std::optional<std::int64_t> python_module_id;
};

/// Parses one event at a time, from text with JsonWindow::kSlack readable bytes behind it. Keeps its memory.
class EventParser {
 public:
  EventParser();
  EventParser(const EventParser&) = delete;
  EventParser& operator=(const EventParser&) = delete;
  ~EventParser();

  /// The fields of `event`; nullptr when it is no JSON object.
  const EventFields* parse(std::string_view event);

 private:
  struct Json;
  std::unique_ptr<Json> json_;
};

}  // namespace headscope::timeline::trace
