#include "timeline/cupti/discovery.h"

#include <link.h>

#include <cstdlib>
#include <string_view>

namespace headscope::timeline::cupti {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? std::string() : std::string(value);
}

int add_path(dl_phdr_info* info, std::size_t, void* paths) {
  if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0') {
    static_cast<std::vector<std::string>*>(paths)->emplace_back(info->dlpi_name);
  }
  return 0;
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// 13 of "/…/libcudart.so.13"; 0 without.
int major_of(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem)) {
    return 0;
  }
  int major = 0;
  for (const char digit : name.substr(stem.size())) {
    if (digit < '0' || digit > '9') {
      break;
    }
    major = major * 10 + (digit - '0');
  }
  return major;
}

/// The release whose libcupti is tried first: that of torch, else of the runtime in this process, else the driver's.
int first_major(const SearchInputs& inputs) {
  if (inputs.cuda_major != 0) {
    return inputs.cuda_major;
  }
  for (const std::string& path : inputs.mapped) {
    if (const int major = major_of(base_name(path), "libcudart.so."); major != 0) {
      return major;
    }
  }
  return inputs.driver_major != 0 ? inputs.driver_major : 13;
}

/// …/site-packages of …/site-packages/torch/lib/libtorch_cpu.so.
std::string folder_of_torch(const std::vector<std::string>& mapped) {
  for (const std::string& path : mapped) {
    const std::size_t at = path.rfind("/torch/lib/libtorch_cpu.so");
    if (at != std::string::npos) {
      return path.substr(0, at);
    }
  }
  return {};
}

}  // namespace

SearchInputs search_inputs() {
  SearchInputs inputs;
  inputs.override_path = environment("HEADSCOPE_CUPTI_LIBRARY");
  inputs.cuda_home = environment("CUDA_HOME");
  if (inputs.cuda_home.empty()) {
    inputs.cuda_home = environment("CUDA_PATH");
  }
  dl_iterate_phdr(&add_path, &inputs.mapped);
  return inputs;
}

std::vector<Candidate> candidates(const SearchInputs& inputs) {
  if (!inputs.override_path.empty()) {
    return {{inputs.override_path, false}};
  }
  const int major = first_major(inputs);
  const int other = major == 12 ? 13 : 12;
  const auto soname = [](int release) { return "libcupti.so." + std::to_string(release); };

  std::vector<Candidate> found = {{soname(major), true}, {soname(other), true}};
  for (const std::string& path : inputs.mapped) {
    // Packers rename libraries: libcupti-1a2b3c.so.12.4.
    if (base_name(path).starts_with("libcupti")) {
      found.push_back({path, true});
    }
  }

  std::vector<std::string> packages = inputs.packages;
  if (const std::string folder = folder_of_torch(inputs.mapped); !folder.empty()) {
    packages.push_back(folder);
  }
  for (const std::string& folder : packages) {
    const std::string release = std::to_string(major);
    for (const std::string& part : {"cu" + release, std::string("cuda_cupti")}) {
      found.push_back({folder + "/nvidia/" + part + "/lib/" + soname(major), false});
    }
  }
  found.push_back({soname(major), false});
  const std::string home = inputs.cuda_home.empty() ? "/usr/local/cuda" : inputs.cuda_home;
  for (const char* folder : {"/extras/CUPTI/lib64/", "/lib64/"}) {
    found.push_back({home + folder + soname(major), false});
  }
  // One of another release than the driver's may still work: the driver decides.
  found.push_back({soname(other), false});
  return found;
}

}  // namespace headscope::timeline::cupti
