#include "headscope/kv_cache.h"

#include <pybind11/stl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {
namespace {

constexpr std::array kKinds{Choice<KvCacheKind>{"dynamic", KvCacheKind::kDynamic},
                            Choice<KvCacheKind>{"static", KvCacheKind::kStatic},
                            Choice<KvCacheKind>{"sliding", KvCacheKind::kSliding},
                            Choice<KvCacheKind>{"quantized", KvCacheKind::kQuantized},
                            Choice<KvCacheKind>{"paged", KvCacheKind::kPaged},
                            Choice<KvCacheKind>{"view", KvCacheKind::kView},
                            Choice<KvCacheKind>{"registered", KvCacheKind::kRegistered}};

/// The integers of a use, by their names in Python.
constexpr std::array<std::pair<std::string_view, std::optional<std::int64_t> KvCacheUse::*>, 10> kCounts{{
    {"sequences", &KvCacheUse::sequences},
    {"capacity_tokens", &KvCacheUse::capacity_tokens},
    {"reserved_tokens", &KvCacheUse::reserved_tokens},
    {"used_tokens", &KvCacheUse::used_tokens},
    {"padding_tokens", &KvCacheUse::padding_tokens},
    {"shared_tokens", &KvCacheUse::shared_tokens},
    {"capacity_bytes", &KvCacheUse::capacity_bytes},
    {"reserved_bytes", &KvCacheUse::reserved_bytes},
    {"used_bytes", &KvCacheUse::used_bytes},
    {"device_free_bytes", &KvCacheUse::device_free_bytes},
}};

bool set_count(KvCacheUse& use, std::string_view name, py::handle value) {
  for (const auto& [key, member] : kCounts) {
    if (name == key) {
      use.*member = to_int(name, value);
      return true;
    }
  }
  return false;
}

bool set_block_figure(KvCacheUse& use, std::string_view name, py::handle value) {
  const auto blocks = [&use]() -> KvBlocks& { return use.blocks ? *use.blocks : use.blocks.emplace(); };
  if (name == "block_size") {
    blocks().block_size = to_int(name, value);
  } else if (name == "blocks_total") {
    blocks().total = to_int(name, value);
  } else if (name == "blocks_used") {
    blocks().used = to_int(name, value);
  } else if (name == "slots_written") {
    blocks().slots_written = to_int(name, value);
  } else {
    return false;
  }
  return true;
}

KvCacheUse use_from_python(const py::dict& figures) {
  KvCacheUse use;
  for (const auto& [key, value] : figures) {
    const auto name = key.cast<std::string>();
    if (value.is_none()) {
      continue;
    }
    if (name == "layer") {
      use.layer = to_text_argument(name, value);
    } else if (name == "kind") {
      use.kind = to_choice(name, value, kKinds);
    } else if (name == "layers") {
      use.layers = to_int(name, value);
    } else if (name == "bytes_per_token") {
      use.bytes_per_token = to_double(name, value);
    } else if (!set_count(use, name, value) && !set_block_figure(use, name, value)) {
      throw_unknown_keyword("the figures of a KV cache", name);
    }
  }
  return use;
}

std::vector<KvCacheUse> uses_from_python(const std::vector<py::dict>& all) {
  std::vector<KvCacheUse> uses;
  uses.reserve(all.size());
  for (const py::dict& figures : all) {
    uses.push_back(use_from_python(figures));
  }
  return uses;
}

KvCacheShape shape_from_python(const py::kwargs& keywords) {
  KvCacheShape shape;
  for (const auto& [key, value] : keywords) {
    const auto name = key.cast<std::string>();
    if (name == "name") {
      shape.name = to_text_argument(name, value);
    } else if (name == "layers") {
      shape.layers = to_int(name, value);
    } else if (name == "kv_heads") {
      shape.kv_heads = to_int(name, value);
    } else if (name == "head_dim") {
      shape.head_dim = to_int(name, value);
    } else if (name == "head_dim_v") {
      shape.head_dim_v = to_int(name, value);
    } else if (name == "element_size") {
      shape.element_size = to_double(name, value);
    } else if (name == "block_size") {
      shape.block_size = to_int(name, value);
    } else if (name == "blocks") {
      shape.blocks = to_int(name, value);
    } else {
      throw_unknown_keyword("KvCacheTracker()", name);
    }
  }
  return shape;
}

std::uint32_t block_from_python(py::handle value) {
  constexpr std::int64_t kLargest = 0xffffffff;
  const std::int64_t block = to_int("block", value);
  if (block < 0 || block > kLargest) {
    throw Error("block " + std::to_string(block) + " is out of range");
  }
  return static_cast<std::uint32_t>(block);
}

}  // namespace

void bind_kv_cache(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<KvCacheGauge>(module, "KvCacheGauge", "Shows a cache whose owner knows how full it is.")
      .def(py::init<std::string, std::uint64_t>(), py::arg("name"), py::arg("profiler") = 0)
      .def("set", [](KvCacheGauge& gauge, const std::vector<py::dict>& uses) { gauge.set(uses_from_python(uses)); });

  using Tracker = KvCacheTracker;
  py::class_<Tracker>(module, "KvCacheTracker",
                      "Keeps the books of a paged cache: KvCacheTracker(name=, layers=, kv_heads=, head_dim=,\n"
                      "head_dim_v=, element_size=, block_size=, blocks=). Wrong use raises Error and changes nothing.")
      .def(py::init([](const py::kwargs& keywords) { return std::make_unique<Tracker>(shape_from_python(keywords)); }))
      .def("add_sequence", &Tracker::add_sequence, "A sequence without blocks; returns its number.", Unlocked())
      .def(
          "give_blocks",
          [](Tracker& tracker, Tracker::Sequence sequence, const std::vector<py::object>& given) {
            std::vector<std::uint32_t> blocks;
            blocks.reserve(given.size());
            for (const py::object& block : given) {
              blocks.push_back(block_from_python(block));
            }
            tracker.give_blocks(sequence, blocks);
          },
          py::arg("sequence"), py::arg("blocks"), "Blocks for what the sequence will write next.")
      .def("append", &Tracker::append, py::arg("sequence"), py::arg("tokens") = 1, "Writes the next slots.", Unlocked())
      .def("share", &Tracker::share, py::arg("sequence"), py::arg("tokens"),
           "A sequence that begins with the first tokens of another one, in the same blocks.", Unlocked())
      .def(
          "replace_block",
          [](Tracker& tracker, Tracker::Sequence sequence, std::size_t index, const py::object& block) {
            tracker.replace_block(sequence, index, block_from_python(block));
          },
          py::arg("sequence"), py::arg("index"), py::arg("block"), "Copy on write of a shared block.")
      .def("truncate", &Tracker::truncate, py::arg("sequence"), py::arg("tokens"), "Takes back the last tokens.",
           Unlocked())
      .def("free_sequence", &Tracker::free_sequence, py::arg("sequence"),
           "Blocks that no other sequence holds become free.", Unlocked())
      .def("length", &Tracker::length, py::arg("sequence"), "Tokens of the sequence.", Unlocked());
}

}  // namespace headscope::python
