"""Small damage to valid bytes and texts; every choice comes from one generator of random numbers."""

import io
import random
import re
import zipfile
from collections.abc import Callable

NASTY = [
    *(
        "",
        " ",
        "\t",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1e400",
        "-1e308",
        "1e30",
        "1e-320",
        "-0",
        "-9999",
        "99999999999999999999",
    ),
    *(
        "0x10",
        "1_000",
        "1,5",
        "1.5.6",
        "TRUE",
        "yes",
        "NA",
        "#N/A",
        "null",
        "None",
        "2020-01-01",
        "2020-99-99",
        "12:30",
    ),
    *(
        '"',
        "'",
        '""',
        "O'Brien",
        "1'500",
        "{",
        "}",
        "[",
        "]",
        "\\",
        "%",
        "#",
        "?",
        "*",
        "sp_*",
        "@",
        "@x",
        "=1+1",
        "=cmd|' /C calc'!A0",
    ),
    *(
        "\0",
        "\ufeff",
        "\u202e",
        "é",
        "Ω",
        "😀",
        "\ud7ff",
        "\x1b[31m",
        "\r",
        "\n",
        "\r\n",
        "\u2028",
        "\x0b",
        ";",
        ",",
        "|",
    ),
    *(
        "a" * 300,
        "9" * 400,
        "(" * 200,
        "../../x",
        "/",
        "Unnamed: 0",
        "row",
        "site",
        "sp_0",
        "(row)",
        "__class__",
        "$(id)",
    ),
]
"""Texts that have broken readers of tables before."""

NUMBERS = [0, 1, -1, 2, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 10**13, 10**30, -(10**13), 0.5, 1e308]
"""Numbers where types and sizes end."""


def mutated_text(text: str, random_: random.Random) -> str:
    """Damage a text in one to four places: its lines, cells and characters."""
    for _ in range(random_.choice((1, 1, 1, 2, 4))):
        text = random_.choice(_TEXT)(text, random_)
    return text


def mutated_bytes(content: bytes, random_: random.Random) -> bytes:
    """Damage bytes in one to four places."""
    for _ in range(random_.choice((1, 1, 2, 4))):
        content = random_.choice(_BYTES)(content, random_)
    return content


def mutated_archive(content: bytes, random_: random.Random) -> bytes:
    """Damage a zip archive: its bytes, or what is in one of its members, or their names."""
    if random_.random() < 0.3:
        return mutated_bytes(content, random_)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random_.choice(sorted(members))
    what = random_.random()
    if what < 0.1:
        del members[name]
    elif what < 0.2:
        members[random_.choice(["../x", "/x", "x" * 300, name.upper(), "X", "Y.npy", "meta.xml"])] = members.pop(name)
    elif what < 0.3:
        members[name] = members[random_.choice(sorted(members))]
    elif what < 0.5:
        members[name] = _header_edit(members[name], random_)
    else:
        try:
            members[name] = mutated_text(members[name].decode(), random_).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            members[name] = mutated_bytes(members[name], random_)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", random_.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, inside in members.items():
            archive.writestr(member, inside)
    return made.getvalue()


def mutated_value(value: object, random_: random.Random) -> object:
    """Damage one place of what JSON holds: a value, a name, an item of a list."""
    if isinstance(value, dict) and value and random_.random() < 0.9:
        name = random_.choice(sorted(value))
        what = random_.random()
        if what < 0.1:
            return {other: item for other, item in value.items() if other != name}
        if what < 0.15:
            return {**value, str(random_.choice(NASTY)): value[name]}
        return {**value, name: mutated_value(value[name], random_)}
    if isinstance(value, list) and value and random_.random() < 0.8:
        place = random_.randrange(len(value))
        what = random_.random()
        if what < 0.2:
            return value[:place] + value[place + 1 :]
        if what < 0.4:
            return [*value, value[place]]
        if what < 0.5:
            return value[::-1]
        return [*value[:place], mutated_value(value[place], random_), *value[place + 1 :]]
    return random_.choice([None, True, False, [], {}, [[]], [None], {"a": 1}, "x", *NUMBERS, *NASTY])


def _header_edit(content: bytes, random_: random.Random) -> bytes:
    """Change what the header of an array says of its kind and shape."""
    text = content[:128].decode("latin-1")
    wanted = random_.choice(
        [
            (r"\(\d+, \d+\)", f"({random_.choice(NUMBERS)}, {random_.choice(NUMBERS)})"),
            (r"\(\d+,", f"({random_.choice(NUMBERS)},"),
            (
                r"'[<|>][a-zA-Z]\d+'",
                repr(random_.choice(["<f2", "<f16", "|O", "<U9", "|S3", "<M8[s]", "|V8", "|b1", "<c16"])),
            ),
            (r"False", "True"),
        ]
    )
    return re.sub(wanted[0], wanted[1], text, count=1).encode("latin-1") + content[128:]


def _lines(change: Callable[[list[str], random.Random], None]) -> Callable[[str, random.Random], str]:
    def apply(text: str, random_: random.Random) -> str:
        lines = text.split("\n")
        change(lines, random_)
        return "\n".join(lines)

    return apply


def _drop_line(lines: list[str], random_: random.Random) -> None:
    del lines[random_.randrange(len(lines))]


def _repeat_line(lines: list[str], random_: random.Random) -> None:
    lines.insert(random_.randrange(len(lines)), random_.choice(lines))


def _cell(lines: list[str], random_: random.Random) -> None:
    place = random_.choice((0, random_.randrange(len(lines))))
    mark = next((mark for mark in (",", "\t", ";", " = ", ": ", " ") if mark in lines[place]), ",")
    cells = lines[place].split(mark)
    cells[random_.randrange(len(cells))] = random_.choice(NASTY)
    lines[place] = mark.join(cells)


def _add_cell(lines: list[str], random_: random.Random) -> None:
    lines[random_.randrange(len(lines))] += "," + random_.choice(NASTY)


def _column(lines: list[str], random_: random.Random) -> None:
    """Put one text, or nothing, into a whole column."""
    column, text = random_.randrange(10), random_.choice(["", *NASTY])
    for place in range(1, len(lines)):
        cells = lines[place].split(",")
        if column < len(cells) and random_.random() < 0.9:
            cells[column] = text
            lines[place] = ",".join(cells)


def _character(text: str, random_: random.Random) -> str:
    place = random_.randrange(len(text) + 1)
    return (
        text[:place] + random_.choice([*NASTY, chr(random_.randrange(0x3000))]) + text[place + random_.randrange(3) :]
    )


def _cut_text(text: str, random_: random.Random) -> str:
    return text[: random_.randrange(len(text) + 1)]


def _swap_marks(text: str, random_: random.Random) -> str:
    one, other = random_.sample([",", ";", "\t", "\n", '"', ".", "0", "1", " ", "s"], 2)
    return text.replace(one, other)


def _flip(content: bytes, random_: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(random_.choice((1, 1, 8, 64))):
        changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
    return bytes(changed)


def _cut(content: bytes, random_: random.Random) -> bytes:
    return content[: random_.randrange(len(content) + 1)]


def _insert(content: bytes, random_: random.Random) -> bytes:
    place = random_.randrange(len(content) + 1)
    return content[:place] + random_.randbytes(random_.choice((1, 4, 100))) + content[place:]


def _splice(content: bytes, random_: random.Random) -> bytes:
    start, end, place = (random_.randrange(len(content) + 1) for _ in range(3))
    return content[:place] + content[min(start, end) : max(start, end)][:5000] + content[place:]


def _zeros(content: bytes, random_: random.Random) -> bytes:
    place, count = random_.randrange(len(content) + 1), random_.choice((1, 16, 512))
    return content[:place] + b"\0" * count + content[place + count :]


def _number(content: bytes, random_: random.Random) -> bytes:
    """Put a number where a size may stand."""
    place, width = random_.randrange(len(content) + 1), random_.choice((2, 4, 8))
    value = random_.choice([0, 1, 2**8, 2**16, 2**31 - 1, 2**32 - 1, 2**63]) % 256**width
    return content[:place] + value.to_bytes(width, random_.choice(("little", "big"))) + content[place + width :]


_TEXT = [_lines(_drop_line), _lines(_repeat_line), _lines(_cell), _lines(_cell), _lines(_cell), _lines(_add_cell)]
_TEXT += [_lines(_column), _lines(_column), _character, _character, _cut_text, _swap_marks]
_BYTES = [_flip, _flip, _cut, _insert, _splice, _zeros, _number]
