// Where libcupti is looked for, and what is said of one that does not serve.

#include "timeline/cupti/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "timeline/cupti/library.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t place_of(const std::vector<Candidate>& list, const Candidate& wanted) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), wanted) - list.begin());
}

TEST(Discovery, AFileThatWasNamedIsTheOnlyCandidate) {
  SearchInputs inputs;
  inputs.override_path = "/my/libcupti.so";
  inputs.mapped = {"/else/libcupti.so.12"};
  EXPECT_THAT(candidates(inputs), ElementsAre(Candidate{"/my/libcupti.so", false}));
}

TEST(Discovery, ALoadedCopyComesBeforeAllFiles) {
  SearchInputs inputs;
  inputs.mapped = {"/venv/lib/libcupti-9f3a.so.12.4", "/venv/lib/libcuda.so.1"};
  inputs.packages = {"/site"};
  inputs.cuda_major = 12;
  const std::vector<Candidate> list = candidates(inputs);
  EXPECT_EQ(place_of(list, {"libcupti.so.12", true}), 0U);
  const std::size_t renamed = place_of(list, {"/venv/lib/libcupti-9f3a.so.12.4", true});
  EXPECT_LT(renamed, place_of(list, {"/site/nvidia/cuda_cupti/lib/libcupti.so.12", false}));
  EXPECT_THAT(list, Not(Contains(Candidate{"/venv/lib/libcuda.so.1", true})));
}

TEST(Discovery, BothLayoutsOfPackagesAreTried) {
  SearchInputs inputs;
  inputs.packages = {"/site"};
  inputs.cuda_major = 13;
  const std::vector<Candidate> list = candidates(inputs);
  EXPECT_THAT(list, Contains(Candidate{"/site/nvidia/cu13/lib/libcupti.so.13", false}));
  EXPECT_THAT(list, Contains(Candidate{"/site/nvidia/cuda_cupti/lib/libcupti.so.13", false}));
}

TEST(Discovery, TorchsFolderIsAPackageFolder) {
  SearchInputs inputs;
  inputs.mapped = {"/v/site-packages/torch/lib/libtorch_cpu.so"};
  inputs.cuda_major = 12;
  EXPECT_THAT(candidates(inputs), Contains(Candidate{"/v/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12", false}));
}

TEST(Discovery, TheReleaseIsTorchsElseTheRuntimesElseTheDrivers) {
  SearchInputs inputs;
  inputs.driver_major = 12;
  EXPECT_EQ(candidates(inputs).front(), (Candidate{"libcupti.so.12", true}));
  inputs.mapped = {"/x/libcudart.so.13"};
  EXPECT_EQ(candidates(inputs).front(), (Candidate{"libcupti.so.13", true}));
  inputs.cuda_major = 12;
  EXPECT_EQ(candidates(inputs).front(), (Candidate{"libcupti.so.12", true}));
}

TEST(Discovery, TheToolkitComesLastButOne) {
  SearchInputs inputs;
  inputs.cuda_home = "/opt/cuda";
  inputs.cuda_major = 13;
  const std::vector<Candidate> list = candidates(inputs);
  EXPECT_EQ(list[list.size() - 3].name, "/opt/cuda/extras/CUPTI/lib64/libcupti.so.13");
  EXPECT_EQ(list.back(), (Candidate{"libcupti.so.12", false}));
}

TEST(Discovery, KnowsTheObjectsOfThisProcess) { EXPECT_THAT(search_inputs().mapped, Contains(HasSubstr("libc.so"))); }

TEST(Library, ThatIsNowhereIsExplained) {
  const Library library = load_library({{"/nonexistent/libcupti.so", false}});
  EXPECT_FALSE(library.usable());
  EXPECT_EQ(library.path, "");
  EXPECT_THAT(library.problem, HasSubstr("HEADSCOPE_CUPTI_LIBRARY"));
  EXPECT_THAT(library.problem, HasSubstr("/nonexistent/libcupti.so"));
}

TEST(Library, ThatLacksFunctionsIsNamedWithThem) {
  const Library library = load_library({{"/nonexistent/first.so", false}, {HEADSCOPE_FAKE_CUDA, false}});
  EXPECT_FALSE(library.usable());
  EXPECT_EQ(library.path, HEADSCOPE_FAKE_CUDA);
  EXPECT_THAT(library.problem, HasSubstr("cuptiActivityRegisterCallbacks"));
}

TEST(Library, ThatIsOnlyWantedIfMappedIsNotLoaded) {
  const Library library = load_library({{"/nonexistent/libcupti.so", true}});
  EXPECT_FALSE(library.usable());
}

TEST(Library, HasTheFunctionsOfTheFirstCandidateThatThereIs) {
  const Library library = load_library({{"/nonexistent/first.so", false}, {HEADSCOPE_FAKE_CUPTI, false}});
  EXPECT_TRUE(library.usable()) << library.problem;
  EXPECT_EQ(library.path, HEADSCOPE_FAKE_CUPTI);
  EXPECT_NE(library.api.subscribe_v2, nullptr);
}

}  // namespace
}  // namespace headscope::timeline::cupti
