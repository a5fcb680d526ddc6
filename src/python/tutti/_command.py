"""The `tutti` command: the program that the package carries."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import tutti._install


def main() -> NoReturn:
    """Becomes the program, with this process's arguments."""
    os.execv(tutti._install.command(), ["tutti", *sys.argv[1:]])
