"""Compiles the backend against the PyTorch that is installed, once for each version.

PyTorch promises no stable interface for backends, so that a library compiled for one version does not load with the
next. Its wheel has its headers, but no compiler: g++ must be there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

import torch

from tutti import _install

_HERE = pathlib.Path(__file__).absolute().parent
# What passes strings to libtutti has its ABI, and all else that of PyTorch.
_OF_TUTTI = ("join.cc",)
_OF_PYTORCH = ("backend.cc", "channel.cc", "messages.cc", "tasks.cc")
_SECONDS = 1800  # on a machine that is very busy; 40 on a quiet one
_CURE = "let TUTTI_TORCH_CACHE name a folder of this user's that no other can write"


def _cache() -> pathlib.Path:
    chosen = os.environ.get("TUTTI_TORCH_CACHE")
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        base = base or pathlib.Path.home() / ".cache"
    except RuntimeError as error:  # a user without a home folder
        raise ImportError(f"tutti.torch: {error}; {_CURE}") from error
    return pathlib.Path(base) / "tutti" / "torch"


def _require_private(path: pathlib.Path) -> None:
    """What lies there is loaded into this process: nobody but this user and root may be able to write it."""
    of = path.stat()
    if of.st_uid not in (os.geteuid(), 0):
        wrong, cure = f"belongs to the user {of.st_uid}", _CURE
    elif of.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        wrong, cure = f"has the mode {stat.S_IMODE(of.st_mode):04o}", f"run chmod go-w, or {_CURE}"
    else:
        return
    raise ImportError(f"tutti.torch: {path} {wrong}, so that others could replace the backend: {cure}")


def _compiler() -> list[str]:
    """The command that CXX names, as "ccache g++"."""
    try:
        command = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    except ValueError as error:
        raise ImportError(f"tutti.torch: CXX={os.environ['CXX']} is no command: {error}") from None
    path = shutil.which(command[0])
    if path is None:
        raise ImportError(
            f"tutti.torch is compiled at its first use, and there is no compiler {command[0]}: install g++ "
            "(Debian: apt install g++), or let CXX name one that knows C++20"
        )
    return [path, *command[1:]]


def _abi() -> int:
    return int(torch.compiled_with_cxx11_abi())


def _flags(source: str, headers: str) -> list[str]:
    abi = 1 if source in _OF_TUTTI else _abi()
    flags = ["-std=c++20", "-O2", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-I", headers]
    if source == "backend.cc":  # most of it is PyTorch's headers
        flags += ["-O1", "-isystem", str(pathlib.Path(torch.__file__).parent / "include")]
    return flags


def _key(headers: str) -> str:
    """Everything that the result depends on, in short."""
    content = hashlib.sha256(repr([_abi(), sys.implementation.cache_tag, _flags("backend.cc", "")[:4]]).encode())
    files = [path for path in _HERE.iterdir() if path.suffix in (".cc", ".h")]
    files += (pathlib.Path(headers) / "tutti").glob("*.h")
    for path in sorted(files):
        content.update(path.name.encode() + path.read_bytes())
    return f"{torch.__version__}-{content.hexdigest()[:16]}"


def _wait_for(process: subprocess.Popen[str], until: float, source: str) -> None:
    try:
        _, said = process.communicate(timeout=max(1.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ImportError(f"tutti.torch: {source} was not compiled within {_SECONDS} s") from None
    if process.returncode != 0:
        raise ImportError(
            f"tutti.torch does not compile with PyTorch {torch.__version__}: {' '.join(map(str, process.args))}\n{said}"
        )


def _run_all(commands: dict[str, list[str]]) -> None:
    until = time.monotonic() + _SECONDS
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for source, command in commands.items():
            running[source] = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        for source, process in running.items():
            _wait_for(process, until, source)
    finally:
        for process in running.values():
            if process.poll() is None:  # g++ has processes of its own
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=10)


def _compile(target: pathlib.Path) -> None:
    compiler, headers, library = _compiler(), _install.include(), _install.library()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        objects = {source: f"{folder}/{source}.o" for source in _OF_PYTORCH + _OF_TUTTI}
        _run_all({
            source: [*compiler, *_flags(source, headers), "-c", str(_HERE / source), "-o", made]
            for source, made in objects.items()
        })
        made = f"{folder}/{target.name}"
        torch_libraries = pathlib.Path(torch.__file__).parent / "lib"
        link = [*compiler, "-shared", "-o", made, *objects.values(), f"-L{torch_libraries}", "-ltorch_cpu", "-lc10", library]
        _run_all({"the backend": link})
        os.chmod(made, 0o755)  # whatever the umask
        os.replace(made, target)


@contextlib.contextmanager
def _locked(path: pathlib.Path):
    """Of several ranks that start together one compiles. Waits no longer than it may take."""
    until = time.monotonic() + 2 * _SECONDS
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ImportError(f"tutti.torch: another process has held {path} for {2 * _SECONDS} s") from None
                time.sleep(0.05)
        yield


def library() -> str:
    """The path of the backend for this PyTorch, which is compiled if need be."""
    folder = _cache()
    target = folder / f"backend-{_key(_install.include())}.so"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_private(folder)
        if not target.exists():
            with _locked(folder / f"{target.name}.lock"):
                if not target.exists():
                    print(f"tutti.torch: compiling for PyTorch {torch.__version__}, once", file=sys.stderr, flush=True)
                    _compile(target)
        _require_private(target)
    except OSError as error:
        raise ImportError(f"tutti.torch: {error}; {_CURE}") from error
    return str(target)
