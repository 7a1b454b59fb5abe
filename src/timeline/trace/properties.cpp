#include "timeline/trace/properties.h"

#include <simdjson.h>

#include <cstdint>
#include <string>

#include "timeline/trace/token.h"

namespace headscope::timeline::trace {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kDevices = "deviceProperties";
constexpr std::string_view kDistributed = "distributedInfo";
constexpr std::string_view kBaseTime = "baseTimeNanoseconds";

void take_devices(dom::element value, Recorder& recorder) {
  dom::array devices;
  if (value.get_array().get(devices) != simdjson::SUCCESS) {
    return;
  }
  for (const dom::element device : devices) {
    std::int64_t id = 0;
    std::string_view name;
    if (device["id"].get(id) == simdjson::SUCCESS && device["name"].get(name) == simdjson::SUCCESS) {
      recorder.add_device(id, name);
    }
  }
}

void take_distributed(dom::element value, Recorder& recorder) {
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
  if (value["rank"].get(rank) != simdjson::SUCCESS) {
    return;
  }
  if (value["world_size"].get(world_size) != simdjson::SUCCESS) {
    world_size = -1;
  }
  recorder.set_rank(rank, world_size);
}

}  // namespace

bool Properties::wants(std::string_view key) noexcept {
  return key == kDevices || key == kDistributed || key == kBaseTime;
}

void Properties::take(std::string_view key, std::string_view value, Recorder& recorder) {
  if (key == kBaseTime) {
    recorder.set_base_time(integer_of(value).value_or(0));
    return;
  }
  dom::parser parser;
  dom::element element;
  if (parser.parse(value.data(), value.size()).get(element) != simdjson::SUCCESS) {
    return;
  }
  if (key == kDevices) {
    take_devices(element, recorder);
  } else if (key == kDistributed) {
    take_distributed(element, recorder);
  }
}

}  // namespace headscope::timeline::trace
