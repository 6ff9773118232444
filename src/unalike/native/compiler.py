"""The system's C compiler, and the folder of what it has made."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import platformdirs

from unalike.native.trust import why_not_our_file, why_not_ours

VARIABLE = "UNALIKE_CACHE"
COMPILERS = ("clang", "cc", "gcc")
"""The first that is there. Clang's code was a fifth faster than GCC's on simple-cnn."""
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
SECONDS = 300

Say = Callable[[str], None]


class NoCompiler(Exception):
    """Why nothing can be compiled on this machine."""


def cache_folder() -> Path:
    """The folder in ``UNALIKE_CACHE``, else the user's cache folder."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("unalike") / "compiled"


def find_compiler() -> str:
    """The path of the C compiler: ``CC`` if it is set, else the first of the usual names."""
    names = [os.environ["CC"]] if os.environ.get("CC") else COMPILERS
    for name in names:
        if path := shutil.which(name):
            return path
    raise NoCompiler(f"there is no C compiler ({', '.join(names)})")


@cache
def _asked(compiler: str, *arguments: str) -> str:
    try:
        answer = subprocess.run(
            [compiler, *arguments], capture_output=True, text=True, timeout=SECONDS, check=True, input=""
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NoCompiler(f"{compiler} does not answer ({error})") from None
    return answer.stdout


def vector_width() -> int:
    """Floats in a vector of this machine, as the compiler sees it."""
    macros = _asked(find_compiler(), *FLAGS[:3], "-dM", "-E", "-")
    return 16 if "__AVX512F__" in macros else 8 if "__AVX__" in macros else 4


def load(source: str, say: Say, what: str = "the net", flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library of a source: from the folder, or compiled now. A damaged one is compiled again.

    Where somebody else could have put a library into the folder, nothing there is used: ``what`` is compiled for
    this process alone, and one line says why. ``flags`` are further ones of the compiler.
    """
    compiler = find_compiler()
    # The macros say what -march=native is here, so that a folder may be shared by different machines.
    target = (_asked(compiler, *FLAGS[:3], "-dM", "-E", "-"), _asked(compiler, "--version"), platform.machine())
    key = hashlib.sha256("\0".join([source, *FLAGS, *flags, *target]).encode()).hexdigest()[:24]
    try:
        folder = _make(cache_folder())
        if (reason := why_not_ours(folder)) is not None:
            say(
                f"Compiling {what} for this machine: its cache folder {folder} is not used, as {reason}. Keep "
                f"others out (chmod go-w), or name a folder of your own in {VARIABLE}."
            )
            return _alone(compiler, source, flags)
        if (library := _kept(folder, key, say, what)) is not None:
            return library
        making = tempfile.TemporaryDirectory(dir=folder, prefix="making-")
    except OSError:  # nothing can be kept there
        say(f"Compiling {what} for this machine (its cache folder cannot be written to).")
        return _alone(compiler, source, flags)
    with making as place:
        say(f"Compiling {what} for this machine, once.")
        made = _compile(compiler, source, Path(place), flags)
        # A whole file appears under its name at once: another process sees all of it or nothing.
        try:
            made = made.replace(folder / f"{key}-{_digest(made)}.so")
        except OSError as error:
            raise NoCompiler(f"the library cannot be kept in {folder} ({error.strerror})") from None
        return _opened(made)


def _make(folder: Path) -> Path:
    """The folder, made if it is not there, with what is missing above it, for this user alone; no links in it."""
    missing = [level for level in (folder, *folder.parents) if not level.exists()]
    for level in reversed(missing):
        level.mkdir(0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(folder)
    return folder.resolve(strict=True)


def _alone(compiler: str, source: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    """The library, compiled for this process and kept nowhere."""
    try:
        with tempfile.TemporaryDirectory(prefix="unalike-") as made:
            folder = Path(made).resolve(strict=True)
            if (reason := why_not_ours(folder)) is not None:
                raise NoCompiler(f"there is no folder to compile in, as {reason}; set TMPDIR to one of your own")
            return _opened(_compile(compiler, source, folder, flags))
    except OSError as error:
        raise NoCompiler(f"there is no folder to compile in ({error.strerror})") from None


def _compile(compiler: str, source: str, folder: Path, flags: tuple[str, ...]) -> Path:
    text, made = folder / "source.c", folder / "made.so"
    command = [compiler, *FLAGS, *flags, str(text), "-o", str(made), "-lm"]
    try:
        text.write_text(source, encoding="utf-8")
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoCompiler(f"{compiler} did not finish ({error})") from None
    if done.returncode or not made.exists():
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise NoCompiler(f"{compiler} failed ({first})")
    made.chmod(0o644)  # whatever the umask is, nobody else may change what is kept
    return made


def _opened(path: Path) -> ctypes.CDLL:
    """The library; where a folder may not hold programs (noexec), there is none."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NoCompiler(f"what was compiled cannot be loaded ({error})") from None


def _kept(folder: Path, key: str, say: Say, what: str) -> ctypes.CDLL | None:
    """A library of the folder, if it is whole, which its name says: opening half of one could end the process.

    The folder is ours, so a file that is ours stays what it is between the looks at it.
    """
    for path in sorted(folder.glob(f"{key}-*.so")):
        try:
            if (reason := why_not_our_file(path)) is not None:
                say(f"A compiled file of {what} is not used, but made again: {reason}.")
            elif path.stem == f"{key}-{_digest(path)}":
                return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]
