#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Writes the file of a new layer and its test. Both compile and pass as they are: the layer computes
y = x^2 until you say otherwise.

new_layer.py NAME [--root FOLDER]     NAME in snake_case: new_layer.py soft_plus
"""

import argparse
import pathlib
import re
import sys

LAYER = """\
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// TODO: formula and source. y = x^2; dx = 2 x dy. Saves the input, because TODO.
struct @Type@ {
  static constexpr std::string_view type_name = "@name@";
  static constexpr Saves saves = Saves::input;

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    using A = accum_t<T>;
    const T* in = x.data();
    T* out = y.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::@name@::forward", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
          const A v = static_cast<A>(in[i]);
          out[i] = static_cast<T>(v * v);
        });
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<@Type@, D, T>& saved,
                Ref<const T, 1, D> dy, Ref<T, 1, D> dx) const {
    using A = accum_t<T>;
    if (dx.null()) return;
    const T* in = saved.x.data();
    const T* d_out = dy.data();
    T* d_in = dx.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::@name@::backward", dx.size(), KOKKOS_LAMBDA(std::int64_t i) {
          d_in[i] = static_cast<T>(static_cast<A>(d_out[i]) * (A{2} * static_cast<A>(in[i])));
        });
  }
};

}  // namespace krama::nn
"""

TEST = """\
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/@name@.hpp>

#include <krama/testing/check_layer.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;

TEMPLATE_TEST_CASE("@name@: gradients and contract", "[nn]", double, float) {
  for (const auto& in : {Shape{1, 1}, Shape{3, 5}, Shape{2, 7, 13}, Shape{130, 37}}) {
    INFO("input " << to_string(in));
    CHECK(testing::check_layer<TestDevice, TestType>(nn::@Type@{}, in).text() == "");
  }
}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path}")


def main():
    parser = argparse.ArgumentParser(description="Writes the file of a new layer and its test.")
    parser.add_argument("name", help="in snake_case, e.g. soft_plus")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1],
                        help="folder that has include/ and tests/ (default: this repository)")
    options = parser.parse_args()
    name = options.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        sys.exit(f'new_layer: "{name}" is not snake_case; write it like soft_plus')
    places = {
        options.root / "include/krama/nn/layers" / f"{name}.hpp": LAYER,
        options.root / "tests/nn" / f"test_{name}.cpp": TEST,
    }
    for path in places:
        if path.exists():
            sys.exit(f"new_layer: {path} exists already; nothing was written")
    type_name = "".join(part.capitalize() for part in name.split("_"))
    for path, text in places.items():
        write(path, text.replace("@name@", name).replace("@Type@", type_name))
    print("next: the formula in the head comment, forward and backward; then build and run the tests")


if __name__ == "__main__":
    main()
