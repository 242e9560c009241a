#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Holds C++ blocks of the documentation against code that is compiled and run as tests.

In Markdown, a comment before a block says where it comes from:

    <!-- examples/01_mlp/main.cpp: README -->
    ```cpp
    ...
    ```

and the file has lines "// README begins" and "// README ends". Without --write the script fails where
a block differs from its region, or where a C++ block has no source; with it the blocks are rewritten.
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:<!-- (?P<file>\S+): (?P<region>[^>]+?) -->\n)?```cpp\n(?P<code>.*?)```", re.S)


def region(file, name):
    text = (ROOT / file).read_text()
    found = re.search(
        rf"^ *// {re.escape(name)} begins\n(.*?)^ *// {re.escape(name)} ends$", text, re.S | re.M
    )
    if not found:
        raise SystemExit(f"{file}: no region \"{name}\" (lines '// {name} begins' and '… ends')")
    return textwrap.dedent(found.group(1)).strip("\n") + "\n"


def main():
    write = "--write" in sys.argv[1:]
    wrong = []
    blocks = 0
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in (p for p in pages if p.exists()):
        text = page.read_text()
        where = page.relative_to(ROOT)

        def check(match):
            nonlocal blocks
            blocks += 1
            if match["file"] is None:
                wrong.append(f"{where}: a C++ block without a source:\n{match['code'][:200]}")
                return match.group(0)
            code = region(match["file"], match["region"])
            if code != match["code"] and not write:
                wrong.append(
                    f"{where}: differs from {match['file']}, region \"{match['region']}\"; "
                    "run scripts/check_docs.py --write"
                )
            return f"<!-- {match['file']}: {match['region']} -->\n```cpp\n{code}```"

        new = BLOCK.sub(check, text)
        if write and new != text:
            page.write_text(new)
        prose = re.sub(r"```.*?```", "", text, flags=re.S)
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
            if not (page.parent / link).exists():
                wrong.append(f"{where}: link to {link}, which does not exist")
    for line in wrong:
        print(line)
    print(f"{blocks} C++ blocks, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
