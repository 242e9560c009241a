// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Times training steps of one configuration on one rank and prints one JSON line. compare.py runs it in
// turns with its peers. Configurations: gpt128, gpt384, mlp32,
// mlp128, mlp1024; "sgemm" times one product, "profile" as third word says where the time goes.

#include <krama/models/gpt.hpp>
#include <krama/models/mlp.hpp>

#include "support/time_steps.hpp"

namespace {

using D = krama::DefaultDevice;

krama::bench::StepProblem make(std::string_view name) {
  if (name == "gpt128") {
    return {krama::models::gpt<D, float>(
                {.vocabulary = 256, .context = 128, .features = 128, .layers = 4, .heads = 4}),
            16, 256};
  }
  if (name == "gpt384") {
    return {krama::models::gpt<D, float>(
                {.vocabulary = 256, .context = 256, .features = 384, .layers = 6, .heads = 6}),
            8, 256};
  }
  std::int64_t batch = 0;
  if (name == "mlp32") batch = 32;
  if (name == "mlp128") batch = 128;
  if (name == "mlp1024") batch = 1024;
  KRAMA_EXPECTS(batch > 0, "bench_step: no configuration \"{}\"", name);
  return {krama::models::mlp<D, float>({{784, 256, 10}}), batch, 10};
}

}  // namespace

int main(int argc, char** argv) { return krama::bench::step_bench(argc, argv, "gpt128", 20, make); }
