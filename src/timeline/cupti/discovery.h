#pragma once

#include <string>
#include <vector>

/// Where libcupti may be.
namespace headscope::timeline::cupti {

/// Something for dlopen.
struct Candidate {
  std::string name;
  bool only_if_mapped = false;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct SearchInputs {
  std::string override_path;          ///< HEADSCOPE_CUPTI_LIBRARY; alone when set
  std::vector<std::string> mapped;    ///< files of all loaded objects
  std::vector<std::string> packages;  ///< folders that may hold nvidia/…/lib
  std::string cuda_home;              ///< CUDA_HOME, or CUDA_PATH
  int cuda_major = 0;                 ///< torch's; 0: not known
  int driver_major = 0;               ///< newest CUDA that the driver serves; 0: not known
};

/// What this process knows: environment and loaded objects.
SearchInputs search_inputs();

/// In the order of trial. A copy that is loaded comes first, since two copies in one process disturb each other.
std::vector<Candidate> candidates(const SearchInputs& inputs);

}  // namespace headscope::timeline::cupti
