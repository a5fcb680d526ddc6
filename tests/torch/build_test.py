"""How tutti.torch is compiled: once for several processes, again for another PyTorch, and with a clear error if it cannot.
What others could have written is not loaded.

A program that notes its calls stands for the compiler.
"""

import multiprocessing
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

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
        with self.assertRaisesRegex(ImportError, "let TUTTI_TORCH_CACHE name a folder"):
            _build.library()

    def test_a_user_without_a_home(self):
        with mock.patch.dict(os.environ), mock.patch.object(pathlib.Path, "home", side_effect=RuntimeError("no home")):
            del os.environ["TUTTI_TORCH_CACHE"]
            os.environ.pop("XDG_CACHE_HOME", None)
            with self.assertRaisesRegex(ImportError, "no home; let TUTTI_TORCH_CACHE name a folder"):
                _build.library()

    def test_a_compiler_with_arguments(self):
        self.use_compiler()
        os.environ["CXX"] = f"env NAME='a b' {os.environ['CXX']} -march=native"
        _build.library()
        self.assertTrue(all(call.startswith("-march=native ") for call in self.calls()), self.calls())
        os.environ["CXX"] = "g++ '"
        with self.assertRaisesRegex(ImportError, "is no command"):
            _build._compiler()

    def test_others_cannot_write_what_is_loaded(self):
        self.use_compiler()
        before = os.umask(0o002)
        try:
            path = pathlib.Path(_build.library())
        finally:
            os.umask(before)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o755)
        for which in (path, path.parent):
            mode = stat.S_IMODE(which.stat().st_mode)
            for wrong in (mode | stat.S_IWGRP, mode | stat.S_IWOTH):
                which.chmod(wrong)
                with self.assertRaisesRegex(ImportError, f"{re.escape(str(which))} has the mode {wrong:04o}.*let TUTTI_TORCH_CACHE"):
                    _build.library()
            which.chmod(mode)
        self.assertEqual(_build.library(), str(path))

    def test_what_belongs_to_another_user(self):
        self.use_compiler()
        owner = os.geteuid()
        path = _build.library()
        if owner != 0:  # root's files are anybody's
            with mock.patch.object(os, "geteuid", return_value=owner + 1):
                with self.assertRaisesRegex(ImportError, f"belongs to the user {owner}"):
                    _build.library()
            return
        os.chown(path, 12345, -1)
        with self.assertRaisesRegex(ImportError, f"{re.escape(path)} belongs to the user 12345"):
            _build.library()

    def test_a_lock_that_is_a_link(self):
        self.use_compiler()
        victim = self.folder / "victim"
        victim.write_text("content")
        target = pathlib.Path(_build.library())
        target.unlink()
        lock = target.with_name(f"{target.name}.lock")
        lock.unlink()
        lock.symlink_to(victim)
        with self.assertRaisesRegex(ImportError, "let TUTTI_TORCH_CACHE name a folder"):
            _build.library()
        self.assertEqual(victim.read_text(), "content")

    def test_compilers_end_when_another_does_not_start(self):
        started, start = [], subprocess.Popen

        def keep(*arguments, **named):
            started.append(start(*arguments, **named))
            return started[-1]

        sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
        with mock.patch.object(subprocess, "Popen", keep), self.assertRaises(FileNotFoundError):
            _build._run_all({"one": sleeper, "two": [str(self.folder / "nothing")]})
        self.assertEqual([process.poll() for process in started], [-signal.SIGKILL])


if __name__ == "__main__":
    unittest.main()
