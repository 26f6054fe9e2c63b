"""Compiles every Lua script and refuses globals that Redis does not have: `python -m tools.lint_lua [file ...]`.

Redis finds an undeclared name only when the line runs. The compiler of Lua 5.1, which is Redis's, writes each global
that a function reads or sets into its bytecode; they are read from there, so no second grammar of Lua is needed.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from lupa import lua51  # type: ignore[import-untyped]

from artiway import platform
from artiway.scheduling import scripts

# What Redis 7 gives a script, of which ours use these.
ALLOWED = {"KEYS", "ARGV", "redis", "cjson", "struct", "string", "math", "table"}
ALLOWED |= {"error", "ipairs", "pairs", "tonumber", "tostring", "unpack"}
GET_GLOBAL, SET_GLOBAL = 5, 7


class _Bytecode(BytesIO):
    """Reads what `string.dump` wrote on a 64-bit machine, as in Lua's ldump.c."""

    def number(self) -> int:
        return int(struct.unpack("<i", self.read(4))[0])

    def text(self) -> str:
        (size,) = struct.unpack("<Q", self.read(8))
        return self.read(size)[:-1].decode() if size else ""

    def constant(self) -> object:
        kind = self.read(1)[0]
        if kind == 1:
            return self.read(1)
        if kind == 3:
            return self.read(8)
        return self.text() if kind == 4 else None

    def globals(self) -> Iterator[tuple[int, str, bool]]:
        """Line, name and whether it is set, of a function and of all functions within it."""
        self.text()
        self.read(4 + 4 + 4)  # lines of its definition; upvalues, parameters, vararg, stack
        code = [struct.unpack("<I", self.read(4))[0] for _ in range(self.number())]
        constants = [self.constant() for _ in range(self.number())]
        for _ in range(self.number()):
            yield from self.globals()
        lines = [self.number() for _ in range(self.number())]
        for _ in range(self.number()):
            self.text()
            self.read(8)
        for _ in range(self.number()):
            self.text()
        for place, instruction in enumerate(code):
            if instruction & 0x3F in (GET_GLOBAL, SET_GLOBAL):
                yield lines[place], str(constants[instruction >> 14]), instruction & 0x3F == SET_GLOBAL


def complaints(name: str, text: str) -> list[str]:
    """The faults of one script, joined with its includes."""
    lua = lua51.LuaRuntime(encoding=None)
    # A shebang is Redis's, not Lua's; the empty line keeps the numbers of the others.
    source = text.partition("\n")[2] if text.startswith("#!") else text
    source = "\n" * (source is not text) + source
    compiled = lua.eval(b"function(text, name) return loadstring(text, name) end")(source.encode(), f"={name}".encode())
    if isinstance(compiled, tuple):
        return [compiled[1].decode()]
    code = _Bytecode(lua.globals()[b"string"][b"dump"](compiled))
    code.read(12)
    return [
        f"{name}:{line}: global {symbol} is {'set' if is_set else 'not declared'}"
        for line, symbol, is_set in sorted(code.globals())
        if is_set or symbol not in ALLOWED
    ]


def every_script() -> dict[str, str]:
    """Those of the fair queue with their includes, and the platform's, each of which is one file."""
    texts = {f"{verb}.lua": scripts.script(verb).text for verb in scripts.verbs()}
    return texts | {path.name: path.read_text() for path in (Path(platform.__file__).parent / "lua").glob("*.lua")}


def main() -> None:
    texts = {path: Path(path).read_text() for path in sys.argv[1:]} or every_script()
    found = [line for name, text in texts.items() for line in complaints(name, text)]
    sys.exit("\n".join(found) if found else 0)


if __name__ == "__main__":
    main()
