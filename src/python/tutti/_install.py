"""Where the files of this installation lie.

An installed package has the library and the headers inside. With TUTTI_BUILD_DIR, which names a
CMake build folder, they are those of that build and of its sources.
"""

from __future__ import annotations

import os
import pathlib

LIBRARY = "libtutti.so.0.2"
_VERSION = "0.2.0"


def build_folder() -> pathlib.Path | None:
    """The folder that TUTTI_BUILD_DIR names, or None for an installed package."""
    folder = os.environ.get("TUTTI_BUILD_DIR")
    return pathlib.Path(folder).absolute() if folder else None


def _package() -> pathlib.Path:
    return pathlib.Path(__file__).absolute().parent


def _source_of(build: pathlib.Path) -> pathlib.Path:
    cache = build / "CMakeCache.txt"
    if cache.is_file():
        for line in cache.read_text(errors="replace").splitlines():
            if line.startswith("CMAKE_HOME_DIRECTORY:INTERNAL="):
                return pathlib.Path(line.partition("=")[2])
    raise ImportError(f"TUTTI_BUILD_DIR={build} is not a configured build folder of Tutti: "
                      "run cmake there first, or unset the variable")


def _existing(path: pathlib.Path, what: str, cure: str) -> str:
    """`cure` is that of a build folder."""
    if not path.exists():
        where = cure if build_folder() else "install the package again"
        raise ImportError(f"Tutti's {what} is missing at {path}: {where}")
    return str(path)


def include() -> str:
    """The folder to compile with: it contains tutti/tutti.h."""
    build = build_folder()
    folder = _source_of(build) / "include" if build else _package() / "include"
    _existing(folder / "tutti" / "tutti.h", "header", "the sources have moved; run cmake again")
    return str(folder)


def library() -> str:
    """The path of the shared library that `import tutti` loads."""
    build = build_folder()
    return _existing((build / "lib" if build else _package()) / LIBRARY, "library",
                     "build the target tutti_shared")


def command() -> str:
    """The path of the program behind the `tutti` command."""
    build = build_folder()
    return _existing((build or _package()) / "bin" / "tutti", "command",
                     "build the target tutti")


def extension_folder() -> str | None:
    """The folder of the extension, where it does not lie in the package."""
    build = build_folder()
    if build is None:
        return None
    folder = build / "python"
    _existing(next(folder.glob("_core.*"), folder / "_core"), "extension",
              "build the target tutti_python")
    return str(folder)


def version() -> str:
    """The version of Tutti, as "0.2.0"."""
    return _VERSION
