# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Registers, spills and shared memory of kernels, from what the compilers report."""

import re

CUDA_NAME = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
CUDA_SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
CUDA_USED = re.compile(r"Used (\d+) registers")
CUDA_SHARED = re.compile(r"(\d+) bytes smem")
HIP_FIELD = re.compile(
    r"remark:\s+(Function Name|VGPRs|VGPRs Spill|SGPRs Spill|LDS Size \[bytes/block\]): (\S+)")


def parse_cuda(log):
    rows, name, spill = {}, None, 0
    for line in log.splitlines():
        if m := CUDA_NAME.search(line):
            name, spill = m[1], 0
        elif m := CUDA_SPILL.search(line):
            spill = int(m[1]) + int(m[2])
        elif (m := CUDA_USED.search(line)) and name:
            shared = CUDA_SHARED.search(line)
            rows[name] = {"registers": int(m[1]), "spill": spill, "shared": int(shared[1]) if shared else 0}
    return rows


def parse_hip(log):
    rows, now = {}, None
    for m in HIP_FIELD.finditer(log):
        key, value = m[1], m[2]
        if key == "Function Name":
            now = rows.setdefault(value, {"registers": 0, "spill": 0, "shared": 0})
        elif now is not None:
            number = int(value) if value.isdigit() else 0
            if key == "VGPRs":
                now["registers"] = number
            elif key.endswith("Spill"):
                now["spill"] += number
            else:
                now["shared"] = number
    return rows


def short(name):
    """A kernel's own name and its element type, out of the launcher's around it."""
    name = name.replace("(bool)", "").replace("krama::", "").replace("kernels::", "").replace("detail::", "")
    lambda_of = re.search(r"(?:ParallelFor|ParallelReduce)<(?:\w+<(?=\w+::))?(?:void )?((?:\w+::)*\w+)<([^()]*?)>\(", name)
    if lambda_of and "lambda" in name:
        number = re.search(r"(?:lambda\([^)]*\)#|'lambda)(\d+)", name)
        types = re.findall(r"\b(?:double|float|bf16|f16)\b", lambda_of[2])
        return f"{lambda_of[1]}<{', '.join(types)}>" + (f" #{number[1]}" if number and number[1] != "1" else "")
    found = re.search(r"(?:ParallelFor|ParallelReduce|CombinedFunctorReducer)<(?:Kokkos::Impl::CombinedFunctorReducer<)?"
                      r"(.*?)(?:, Kokkos::(?:RangePolicy|TeamPolicy|Impl::FunctorAnalysis)|$)", name)
    return re.sub(r"Kokkos::", "", found[1]) if found else name[:80]


def table(results, spill_unit):
    """Markdown of one back end: each kernel of Krama once, with the instantiation of most registers."""
    rows = {}
    for result in results:
        for mangled, row in result["resources"].items():
            name = result["functions"].get(mangled, mangled)
            if "krama::" not in name:
                continue
            key = short(name)
            old = rows.get(key)
            if old is None or row["registers"] > old["registers"]:
                rows[key] = row
    lines = [f"| kernel | registers | spilled ({spill_unit}) | static shared memory (bytes) |", "|---|---|---|---|"]
    for key, row in sorted(rows.items()):
        lines.append(f"| `{key}` | {row['registers']} | {row['spill']} | {row['shared']} |")
    return "\n".join(lines)
