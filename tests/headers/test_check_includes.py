# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""scripts/check_includes.py says the right thing about files that break its rules."""

import pathlib
import subprocess
import sys
import tempfile

CHECKER = pathlib.Path(__file__).parents[2] / "scripts" / "check_includes.py"
HEAD = "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n#pragma once\n"
# folder, text below the head, what must be said (None: nothing)
CASES = [
    ("nn", "#include <krama/comm/communicator.hpp>", "nn/ may not include comm/"),
    ("core", "#include <krama/tensor/tensor.hpp>", "core/ may not include tensor/"),
    ("io", "#include <Kokkos_Core.hpp>", "not for this folder"),
    ("comm", "#include <mpi.h>", "only in comm/mpi/"),
    ("comm/mpi/detail", "#include <mpi.h>", None),
    ("nn", "#include <krama/kernels/detail/gemm.hpp>", "details of kernels/"),
    ("comm/mpi", "#include <krama/comm/mpi/detail/sum.hpp>", None),
    ("nn", "#include <iostream>", "<iostream> only in train/"),
    ("nn", '#include "layer.hpp"', "full path"),
    ("nn", "inline void f() { Kokkos::parallel_for(1, 2); }", "seam.hpp"),
    ("nn", "template <class P, class F>\nvoid f(P p, F k) { parallel_for(p, k); }", "seam.hpp"),
    ("memory", "template <class V>\nvoid f(V a, V b) { deep_copy(a, b); }", "seam.hpp"),
    ("optim", "template <class E>\nvoid f(const E& exec) { exec.fence(); }", "seam.hpp"),
    ("nn", "// as Kokkos::parallel_for does", None),
    ("kokkos_ext", "inline void f() { Kokkos::parallel_for(1, 2); }", None),
    ("optim", "using X = Kokkos::Experimental::X;", "only in kokkos_ext/"),
    ("nn", "using namespace std;", "no using namespace"),
    ("elsewhere", "", "not in the table"),
    ("train", "#include <krama/io/idx.hpp>\n#include <krama/optim/adamw.hpp>\n#include <iostream>", None),
    ("testing", "#include <krama/train/trainer.hpp>", "testing/ may not include train/"),
]


def main():
    wrong = 0
    for folder, text, wanted in CASES:
        with tempfile.TemporaryDirectory() as root:
            place = pathlib.Path(root) / "include" / "krama" / folder
            place.mkdir(parents=True)
            (place / "x.hpp").write_text(HEAD + text + "\n", encoding="utf-8")
            run = subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True,
                                 check=False)
        right = run.returncode == 0 if wanted is None else run.returncode == 1 and wanted in run.stdout
        if not right:
            wrong += 1
            print(f"{folder}: {text!r}: wanted {wanted!r}, found {run.returncode}: {run.stdout}{run.stderr}")
    print(f"{len(CASES) - wrong} of {len(CASES)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
