#include "timeline/trace/event_parser.h"

#include <simdjson.h>

#include "timeline/trace/json_window.h"
#include "timeline/trace/token.h"

namespace headscope::timeline::trace {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(JsonWindow::kSlack >= simdjson::SIMDJSON_PADDING);

enum class Key : std::uint8_t {
  kNone,
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kStart,
  kDuration,
  kArguments,
  kExternalId,
  kSequence,
  kForwardThread,
  kInputSizes,
  kInputStrides,
  kInputTypes,
  kConcreteInputs,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kGraph,
  kGraphNode,
  kBytes,
  kGrid,
  kBlock,
  kPythonId,
  kPythonParentId,
  kPythonModuleId,
};

struct KeyName {
  std::string_view text;
  Key key = Key::kNone;
};

constexpr KeyName kOfEvent[] = {
    {"ph", Key::kPhase},   {"cat", Key::kCategory}, {"name", Key::kName},    {"pid", Key::kProcess},
    {"tid", Key::kThread}, {"ts", Key::kStart},     {"dur", Key::kDuration}, {"args", Key::kArguments},
};

/// Spellings of torch 1.8 and later.
constexpr KeyName kOfArguments[] = {
    {"External id", Key::kExternalId},
    {"external id", Key::kExternalId},
    {"Sequence number", Key::kSequence},
    {"Fwd thread id", Key::kForwardThread},
    {"Input Dims", Key::kInputSizes},
    {"Input dims", Key::kInputSizes},
    {"Input Strides", Key::kInputStrides},
    {"Input type", Key::kInputTypes},
    {"Concrete Inputs", Key::kConcreteInputs},
    {"device", Key::kDevice},
    {"context", Key::kContext},
    {"stream", Key::kStream},
    {"correlation", Key::kCorrelation},
    {"graph id", Key::kGraph},
    {"graph node id", Key::kGraphNode},
    {"bytes", Key::kBytes},
    {"grid", Key::kGrid},
    {"block", Key::kBlock},
    {"Python id", Key::kPythonId},
    {"Python parent id", Key::kPythonParentId},
    {"Python module id", Key::kPythonModuleId},
};

/// Key names by a hash that looks at three things only: most keys of a trace are not among them.
template <std::size_t Slots>
class KeyTable {
 public:
  template <std::size_t Count>
  explicit constexpr KeyTable(const KeyName (&names)[Count]) {
    static_assert(2 * Count <= Slots);
    for (const KeyName& name : names) {
      std::size_t slot = hash(name.text);
      while (slots_[slot].key != Key::kNone) {
        slot = (slot + 1) % Slots;
      }
      slots_[slot] = name;
    }
  }

  [[nodiscard]] Key find(std::string_view text) const noexcept {
    if (text.empty()) {
      return Key::kNone;
    }
    for (std::size_t slot = hash(text); slots_[slot].key != Key::kNone; slot = (slot + 1) % Slots) {
      if (slots_[slot].text == text) {
        return slots_[slot].key;
      }
    }
    return Key::kNone;
  }

 private:
  static constexpr std::size_t hash(std::string_view text) noexcept {
    const auto code = [](char byte) -> std::size_t { return static_cast<unsigned char>(byte); };
    return (text.size() * 13 + code(text.front()) * 5 + code(text.back())) % Slots;
  }

  std::array<KeyName, Slots> slots_{};
};

constexpr KeyTable<32> kEventKeys(kOfEvent);
constexpr KeyTable<64> kArgumentKeys(kOfArguments);

std::string_view text_of(ondemand::raw_json_string key) noexcept {
  const char* const begin = key.raw();
  const char* end = begin;
  while (*end != '"') {
    end += *end == '\\' ? 2 : 1;
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::string_view string_of(ondemand::value value) noexcept {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

/// An array's text; empty for other values.
std::string_view array_of(ondemand::value value) noexcept {
  ondemand::array array;
  std::string_view text;
  if (value.get_array().get(array) != simdjson::SUCCESS || array.raw_json().get(text) != simdjson::SUCCESS) {
    return {};
  }
  return text;
}

/// Calls `take` for each field of `object` whose key `keys` knows. False where the object is no JSON.
template <std::size_t Slots, class Take>
bool for_each_field(ondemand::object object, const KeyTable<Slots>& keys, Take take) {
  for (auto field : object) {
    ondemand::raw_json_string raw_key;
    ondemand::value value;
    if (field.key().get(raw_key) != simdjson::SUCCESS || field.value().get(value) != simdjson::SUCCESS) {
      return false;
    }
    const Key key = keys.find(text_of(raw_key));
    if (key != Key::kNone && !take(key, value)) {
      return false;
    }
  }
  return true;
}

void take_argument(EventFields& fields, Key key, ondemand::value value) {
  const auto integer = [&value] { return integer_of(value.raw_json_token()); };
  switch (key) {
    case Key::kExternalId:
      fields.external_id = integer();
      break;
    case Key::kSequence:
      fields.sequence = integer();
      break;
    case Key::kForwardThread:
      fields.forward_thread = integer();
      break;
    case Key::kInputSizes:
      fields.input_sizes = array_of(value);
      break;
    case Key::kInputStrides:
      fields.input_strides = array_of(value);
      break;
    case Key::kInputTypes:
      fields.input_types = array_of(value);
      break;
    case Key::kConcreteInputs:
      fields.concrete_inputs = array_of(value);
      break;
    case Key::kDevice:
      fields.device = integer();
      break;
    case Key::kContext:
      fields.context = integer();
      break;
    case Key::kStream:
      fields.stream = integer();
      break;
    case Key::kCorrelation:
      fields.correlation = integer();
      break;
    case Key::kGraph:
      fields.graph = integer();
      break;
    case Key::kGraphNode:
      fields.graph_node = integer();
      break;
    case Key::kBytes:
      fields.bytes = integer();
      break;
    case Key::kGrid:
      fields.grid = array_of(value);
      break;
    case Key::kBlock:
      fields.block = array_of(value);
      break;
    case Key::kPythonId:
      fields.python_id = integer();
      break;
    case Key::kPythonParentId:
      fields.python_parent_id = integer();
      break;
    case Key::kPythonModuleId:
      fields.python_module_id = integer();
      break;
    default:
      break;
  }
}

bool take_field(EventFields& fields, Key key, ondemand::value value) {
  switch (key) {
    case Key::kPhase:
      fields.phase = string_of(value);
      break;
    case Key::kCategory:
      fields.category = string_of(value);
      break;
    case Key::kName:
      fields.name = string_of(value);
      break;
    case Key::kProcess:
      fields.process = integer_of(value.raw_json_token());
      break;
    case Key::kThread:
      fields.thread = integer_of(value.raw_json_token());
      break;
    case Key::kStart:
      fields.start_ns = nanoseconds_of(value.raw_json_token());
      break;
    case Key::kDuration:
      fields.duration_ns = nanoseconds_of(value.raw_json_token());
      break;
    case Key::kArguments: {
      ondemand::object arguments;
      if (value.get_object().get(arguments) == simdjson::SUCCESS) {
        return for_each_field(arguments, kArgumentKeys, [&fields](Key argument, ondemand::value of_argument) {
          take_argument(fields, argument, of_argument);
          return true;
        });
      }
      break;
    }
    default:
      break;
  }
  return true;
}

}  // namespace

struct EventParser::Json {
  ondemand::parser parser;
  EventFields fields;
};

EventParser::EventParser() : json_(std::make_unique<Json>()) {}
EventParser::~EventParser() = default;

const EventFields* EventParser::parse(std::string_view event) {
  EventFields& fields = json_->fields;
  fields = {};
  const simdjson::padded_string_view text(event.data(), event.size(), event.size() + JsonWindow::kSlack);
  ondemand::document document;
  ondemand::object object;
  if (json_->parser.iterate(text).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS ||
      !for_each_field(object, kEventKeys,
                      [&fields](Key key, ondemand::value value) { return take_field(fields, key, value); })) {
    return nullptr;
  }
  return &fields;
}

}  // namespace headscope::timeline::trace
