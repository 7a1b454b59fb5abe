#include "timeline/trace/trace_file.h"

#include <memory>
#include <optional>
#include <string_view>

#include "timeline/trace/event_kind.h"
#include "timeline/trace/event_parser.h"
#include "timeline/trace/properties.h"
#include "timeline/trace/token.h"

namespace headscope::timeline::trace {
namespace {

constexpr std::size_t kMaxKeyBytes = 256;
/// Of an element of traceEvents that is no event: its text is of no use.
constexpr std::size_t kNothing = 0;

/// The walk from the first byte of a trace to its last.
class TraceText {
 public:
  TraceText(ByteSource& source, const ReadOptions& options)
      : options_(options), window_(source, options.progress), recorder_(options.keep_inputs) {}

  records::TraceRecording read() {
    skip_byte_order_mark();
    switch (window_.next_byte()) {
      case JsonWindow::kEnd:
        window_.fail("is empty");
      case '{':
        window_.skip_byte();
        read_fields();
        break;
      case '[':
        window_.skip_byte();
        read_events(true);
        break;
      default:
        window_.fail("is no JSON: neither { nor [ begins it");
    }
    return recorder_.finish();
  }

 private:
  void skip_byte_order_mark() {
    for (const int byte : {0xEF, 0xBB, 0xBF}) {
      if (window_.next_byte() != byte) {
        return;
      }
      window_.skip_byte();
    }
  }

  void read_fields() {
    bool has_events = false;
    for (;;) {
      const int byte = window_.next_byte();
      if (byte == '}') {
        break;
      }
      if (byte == ',') {
        window_.skip_byte();
        continue;
      }
      if (byte != '"') {
        window_.fail(byte == JsonWindow::kEnd ? cut_off() : "is no JSON: a field's name is missing");
      }
      const std::optional<std::string_view> quoted = window_.take_value(kMaxKeyBytes);
      const std::string key(quoted ? unquoted(*quoted) : std::string_view());
      if (window_.next_byte() != ':') {
        window_.fail("is no JSON: the colon after \"" + key + "\" is missing");
      }
      window_.skip_byte();
      if (key == "traceEvents" && window_.next_byte() == '[') {
        window_.skip_byte();
        read_events(false);
        has_events = true;
      } else {
        read_property(key);
      }
    }
    if (!has_events) {
      window_.fail("is no trace: it has no traceEvents");
    }
  }

  void read_property(const std::string& key) {
    const bool wanted = Properties::wants(key);
    const std::optional<std::string_view> value = window_.take_value(wanted ? Properties::kMaxBytes : kNothing);
    if (wanted && value) {
      Properties::take(key, *value, recorder_);
    }
  }

  /// `bare`: the array is the whole file. Tools that append to such a file leave its end open.
  void read_events(bool bare) {
    for (;;) {
      switch (window_.next_byte()) {
        case ']':
          window_.skip_byte();
          return;
        case ',':
          window_.skip_byte();
          break;
        case '{':
          read_event();
          break;
        case JsonWindow::kEnd:
          if (bare) {
            return;
          }
          window_.fail(cut_off());
        default:
          window_.take_value(kNothing);
          recorder_.skip(records::SkipReason::kMalformed);
      }
    }
  }

  void read_event() {
    const std::optional<std::string_view> event = window_.take_value(options_.max_event_bytes);
    if (!event) {
      recorder_.skip(records::SkipReason::kTooLarge);
      return;
    }
    EventHead head;
    Verdict verdict;
    const bool head_first = read_head(*event, head);
    if (head_first) {
      verdict = verdict_on(head);
      if (verdict.kind == EventKind::kSkipped) {
        recorder_.skip(verdict.reason);
        return;
      }
    }
    const EventFields* fields = parser_.parse(*event);
    if (fields == nullptr) {
      recorder_.skip(records::SkipReason::kMalformed);
      return;
    }
    if (!head_first) {
      verdict = verdict_on({fields->phase, fields->category, fields->name});
    }
    if (verdict.kind == EventKind::kSkipped) {
      recorder_.skip(verdict.reason);
    } else {
      recorder_.add(verdict.kind, *fields);
    }
  }

  [[nodiscard]] std::string cut_off() const {
    return "is cut off after " + std::to_string(recorder_.events()) + " events (copy or record it again)";
  }

  const ReadOptions& options_;
  JsonWindow window_;
  EventParser parser_;
  Recorder recorder_;
};

}  // namespace

records::TraceRecording read_trace(const std::string& path, const ReadOptions& options) {
  const std::unique_ptr<ByteSource> source = plain_text_of(open_file(path));
  return read_trace(*source, options);
}

records::TraceRecording read_trace(ByteSource& source, const ReadOptions& options) {
  return TraceText(source, options).read();
}

}  // namespace headscope::timeline::trace
