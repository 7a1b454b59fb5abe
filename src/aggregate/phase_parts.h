#pragma once

#include <cstdint>
#include <map>

#include "aggregate/sums.h"
#include "headscope/types.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// What each phase has of a row's calls: one phase all of them, unless the row is of mixed batches.
class PhaseParts {
 public:
  struct Part {
    std::uint64_t calls = 0;  ///< with a sequence of the phase
    KnownSum sequences;
    KnownSum queries;  ///< of one head
    KnownSum time_ns;
    KnownSum flops;
    KnownSum bytes;
    /// Some of it is a share of a mixed call.
    bool divided = false;

    void merge(const Part& other) noexcept;
  };

  void add(const records::CostedCall& costed);
  void merge(const PhaseParts& other);

  [[nodiscard]] const std::map<Phase, Part>& parts() const noexcept { return parts_; }

 private:
  std::map<Phase, Part> parts_;
};

}  // namespace headscope::aggregate
