#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "headscope/error.h"
#include "support/trace_text.h"

namespace headscope::timeline::trace {
namespace {

using records::DeviceSpan;
using records::HostOp;
using records::SkipReason;
using records::TraceRecording;
using test_support::an_event;
using test_support::recording_of;
using test_support::trace_of;
using testing::ElementsAre;

TEST(ReadTrace, AnOpKeepsItsNameTimesAndNumbers) {
  const TraceRecording recording = recording_of(trace_of(
      {an_event("cpu_op", "aten::mm", "10.25", "2.5", R"("External id":7,"Sequence number":12,"Fwd thread id":3)")}));
  ASSERT_EQ(recording.ops.size(), 1U);
  const HostOp& op = recording.ops.front();
  EXPECT_EQ(recording.names[op.name], "aten::mm");
  EXPECT_EQ(op.start_ns, 10250);
  EXPECT_EQ(op.end_ns, 12750);
  EXPECT_EQ(op.external_id, 7U);
  EXPECT_EQ(op.sequence, 12);
  EXPECT_EQ(op.forward_thread, 3U);
}

TEST(ReadTrace, InputsKeepSizesStridesTypesAndValues) {
  const TraceRecording recording = recording_of(trace_of({an_event(
      "cpu_op", "aten::op", "1", "1",
      R"("Input Dims":[[2, 3],[],[[4],[5,6]],[]],"Input Strides":[[3,1],[],[[1],[6,1]],[]],)"
      R"("Input type":["c10::BFloat16","Scalar","TensorList",""],"Concrete Inputs":["","True","","[1, 2]"])")}));
  const auto inputs = recording.inputs_of(recording.ops.at(0));
  ASSERT_EQ(inputs.size(), 4U);
  EXPECT_THAT(recording.sizes_of(inputs[0]), ElementsAre(2, 3));
  EXPECT_THAT(recording.strides_of(inputs[0]), ElementsAre(3, 1));
  EXPECT_EQ(recording.names[inputs[0].type], "c10::BFloat16");
  EXPECT_EQ(recording.names[inputs[1].concrete], "True");
  EXPECT_EQ(inputs[2].dims, 0) << "a list of tensors has no sizes of its own";
  EXPECT_EQ(recording.names[inputs[3].concrete], "[1, 2]");
}

TEST(ReadTrace, InputsOfATraceWithoutStridesHaveNone) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("cpu_op", "aten::op", "1", "1", R"("Input Dims":[[2,3]])")}));
  const auto inputs = recording.inputs_of(recording.ops.at(0));
  ASSERT_EQ(inputs.size(), 1U);
  EXPECT_FALSE(inputs[0].has_strides);
  EXPECT_TRUE(recording.strides_of(inputs[0]).empty());
}

TEST(ReadTrace, InputsAreKeptForTheNamedOpsOnly) {
  const std::string args = R"("Input Dims":[[2,3]])";
  const TraceRecording recording = recording_of(
      trace_of({an_event("cpu_op", "aten::mm", "1", "1", args), an_event("cpu_op", "aten::add", "2", "1", args)}),
      {.keep_inputs = [](std::string_view op) { return op == "aten::mm"; }});
  EXPECT_EQ(recording.ops.at(0).input_count, 1);
  EXPECT_EQ(recording.ops.at(1).input_count, 0);
  EXPECT_TRUE(recording.ops.at(1).has_inputs);
}

TEST(ReadTrace, OpsAreInOrderOfTimeAndOuterOnesFirst) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("cpu_op", "late", "20", "1"), an_event("cpu_op", "inner", "10", "2"),
                             an_event("cpu_op", "outer", "10", "5"), an_event("cpu_op", "early", "1", "1")}));
  std::vector<std::string_view> names;
  for (const HostOp& op : recording.ops_of(recording.threads.at(0))) {
    names.push_back(recording.names[op.name]);
  }
  EXPECT_THAT(names, ElementsAre("early", "outer", "inner", "late"));
}

TEST(ReadTrace, OpsOfEqualTimesKeepTheOrderInWhichTheyWereOpened) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("cpu_op", "inner", "10", "5", R"("External id":8)"),
                             an_event("cpu_op", "outer", "10", "5", R"("External id":7)")}));
  EXPECT_EQ(recording.names[recording.ops.at(0).name], "outer");
}

TEST(ReadTrace, ThreadsAreProcessAndThread) {
  const TraceRecording recording =
      recording_of(trace_of({R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":5,"ts":1,"dur":1})",
                             R"({"ph":"X","cat":"cpu_op","name":"b","pid":2,"tid":5,"ts":1,"dur":1})",
                             R"({"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":5,"ts":2,"dur":1})"}));
  ASSERT_EQ(recording.threads.size(), 2U);
  EXPECT_EQ(recording.ops_of(recording.threads[0]).size(), 2U);
  EXPECT_EQ(recording.threads[1].process, 2);
}

TEST(ReadTrace, AKernelKeepsWhereAndHowItRan) {
  const TraceRecording recording = recording_of(trace_of(
      {R"({"ph":"X","cat":"kernel","name":"flash_fwd","pid":0,"tid":7,"ts":5.125,"dur":3,"args":{"device":1,"context":2,)"
       R"("stream":20,"correlation":99,"graph id":4,"graph node id":17,"grid":[5,16,16],"block":[128,1,1]}})"}));
  const DeviceSpan& span = recording.device_activity.spans.at(0);
  EXPECT_EQ(span.kind, DeviceSpan::Kind::kKernel);
  EXPECT_EQ(span.name, "flash_fwd");
  EXPECT_EQ(span.start_ns, 5125);
  EXPECT_EQ(span.end_ns, 8125);
  EXPECT_EQ(span.device.index, 1);
  EXPECT_EQ(span.context, 2U);
  EXPECT_EQ(span.stream, 20U);
  EXPECT_EQ(span.correlation, 99U);
  EXPECT_EQ(span.graph, 4U);
  EXPECT_EQ(span.graph_node, 17U);
  EXPECT_THAT(span.grid, ElementsAre(5, 16, 16));
  EXPECT_THAT(span.block, ElementsAre(128, 1, 1));
}

TEST(ReadTrace, CopiesAndFillsKeepTheirBytes) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("gpu_memcpy", "Memcpy HtoD", "1", "1", R"("bytes":64)"),
                             an_event("gpu_memset", "Memset", "3", "1", R"("bytes":32)")}));
  EXPECT_EQ(recording.device_activity.spans.at(0).kind, DeviceSpan::Kind::kMemcpy);
  EXPECT_EQ(recording.device_activity.spans.at(0).bytes, 64);
  EXPECT_EQ(recording.device_activity.spans.at(1).kind, DeviceSpan::Kind::kMemset);
}

TEST(ReadTrace, CallsThatLaunchAreKeptAndOthersCounted) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("cuda_runtime", "cudaLaunchKernel", "1", "1", R"("correlation":5)"),
                             an_event("cuda_driver", "cuLaunchKernelEx", "2", "1", R"("correlation":6)"),
                             an_event("cuda_runtime", "hipModuleLaunchKernel", "3", "1", R"("correlation":7)"),
                             an_event("xpu_runtime", "urEnqueueKernelLaunch", "4", "1", R"("correlation":8)"),
                             an_event("cuda_runtime", "cudaGraphLaunch", "5", "1", R"("correlation":9)"),
                             an_event("cuda_runtime", "cudaStreamIsCapturing", "6", "1", R"("correlation":10)")}));
  ASSERT_EQ(recording.device_activity.launches.size(), 5U);
  EXPECT_EQ(recording.device_activity.launches[0].correlation, 5U);
  EXPECT_FALSE(recording.device_activity.launches[0].of_graph);
  EXPECT_TRUE(recording.device_activity.launches[4].of_graph);
  EXPECT_EQ(recording.skipped_for(SkipReason::kHostCall), 1U);
}

TEST(ReadTrace, ModulesKeepTheirNamesAndIds) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("python_function", "nn.Module: BertLayer_0", "1", "9",
                                      R"("Python parent id":3,"Python id":4,"Python module id":2)"),
                             an_event("user_annotation", "nn.Module: Linear_1", "2", "1"),
                             an_event("python_function", "forward", "1", "2")}));
  ASSERT_EQ(recording.modules.size(), 2U);
  EXPECT_EQ(recording.names[recording.modules[0].name], "BertLayer_0");
  EXPECT_EQ(recording.modules[0].id, 4);
  EXPECT_EQ(recording.modules[0].parent_id, 3);
  EXPECT_EQ(recording.modules[0].module_id, 2);
  EXPECT_EQ(recording.skipped_for(SkipReason::kPythonFunction), 1U);
}

TEST(ReadTrace, StepsKeepTheirNumbers) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("user_annotation", "ProfilerStep#6", "1", "9"),
                             an_event("gpu_user_annotation", "ProfilerStep#6", "1", "9")}));
  ASSERT_EQ(recording.steps.size(), 1U);
  EXPECT_EQ(recording.steps[0].number, 6);
}

TEST(ReadTrace, FieldsMayComeInAnyOrder) {
  const TraceRecording recording = recording_of(trace_of(
      {R"({"args":{"External id":3},"dur":2,"ts":1,"tid":1,"pid":1,"name":"aten::mm","cat":"cpu_op","ph":"X"})"}));
  ASSERT_EQ(recording.ops.size(), 1U);
  EXPECT_EQ(recording.ops[0].external_id, 3U);
}

TEST(ReadTrace, NamesAreUnescaped) {
  const TraceRecording recording = recording_of(trace_of({an_event("cpu_op", R"(a\"b\u0041\\)", "1", "1")}));
  EXPECT_EQ(recording.names[recording.ops.at(0).name], "a\"bA\\");
}

TEST(ReadTrace, EventsThatAreOfNoUseAreCountedByReason) {
  const TraceRecording recording = recording_of(
      trace_of({R"({"ph":"s","id":1,"pid":1,"tid":1,"ts":1,"cat":"ac2g","name":"ac2g"})",
                R"({"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"python"}})",
                an_event("overhead", "Lazy", "1", "1"), R"("text")", "17", "{\"ph\":\"X\",\"cat\":\"cpu_op\",,}", "{}",
                R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"dur":1})",
                an_event("cpu_op", "a", "1e300", "1"), an_event("cpu_op", "a", "5", "-1"),
                R"({"ph":"X","cat":"cpu_op","name":"a","pid":"x","tid":1,"ts":1,"dur":1})"}));
  EXPECT_EQ(recording.events, 11U);
  EXPECT_TRUE(recording.ops.empty());
  EXPECT_EQ(recording.skipped_for(SkipReason::kFlow), 1U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kOtherPhase), 2U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kOtherCategory), 1U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kMalformed), 3U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kNoTime), 2U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kNegativeDuration), 1U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kNoThread), 1U);
}

TEST(ReadTrace, NumbersThatFitNowhereAreUnknown) {
  const TraceRecording recording = recording_of(trace_of(
      {an_event("kernel", "k", "1", "1", R"("correlation":99999999999,"stream":-1,"device":1e9,"grid":[1e99,{},"x"])"),
       an_event("cpu_op", "a", "1", "1", R"("External id":1e400,"Sequence number":null,"Input Dims":[[1e99]])")}));
  EXPECT_EQ(recording.device_activity.spans.at(0).correlation, 0U);
  EXPECT_EQ(recording.ops.at(0).sequence, -1);
}

TEST(ReadTrace, ClocksThatJumpBackAreSorted) {
  const TraceRecording recording =
      recording_of(trace_of({an_event("cpu_op", "b", "1000000", "1"), an_event("cpu_op", "a", "-5", "1")}));
  EXPECT_EQ(recording.names[recording.ops.at(0).name], "a");
  EXPECT_EQ(recording.start_ns, -5000);
  EXPECT_EQ(recording.end_ns, 1000001000);
}

TEST(ReadTrace, DuplicateIdsAreAllKept) {
  const std::string kernel = an_event("kernel", "k", "1", "1", R"("correlation":5)");
  EXPECT_EQ(recording_of(trace_of({kernel, kernel, kernel})).device_activity.spans.size(), 3U);
}

TEST(ReadTrace, EventsThatAreTooLargeAreCountedAndPassed) {
  const TraceRecording recording = recording_of(
      trace_of({an_event("cpu_op", "a", "1", "1"), an_event("cpu_op", std::string(3'000'000, 'x'), "1", "1"),
                an_event("cpu_op", "b", "1", "1")}),
      {.max_event_bytes = 1'000'000});
  EXPECT_EQ(recording.ops.size(), 2U);
  EXPECT_EQ(recording.skipped_for(SkipReason::kTooLarge), 1U);
}

TEST(ReadTrace, EventsLongerThanTheBufferAreRead) {
  const TraceRecording recording = recording_of(trace_of({an_event("cpu_op", std::string(3'000'000, 'x'), "1", "1")}));
  EXPECT_EQ(recording.names[recording.ops.at(0).name].size(), 3'000'000U);
}

TEST(ReadTrace, DeeplyNestedEventsAreCounted) {
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  const TraceRecording recording = recording_of(
      trace_of({an_event("cpu_op", "a", "1", "1", "\"x\":" + nested), nested, an_event("cpu_op", "b", "1", "1")}));
  EXPECT_EQ(recording.names[recording.ops.back().name], "b");
  EXPECT_EQ(recording.events, 3U);
}

TEST(ReadTrace, ManyEventsCrossTheBuffersBorders) {
  std::vector<std::string> events;
  for (int i = 0; i < 20'000; ++i) {
    events.push_back(an_event("cpu_op", "op", std::to_string(i), "1", "\"External id\":" + std::to_string(i)));
  }
  const TraceRecording recording = recording_of(trace_of(events));
  ASSERT_EQ(recording.ops.size(), events.size());
  for (std::size_t i = 0; i < recording.ops.size(); ++i) {
    ASSERT_EQ(recording.ops[i].external_id, i);
  }
}

}  // namespace
}  // namespace headscope::timeline::trace
