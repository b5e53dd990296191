"""Runs the program: ``python -m spoor_crawler crawl job.toml``."""

import os
import subprocess
import sys

from . import SpoorError, program


def main() -> None:
    try:
        command = [program(), *sys.argv[1:]]
    except SpoorError as error:
        sys.exit(f"spoor: {error}")
    if os.name == "posix":
        os.execv(command[0], command)
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
