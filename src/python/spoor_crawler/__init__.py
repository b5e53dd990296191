"""What spoor, a polite focused web crawler, brings home, as dicts.

>>> import spoor_crawler
>>> spoor_crawler.run("crawl", "lighthouses.toml", "--pages", "100")
>>> for document in spoor_crawler.documents("lighthouses.toml"):
...     print(document["url"], len(document["text"]))

Everything is done by the program ``spoor``, which comes with this package.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Iterator, Union, cast

from ._types import Context, Document, Image

__all__ = [
    "Context",
    "Document",
    "Image",
    "SpoorError",
    "documents",
    "images",
    "program",
    "read",
    "run",
]

_Path = Union[str, "os.PathLike[str]"]


class SpoorError(Exception):
    """The program is missing or has failed; the message is its own."""


def program() -> str:
    """The path of the program: that of this package, else the one on ``PATH``.

    Raises SpoorError if there is none.
    """
    name = "spoor" + (sysconfig.get_config_var("EXE") or "")
    user = "posix_user" if os.name == "posix" else "nt_user"
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=user),
        # After `pip install --target`.
        os.path.join(beside, "bin"),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("spoor")
    if found is None:
        raise SpoorError(
            f"the program {name} is in none of {', '.join(folders)} and not on PATH; "
            "install this package again with `pip install --force-reinstall spoor-crawler`"
        )
    return found


def run(*arguments: _Path) -> None:
    """Runs the program with its own output, as ``run("crawl", "job.toml", "--pages", "100")``.

    Raises SpoorError if it fails.
    """
    command = [program(), *map(os.fspath, arguments)]
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise SpoorError(f"`spoor {' '.join(command[1:])}` ended with code {code}")


def documents(job: _Path) -> Iterator[Document]:
    """The documents of a job, given its TOML file or its folder.

    Each page comes once, as it was at the last visit. Pages that were taken down, or whose use a
    later visit found forbidden, do not come. Their keys are described by
    ``spoor schema document``. A crawl may be running. While the iterator is open, ``spoor
    takedown`` waits.

    Raises SpoorError with the message of the program.
    """
    return cast("Iterator[Document]", _print(job))


def images(job: _Path) -> Iterator[Image]:
    """The images of a job with the words around them, given its TOML file or its folder.

    ``path`` is the path of the image; ``spoor schema sidecar`` describes the other keys.

    Raises SpoorError with the message of the program.
    """
    return cast("Iterator[Image]", _print(job, "--images"))


def read(path: _Path) -> Iterator[dict[str, Any]]:
    """The documents of a corpus, given its plan or its folder, or the lines of a file of JSON
    lines, packed with gzip, zstd or not at all.

    Raises SpoorError with the message of the program.
    """
    return _print(path)


def _print(path: _Path, *options: str) -> Iterator[dict[str, Any]]:
    command = [program(), "--quiet", "print", *options, "--", os.fspath(path)]
    # A pipe that nothing reads would stop the program when it is full.
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)
        lines = process.stdout
        assert lines is not None
        is_whole = False
        try:
            for line in lines:
                yield json.loads(line)
            is_whole = True
        finally:
            lines.close()
            if not is_whole:
                process.kill()
            code = process.wait()
        said.seek(0)
        words = said.read().decode("utf-8", "replace").strip()
        if code != 0:
            raise SpoorError(words.removeprefix("spoor: ") or f"spoor ended with code {code}")
        if words:
            # Warnings about damaged lines.
            print(words, file=sys.stderr)
