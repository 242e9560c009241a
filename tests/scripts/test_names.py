#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Names in unnamed namespaces are unique among test files that are compiled together.

They share these namespaces: of two functions with one name a call might choose the other file's
without a word from the compiler.

test_names.py FILE...   exit code 1 if a name is in two of them
"""

import pathlib
import re
import sys

UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
FUNCTION = re.compile(r"^(?!using |return |struct |class |template )[A-Za-z_][\w:<>,&* ]*[ &*](\w+)\(", re.M)
CONSTANT = re.compile(r"^(?:constexpr|const|inline|static) [^(;\n]*?(\w+)(?: =|\{|\[)", re.M)


def names_in(path):
    found = set()
    for part in UNNAMED.findall(path.read_text(encoding="utf-8")):
        found |= set(FUNCTION.findall(part)) | set(CONSTANT.findall(part))
    return found


def main():
    owner, faults = {}, 0
    for path in map(pathlib.Path, sys.argv[1:]):
        for name in sorted(names_in(path)):
            if name in owner:
                print(f"{path.name}: {name} is a name in {owner[name]}, too; they are compiled together")
                faults += 1
            owner.setdefault(name, path.name)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
