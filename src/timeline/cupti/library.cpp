#include "timeline/cupti/library.h"

#include <dlfcn.h>

namespace headscope::timeline::cupti {
namespace {

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  bool optional(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  template <class Function>
  void required(Function& function, const char* name) {
    if (!optional(function, name)) {
      missing_ += missing_.empty() ? name : std::string(", ") + name;
    }
  }

  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string resolve(void* library, Api& api) {
  Symbols symbols(library);
  symbols.required(api.get_version, "cuptiGetVersion");
  symbols.required(api.get_timestamp, "cuptiGetTimestamp");
  symbols.optional(api.get_result_string, "cuptiGetResultString");
  symbols.optional(api.set_thread_id_type, "cuptiSetThreadIdType");
  symbols.required(api.subscribe, "cuptiSubscribe");
  symbols.optional(api.subscribe_v2, "cuptiSubscribe_v2");
  symbols.required(api.unsubscribe, "cuptiUnsubscribe");
  symbols.optional(api.enable_callback, "cuptiEnableCallback");
  symbols.optional(api.get_graph_node_id, "cuptiGetGraphNodeId");
  symbols.required(api.register_callbacks, "cuptiActivityRegisterCallbacks");
  symbols.required(api.enable, "cuptiActivityEnable");
  symbols.required(api.disable, "cuptiActivityDisable");
  symbols.required(api.push_external_id, "cuptiActivityPushExternalCorrelationId");
  symbols.required(api.pop_external_id, "cuptiActivityPopExternalCorrelationId");
  symbols.required(api.flush_all, "cuptiActivityFlushAll");
  symbols.required(api.get_next_record, "cuptiActivityGetNextRecord");
  symbols.optional(api.get_dropped, "cuptiActivityGetNumDroppedRecords");
  return symbols.missing();
}

}  // namespace

Library load_library(const std::vector<Candidate>& candidates) {
  Library library;
  std::string last_error;
  for (const Candidate& candidate : candidates) {
    const int mapped_only = candidate.only_if_mapped ? RTLD_NOLOAD : 0;
    void* handle = dlopen(candidate.name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | mapped_only);
    if (handle == nullptr) {
      const char* error = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
      if (!candidate.only_if_mapped && error != nullptr) {
        last_error = error;
      }
      continue;
    }
    library.path = candidate.name;
    const std::string missing = resolve(handle, library.api);
    if (!missing.empty()) {
      library.problem = library.path + " lacks " + missing + "; install a CUPTI of CUDA 12.4 or later";
    }
    return library;
  }
  library.problem =
      "libcupti was not found" + (last_error.empty() ? std::string() : " (" + last_error + ")") +
      ". Install the package nvidia-cuda-cupti of torch's CUDA release, or name the file in HEADSCOPE_CUPTI_LIBRARY";
  return library;
}

std::string describe_failure(const Api& api, std::string_view function, abi::Result result) {
  std::string text = std::string(function) + " failed with " + std::to_string(result);
  const char* words = nullptr;
  if (api.get_result_string != nullptr && api.get_result_string(result, &words) == abi::kSuccess && words != nullptr) {
    text += std::string(" (") + words + ")";
  }
  if (result == abi::kInsufficientPrivileges) {
    text += "; the driver admits administrators only (NVreg_RestrictProfilingToAdminUsers)";
  }
  return text;
}

}  // namespace headscope::timeline::cupti
