// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Times whole training steps of one model on one rank and prints one JSON line; compare.py runs it in
// turns with its peers. bench_models MODEL [STEPS [profile]]; "sgemm" times one product.

#include <krama/models/gpt.hpp>
#include <krama/models/llama.hpp>
#include <krama/models/preact_resnet.hpp>
#include <krama/models/resnet.hpp>
#include <krama/models/unet.hpp>
#include <krama/models/vgg.hpp>

#include "support/time_steps.hpp"

namespace {

using D = krama::DefaultDevice;
using krama::bench::StepProblem;

StepProblem make(std::string_view name) {
  using namespace krama::models;
  if (name == "resnet18") {
    auto c = resnet18();
    c.image = 32;
    return {resnet<D, float>(c), 32, c.classes};
  }
  if (name == "resnet50") return {resnet<D, float>(resnet50()), 4, 1000};
  if (name == "vgg16") return {vgg<D, float>({}), 2, 1000};
  if (name == "wrn28_10") return {preact_resnet<D, float>(wide_resnet(28, 10)), 4, 10};
  if (name == "unet") {
    return {unet<D, float>({.height = 256, .width = 256, .padded = true}), 1, 2};
  }
  if (name == "gpt2") {
    return {gpt<D, float>(
                {.vocabulary = 256, .context = 256, .features = 384, .layers = 6, .heads = 6}),
            8, 256};
  }
  KRAMA_EXPECTS(name == "llama", "bench_models: there is no model \"{}\"", name);
  return {llama<D, float>({.vocabulary = 256,
                           .context = 256,
                           .features = 384,
                           .layers = 6,
                           .heads = 6,
                           .kv_heads = 6,
                           .hidden = 1024}),
          8, 256};
}

}  // namespace

int main(int argc, char** argv) {
  return krama::bench::step_bench(argc, argv, "resnet18", 5, make);
}
