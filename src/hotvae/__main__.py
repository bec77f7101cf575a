"""``python -m hotvae``: the command line, where its script is not on the path."""

import sys

from hotvae.cli import main

if __name__ == "__main__":
    sys.exit(main())
