// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Runs as one job of executables that round differently.
#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>

using namespace krama::test;

namespace {
/// A polynomial whose value depends on whether the compiler contracts a * b + c.
double rounding_of_this_executable() {
  double sum = 0;
  for (int i = 1; i < 2000; ++i) {
    volatile double seed = 1.0 / i;
    const double x = seed;
    sum = sum * 0.999 + x * x * 1.7 + x * 0.3;
  }
  return sum;
}

std::string bytes_of(const void* p, std::size_t n) {
  return std::string(static_cast<const char*>(p), n);
}

void check_same_on_all(krama::MpiComm& comm, const std::string& bytes) {
  for (const auto& theirs : comm.gather_text(bytes, "bits")) CHECK(theirs == bytes);
}
}  // namespace

TEST_CASE("mixed: the executables really differ, or the tests below prove nothing", "[comm]") {
  const double mine = rounding_of_this_executable();
  const auto all = world().gather_text(bytes_of(&mine, sizeof(mine)), "rounding");
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 2);
}

TEST_CASE("mixed: sums, cuts and scalars have the same bits on every rank", "[comm]") {
  const Exec exec;
  auto comm = world().duplicate("mixed");
  for (const std::int64_t n : {1, 257, 5000, 100000}) {
    auto v = values_of<float>(comm.rank(), n);
    const float factor = static_cast<float>(rounding_of_this_executable());
    for (auto& x : v) x = x * factor + 0.1F;
    comm.allreduce(exec, ref(v), "v " + std::to_string(n));
    check_same_on_all(comm, bytes_of(v.data(), v.size() * sizeof(float)));
  }
  std::vector<double> scalars(20, rounding_of_this_executable());
  comm.sum_in_rank_order(scalars, "scalars");
  check_same_on_all(comm, bytes_of(scalars.data(), scalars.size() * sizeof(double)));
  std::string cuts;
  for (int k = 1; k < 200; ++k) {
    const std::vector<double> weights{0.1 * k, 1.0 / k, 0.7, std::sqrt(static_cast<double>(k))};
    const auto p = krama::Partition::by_weight(1000003 + k * 997, weights, 1);
    for (const auto c : p.cuts()) cuts += std::to_string(c) + " ";
  }
  check_same_on_all(comm, cuts);
}

TEST_CASE("mixed: every rank reads the same numbers from a message as its sender does", "[comm]") {
  auto comm = world().duplicate("decoding");
  const std::int64_t n = 1000;
  for (const auto format :
       {krama::WireFormat::bf16, krama::WireFormat::f16, krama::WireFormat::int8}) {
    auto v = values_of<float>(comm.rank(), n);
    const auto wanted = v;
    std::vector<float> residual(v.size(), 0.0F);
    const auto rank = static_cast<std::uint32_t>(comm.rank());
    krama::comm::detail::encode_in_place({format, residual, {1, rank, 2}, 0}, v.data(), 0, n);
    const auto bytes = static_cast<std::size_t>(krama::wire_bytes(format, n));
    const auto messages = comm.gather_text(bytes_of(v.data(), bytes), "messages");
    const auto left = comm.gather_text(bytes_of(residual.data(), v.size() * 4), "residuals");
    std::string read;
    for (std::size_t r = 0; r < messages.size(); ++r) {
      std::vector<float> slot(v.size() + krama::comm::detail::landing_slack);
      std::memcpy(krama::comm::detail::landing(format, slot.data(), n), messages[r].data(), bytes);
      krama::comm::detail::decode_in_place(format, slot.data(), n);
      read += bytes_of(slot.data(), v.size() * 4);
      // What the sender keeps is what its receiver lacks, to the bit.
      const auto theirs = values_of<float>(static_cast<int>(r), n);
      for (std::size_t i = 0; i < v.size(); ++i) {
        float kept = 0;
        std::memcpy(&kept, left[r].data() + 4 * i, 4);
        if (kept != theirs[i] - slot[i]) CHECK(kept == theirs[i] - slot[i]);
      }
    }
    check_same_on_all(comm, read);
  }
}
