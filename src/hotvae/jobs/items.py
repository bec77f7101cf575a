"""Work that falls into items which need nothing of each other: tiles of a map, pieces of a table.

An *order* says all there is to know of the work and can be sent anywhere; opened, it loads what all items share and
then does one item after the other. Each item ends as a file, written whole or not at all, and only its path and its
checksum come back. So it does not matter where an item is done, nor that one is done twice.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hotvae.errors import DataError


@dataclass(frozen=True)
class Made:
    """What came of an item.

    Attributes
    ----------
    path : str
        Its file.
    digest : str
        SHA-256 of the file.
    seconds : mapping of str to float
        Where the processor's time went.
    """

    path: str
    digest: str
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, seconds: Mapping[str, float] | None = None) -> "Made":
        """Take note of a file that was just written."""
        return cls(str(path), digest_of(path), seconds or {})

    def check(self) -> None:
        """See that the file is where it was said to be, and is what was written.

        Raises
        ------
        DataError
            A file that cannot be seen from here, or is another.
        """
        path = Path(self.path)
        if not path.is_file() or digest_of(path) != self.digest:
            found = "another file" if path.is_file() else "none"
            raise DataError(
                f"what a worker has written must be seen from here; got {found} at {self.path}. Choose a folder on a "
                "disk that all machines share."
            )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Order(Protocol):
    """All there is to know of the work; it can be pickled."""

    def open(self) -> Callable[[Any], Made]:
        """Load what all items share, and return what does an item."""
        ...


Each = Callable[[Order, Sequence[Any]], Iterator[Made]]
"""Does all items of an order, in any place and order."""
