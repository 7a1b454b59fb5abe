// Between an op and a thread's ring: no lock and no allocation of headscope's. This program counts every malloc and
// every lock of a mutex on the thread that asks; what torch itself does is subtracted by running the same calls
// without a profiler.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <torch/library.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>

#include "headscope/headscope.h"
#include "torch/attend.h"
#include "torch/stub_ops.h"

namespace {

struct Counts {
  std::int64_t allocations = 0;
  std::int64_t locks = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

void PrintTo(const Counts& counts, std::ostream* out) {
  *out << counts.allocations << " allocations, " << counts.locks << " locks";
}

constinit thread_local Counts t_counts;

}  // namespace

// Definitions in the program come before those of the C library for every library that it loads.
#define HEADSCOPE_INTERPOSED extern "C" __attribute__((visibility("default")))

extern "C" {
void* __libc_malloc(std::size_t);                 // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t, std::size_t);    // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void*, std::size_t);         // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t, std::size_t);  // NOLINT(bugprone-reserved-identifier)
}

HEADSCOPE_INTERPOSED void* malloc(std::size_t size) {
  ++t_counts.allocations;
  return __libc_malloc(size);
}
HEADSCOPE_INTERPOSED void* calloc(std::size_t count, std::size_t size) {
  ++t_counts.allocations;
  return __libc_calloc(count, size);
}
HEADSCOPE_INTERPOSED void* realloc(void* memory, std::size_t size) {
  ++t_counts.allocations;
  return __libc_realloc(memory, size);
}
HEADSCOPE_INTERPOSED void* memalign(std::size_t alignment, std::size_t size) {
  ++t_counts.allocations;
  return __libc_memalign(alignment, size);
}
HEADSCOPE_INTERPOSED void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
HEADSCOPE_INTERPOSED int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

/// Counts a lock and takes it with the C library's own function, looked up at the first call.
template <class Lock>
int counted_lock(const char* name, int (*&real)(Lock*), Lock* lock) {
  if (real == nullptr) {
    real = reinterpret_cast<int (*)(Lock*)>(dlsym(RTLD_NEXT, name));
  }
  ++t_counts.locks;
  return real(lock);
}

HEADSCOPE_INTERPOSED int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static int (*real)(pthread_mutex_t*);
  return counted_lock("pthread_mutex_lock", real, mutex);
}
HEADSCOPE_INTERPOSED int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static int (*real)(pthread_rwlock_t*);
  return counted_lock("pthread_rwlock_rdlock", real, lock);
}

namespace headscope::torch_tests {
namespace {

/// Below what a ring holds before its thread folds it.
constexpr int kCalls = 100;

/// Takes the slot in which torch's allocators look for a listener, and does nothing.
class Listener final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t /*bytes*/, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {}
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
};

template <class Work>
Counts counted(Work&& work, int times = kCalls) {
  const Counts before = t_counts;
  for (int call = 0; call < times; ++call) {
    work();
  }
  return {t_counts.allocations - before.allocations, t_counts.locks - before.locks};
}

/// After a warm-up, and with the thread's ring empty.
template <class Work>
Counts recorded(const AttentionProfiler& profiler, Work&& work) {
  const LayerScope layer("layer");
  counted(work, 2 * kCalls);
  static_cast<void>(profiler.get_stats());
  return counted(work);
}

template <class Work>
Counts unprofiled(Work&& work) {
  counted(work);
  return counted(work);
}

void pass_through(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect),
                     stack);
}

at::Tensor copy_query(const at::Tensor& query, const at::Tensor& /*key*/, const at::Tensor& /*value*/) {
  return query.clone();
}

// The same op twice: one for headscope's hook, one with a kernel in its place that only redispatches.
TORCH_LIBRARY(headscope_hot_path_test, library) {
  library.def("hooked(Tensor query, Tensor key, Tensor value) -> Tensor");
  library.def("plain(Tensor query, Tensor key, Tensor value) -> Tensor");
}
TORCH_LIBRARY_IMPL(headscope_hot_path_test, CPU, library) {
  library.impl("hooked", copy_query);
  library.impl("plain", copy_query);
}
TORCH_LIBRARY_IMPL(headscope_hot_path_test, BackendSelect, library) {
  library.impl("plain", torch::CppFunction::makeFromBoxedFunction<&pass_through>());
}

class HotPath : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    AttentionOpSpec spec;
    spec.op = "headscope_hot_path_test::hooked";
    spec.variant = "mine";
    register_attention_op(spec);
  }

  /// Calls an op of the pair.
  auto calling(const char* name) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<decltype(copy_query)>();
    return [op, this] { op.call(x_, x_, x_); };
  }
  auto attention() {
    return [this] { attend(x_); };
  }

  at::Tensor x_ = at::ones({1, 2, 4, 8});
  at::Tensor matrix_ = at::ones({2, 4, 4});
};

TEST_F(HotPath, CountersSeeAnAllocationAndALock) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  EXPECT_EQ(counted(
                [&mutex] {
                  const auto number = std::make_unique<int>(1);
                  asm volatile("" : : "r"(number.get()) : "memory");  // keeps the allocation
                  pthread_mutex_lock(&mutex);
                  pthread_mutex_unlock(&mutex);
                },
                1),
            (Counts{1, 1}));
}

TEST_F(HotPath, IdleHookAddsNothingToABareRedispatch) {
  EXPECT_EQ(unprofiled(calling("headscope_hot_path_test::hooked")),
            unprofiled(calling("headscope_hot_path_test::plain")));
}

TEST_F(HotPath, RecordingAddsNothingToABareRedispatch) {
  const Counts bare = unprofiled(calling("headscope_hot_path_test::plain"));
  const AttentionProfiler profiler{{.memory = Memory::kOff}};
  EXPECT_EQ(recorded(profiler, calling("headscope_hot_path_test::hooked")), bare);
}

TEST_F(HotPath, RecordingAddsNothingToAttention) {
  const Counts idle = unprofiled(attention());
  const AttentionProfiler profiler{{.memory = Memory::kOff}};
  EXPECT_EQ(recorded(profiler, attention()), idle);
}

TEST_F(HotPath, RecordingAddsNothingToAttentionThatAutogradRecords) {
  x_.requires_grad_();
  const Counts idle = unprofiled(attention());
  const AttentionProfiler profiler{{.memory = Memory::kOff}};
  EXPECT_EQ(recorded(profiler, attention()), idle);
}

TEST_F(HotPath, RecordingAddsNothingToAProduct) {
  const auto product = [this] { at::bmm(matrix_, matrix_); };
  const Counts idle = unprofiled(product);
  const AttentionProfiler profiler{{.memory = Memory::kOff}};
  EXPECT_EQ(recorded(profiler, product), idle);
}

TEST_F(HotPath, RecordingAddsNothingToAHandWrittenChain) {
  const auto chain = [this] { at::bmm(at::softmax(at::bmm(matrix_, matrix_), -1), matrix_); };
  const Counts idle = unprofiled(chain);
  const AttentionProfiler profiler{{.memory = Memory::kOff}};
  EXPECT_EQ(recorded(profiler, chain), idle);
}

// torch's allocator keeps a table, under a lock, while a listener is there. Metering listens inside the op alone, so
// freeing the output is outside.
TEST_F(HotPath, MeteringAddsNoMoreThanTorchItselfDoesForAListener) {
  Counts listened;
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Listener>());
    listened = unprofiled(attention());
  }
  const AttentionProfiler profiler;
  const Counts metered = recorded(profiler, attention());
  EXPECT_LE(metered.allocations, listened.allocations);
  EXPECT_LE(metered.locks, listened.locks);
}

TEST_F(HotPath, FoldingTakesNoLock) {
  const std::int64_t idle = unprofiled(attention()).locks;
  const AttentionProfiler profiler{{.memory = Memory::kOff}};
  recorded(profiler, attention());
  EXPECT_EQ(counted(attention(), 10 * kCalls).locks, 10 * idle);
}

}  // namespace
}  // namespace headscope::torch_tests
