#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Checks who may include whom, and the other rules that a look at one line can decide.

check_includes.py [ROOT]   prints FILE:LINE: RULE for each breach; exit code 1 if there is one.
"""

import pathlib
import re
import sys

# Folder of include/krama -> folders of include/krama that its files may include, besides its own.
KERNEL_SIDE = {"core", "kokkos_ext", "tensor"}
TO_NN = KERNEL_SIDE | {"kernels", "memory"}
TO_PROGRAM = TO_NN | {"nn", "optim", "comm", "plan", "program"}
MAY = {
    "core": set(),
    "kokkos_ext": {"core"},
    "tensor": {"core", "kokkos_ext"},
    "kernels": KERNEL_SIDE,
    "memory": KERNEL_SIDE,
    "comm": KERNEL_SIDE,
    "nn": TO_NN,
    "optim": TO_NN,
    "io": set(),
    "plan": {"core"},
    "program": TO_PROGRAM,
    "runtime": {"core", "comm", "kokkos_ext"},
    "models": {"core", "nn"},
    "train": TO_PROGRAM | {"io", "runtime", "models"},
    "testing": TO_PROGRAM | {"io", "runtime", "models"},
    "": None,  # the umbrella: everything
}
# Headers from outside: pattern, folders that may include it, the rule in words.
OUTSIDE = [
    (r"mpi\.h", ["comm/mpi"], "<mpi.h> only in comm/mpi/"),
    (r"(cuda|cublas|cudnn|nccl|hip/|hipblas|rocblas|miopen|rccl).*", ["kokkos_ext", "kernels/detail", "comm/nccl"],
     "vendor headers only in kokkos_ext/ and behind the doors of kernels/detail/"),
    (r"(dnnl|oneapi/dnnl/|cblas).*", ["kernels/detail"], "vendor libraries only behind the doors of kernels/detail/"),
    (r"iostream", ["train"], "<iostream> only in train/"),
    (r"catch2/.*", [], "no Catch2 in the library"),
    (r"(Kokkos_|fmt/).*", [f for f in MAY if f not in ("io", "plan", "")], "Kokkos and fmt are not for this folder"),
    (r"nlohmann/.*", ["io", "train", "program"], "nlohmann/json only in io/, train/ and program/"),
]
# Text: pattern, folders where it is allowed, the rule in words.
TEXT = [
    (r"\bKokkos::Experimental\b", ["kokkos_ext"], "Kokkos::Experimental only in kokkos_ext/"),
    (r"\bKokkos::Impl\b", ["kokkos_ext", "testing/guarded"], "Kokkos::Impl only in kokkos_ext/"),
    # Arguments of Kokkos' types find Kokkos' functions without the name of the namespace, too.
    (r"\bKokkos::(parallel_(for|reduce|scan)|deep_copy|fence)\b|\b(parallel_(for|reduce|scan)|deep_copy)\s*[(<]|\.fence\s*\(",
     ["kokkos_ext", "testing"], "kernels, copies and fences only through kokkos_ext/seam.hpp"),
    (r"\bMPI_[A-Z][A-Za-z_]*\s*\(", ["comm/mpi"], "MPI calls only in comm/mpi/"),
    (r"\bcuda[A-Z]\w*\s*\(|\bhip[A-Z]\w*\s*\(", ["kokkos_ext", "kernels/detail", "comm/nccl"],
     "CUDA and HIP calls only in kokkos_ext/"),
    (r"^using namespace\b", [], "no using namespace outside functions"),
    (r"^(inline |static )+Kokkos::(View|[A-Z]\w*Space)\b", [], "no global object of a Kokkos type"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def within(folder, places):
    return any(folder == p or folder.startswith(p + "/") for p in places)


def strip_comment(line, in_block):
    """The code of a line: no comments (strings are left alone)."""
    if in_block:
        end = line.find("*/")
        if end < 0:
            return "", True
        line = line[end + 2:]
    line = re.sub(r"/\*.*?\*/", "", line)
    start = line.find("/*")
    if start >= 0 and '"' not in line[:start]:
        return line[:start], True
    return re.sub(r"(^|[^:\"])//.*$", r"\1", line), False


def check_include(folder, module, quote, name, say):
    if quote == '"':
        say(f'"{name}": include by full path, <krama/…>')
        return
    if not name.startswith("krama/"):
        for pattern, places, rule in OUTSIDE:
            if re.fullmatch(pattern, name) and not within(folder, places):
                say(rule)
        return
    target = pathlib.PurePosixPath(name).parent.as_posix().removeprefix("krama").lstrip("/")
    other = target.split("/")[0]
    if name in ("krama/config.hpp", "krama/definitions.hpp"):
        return
    if MAY.get(module) is not None and other != module and other not in MAY[module]:
        say(f"{module}/ may not include {other or 'the umbrella'}/ ({name})")
    # Of a folder's details only that folder's own files (and their neighbours below) know.
    if "detail" in target.split("/"):
        owner = target.split("/detail")[0]
        if not (folder == owner or folder.startswith(owner + "/")):
            say(f"{name}: details of {owner}/ are for files of {owner}/ only")


def check_file(path, folder, say_at):
    lines = path.read_text(encoding="utf-8").splitlines()
    module = folder.split("/")[0]
    if module not in MAY:
        say_at(1, f"{module}/ is not in the table of scripts/check_includes.py")
        return
    if not lines or "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in lines[0]:
        say_at(1, "the first line must be the SPDX licence line")
    if "#pragma once" not in lines:
        say_at(1, "no #pragma once")
    in_block = False
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            check_include(folder, module, match[1], match[2], lambda t, n=number: say_at(n, t))
            continue
        code, in_block = strip_comment(line, in_block)
        for pattern, places, rule in TEXT:
            if re.search(pattern, code) and not within(folder, places):
                say_at(number, rule)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    top = root / "include" / "krama"
    breaches = []
    headers = sorted(top.rglob("*.hpp"))
    for path in headers:
        folder = path.parent.relative_to(top).as_posix()
        folder = "" if folder == "." else folder
        name = path.relative_to(root).as_posix()
        check_file(path, folder, lambda n, t, f=name: breaches.append(f"{f}:{n}: {t}"))
    for source in ("tests", "examples", "benchmarks", "scripts", "cmake"):
        for path in sorted((root / source).rglob("*")):
            if path.suffix in (".hpp", ".cpp", ".cmake", ".py", ".sh") and "SPDX" not in path.read_text(
                    encoding="utf-8")[:200]:
                breaches.append(f"{path.relative_to(root).as_posix()}:1: no SPDX licence line")
    if not headers:
        breaches.append(f"{top}: no headers here")
    print("\n".join(breaches) if breaches else f"{len(headers)} headers keep the rules")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
