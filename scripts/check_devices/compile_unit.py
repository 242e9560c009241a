# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Compiles one unit, or takes what an earlier run left for the same text, headers and compiler."""

import hashlib
import json
import pathlib
import re
import subprocess
import time

import backends
import elf
import resources

INCLUDE = re.compile(r"#include <krama/([^>]+)>")


def reached(text, include):
    """Every header of Krama that the text includes, directly or through others."""
    found, todo = {}, [text]
    while todo:
        for name in INCLUDE.findall(todo.pop()):
            path = include / "krama" / name
            if name not in found and path.exists():
                found[name] = path.read_text(encoding="utf-8")
                todo.append(found[name])
    return found


def key_of(text, include, config, command):
    parts = [text, json.dumps(command), pathlib.Path(elf.__file__).read_text(encoding="utf-8")]
    parts += [f"{n}\n{t}" for n, t in sorted(reached(text, include).items())]
    parts += [p.read_text(encoding="utf-8") for p in sorted(config.rglob("*.hpp")) + sorted(config.rglob("*.h"))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def compiler_id(compiler):
    run = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return run.stdout.strip().splitlines()[-1] if run.stdout.strip() else "unknown"


def release_of(compiler):
    """The line of the compiler's own words that names its release."""
    run = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return next((x.strip() for x in run.stdout.splitlines() if "release" in x or "version" in x), "unknown")


def compile_unit(backend, compiler, arch, include, text, cache, library=False):
    """{"ok", "seconds", "log", "functions": mangled -> readable, "calls", "resources"}; "cached" says which."""
    config = cache / f"config-{backend.name}-{arch}"
    backends.write_config(backend, arch, config)
    backends.write_krama_config(include.parent / "cmake" / "config.hpp.in", config)
    plain = backend.command(compiler, arch, "INCLUDE", "CONFIG", "UNIT", "OBJECT", library)
    key = key_of(text, include, config, [*plain, compiler_id(compiler)])
    kept = cache / f"{key}.json"
    if kept.exists():
        return finished(backend, json.loads(kept.read_text()), True)
    unit, target = cache / f"{key}.{'cu' if backend.name == 'cuda' else 'hip'}", cache / f"{key}.o"
    unit.write_text(text)
    begin = time.monotonic()
    run = subprocess.run(backend.command(compiler, arch, include, config, unit, target, library),
                         capture_output=True, text=True, check=False)
    result = {"ok": run.returncode == 0, "seconds": round(time.monotonic() - begin, 1), "functions": {}, "calls": [],
              "log": run.stdout + run.stderr}
    if result["ok"]:
        result["functions"] = elf.device_functions(target)
        result["calls"] = elf.called_functions(target)
        kept.write_text(json.dumps(result))
        target.unlink()
    return finished(backend, result, False)


def finished(backend, result, cached):
    parse = resources.parse_cuda if backend.name == "cuda" else resources.parse_hip
    return {**result, "resources": parse(result["log"]) if result["ok"] else {}, "cached": cached}
