// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Part of every executable for the stand-in device: while a test case runs, work on the device waits
// until somebody waits for it, so that a missing fence shows as wrong data.

#include <krama/testing/guarded/device.hpp>

#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <optional>

namespace {

class DelayEveryTest : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& /*info*/) override { delayed_.emplace(); }
  void testCaseEnded(const Catch::TestCaseStats& /*stats*/) override { delayed_.reset(); }

 private:
  std::optional<krama::testing::DelayedWork> delayed_;
};
CATCH_REGISTER_LISTENER(DelayEveryTest)

}  // namespace
