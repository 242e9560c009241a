# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""What scripts/new_layer.py writes and refuses. That it compiles is tested by CMakeLists.txt."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/new_layer.py"


class NewLayer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.layer = self.root / "include/krama/nn/layers/soft_plus.hpp"
        self.test = self.root / "tests/nn/test_soft_plus.cpp"

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, name):
        return subprocess.run([sys.executable, SCRIPT, name, "--root", self.root],
                              capture_output=True, text=True, check=False)

    def test_writes_layer_and_test(self):
        done = self.run_script("soft_plus")
        self.assertEqual(done.returncode, 0, done.stderr)
        layer = self.layer.read_text()
        self.assertIn("struct SoftPlus {", layer)
        self.assertIn('type_name = "soft_plus"', layer)
        self.assertNotIn("@", layer)
        self.assertIn("nn::SoftPlus{}", self.test.read_text())

    def test_keeps_what_exists(self):
        self.test.parent.mkdir(parents=True)
        self.test.write_text("mine")
        done = self.run_script("soft_plus")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("exists already; nothing was written", done.stderr)
        self.assertEqual(self.test.read_text(), "mine")
        self.assertFalse(self.layer.exists())

    def test_refuses_other_names(self):
        for name in ["SoftPlus", "soft-plus", "../soft", "2d", "soft__plus", ""]:
            done = self.run_script(name)
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn("is not snake_case", done.stderr)


if __name__ == "__main__":
    unittest.main()
