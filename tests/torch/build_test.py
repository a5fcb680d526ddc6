"""How tutti.torch is compiled: once for several processes, again for another PyTorch, and with a clear error if it cannot.

A program that notes its calls stands for the compiler.
"""

import multiprocessing
import os
import pathlib
import stat
import tempfile
import unittest

import torch

from tutti.torch import _build

COMPILER = """#!/bin/sh
echo "$@" >> "{log}"
sleep 0.2
while [ $# -gt 0 ]; do [ "$1" = -o ] && touch "$2"; shift; done
exit {status}
"""


class BuildTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "calls"
        os.environ["TUTTI_TORCH_CACHE"] = str(self.folder / "cache")
        self.addCleanup(os.environ.pop, "TUTTI_TORCH_CACHE")
        self.addCleanup(os.environ.pop, "CXX", None)

    def use_compiler(self, status=0):
        path = self.folder / "compiler"
        path.write_text(COMPILER.format(log=self.log, status=status))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        os.environ["CXX"] = str(path)

    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_several_processes_compile_once(self):
        self.use_compiler()
        with multiprocessing.get_context("fork").Pool(4) as pool:
            paths = {result.get(60) for result in [pool.apply_async(_build.library) for _ in range(4)]}
        self.assertEqual(len(paths), 1)
        self.assertTrue(pathlib.Path(paths.pop()).exists())
        sources = len(_build._OF_PYTORCH + _build._OF_TUTTI)
        self.assertEqual(len(self.calls()), sources + 1)
        _build.library()
        self.assertEqual(len(self.calls()), sources + 1)
        left = [path.name for path in (self.folder / "cache").iterdir() if path.is_dir()]
        self.assertEqual(left, [], "folders of the compiler are left")

    def test_the_name_has_the_version(self):
        self.use_compiler()
        first = _build.library()
        self.assertIn(torch.__version__, first)
        version, torch.__version__ = torch.__version__, "2.99.0"
        try:
            self.assertNotEqual(first, _build.library())
        finally:
            torch.__version__ = version

    def test_without_a_compiler(self):
        os.environ["CXX"] = "no-such-compiler"
        with self.assertRaisesRegex(ImportError, "no compiler no-such-compiler: install g\\+\\+"):
            _build.library()

    def test_a_compiler_that_fails(self):
        self.use_compiler(status=1)
        with self.assertRaisesRegex(ImportError, "does not compile with PyTorch"):
            _build.library()

    def test_a_folder_that_cannot_be_made(self):
        self.use_compiler()
        (self.folder / "cache").write_text("a file")
        with self.assertRaisesRegex(ImportError, "TUTTI_TORCH_CACHE can name a folder"):
            _build.library()


if __name__ == "__main__":
    unittest.main()
