"""Edits the disassembly of a matrix product: finds its K loop, its transfers and semaphores, and changes one thing at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass
class Line:
    queue: str  # "" in the tables
    text: str
    level: int = 0  # loops open around it

    def names(self, key: str) -> list[str]:
        """Names behind `key=`: operands, semaphores (without counts)."""
        return re.findall(rf" {key}=(\w+)", self.text)

    def without(self, key: str) -> str:
        return re.sub(rf" {key}=\S+", "", self.text)


def parse(text: str) -> list[Line]:
    lines, queue, level = [], "", 0
    for raw in text.splitlines():
        word = raw.split()[0] if raw.split() else ""
        if word == ".queue":
            queue, level = raw.split()[1], 0
        if word == "endloop":
            level -= 1
        lines.append(Line(queue, re.sub(r" line=\d+", "", raw), level))
        if word == "loop":
            level += 1
    return lines


class Product:
    """A program with one `mm`, inside a loop over K that its `notfirst` mask names."""

    def __init__(self, text: str) -> None:
        self.lines = parse(text)
        (self.mm,) = (i for i, line in enumerate(self.lines) if line.text.split()[:1] == ["mm"])
        (level,) = re.findall(r" notfirst=(\d)", self.lines[self.mm].text)
        self.k_loop = next(i for i in range(self.mm, -1, -1) if self.lines[i].level == int(level) and self._trips(i))
        self.trips = self._trips(self.k_loop)

    def _trips(self, index: int) -> int:
        match = re.fullmatch(r"\s*loop (\d+)", self.lines[index].text)
        return int(match[1]) if match else 0

    def text(self, changed: dict[int, str] | None = None) -> str:
        changed = changed or {}
        return "\n".join(changed.get(i, line.text) for i, line in enumerate(self.lines)) + "\n"

    def k_step(self) -> int:
        """Elements of K that one `mm` takes: the inner dimension of its first operand."""
        (pattern,) = self.lines[self.mm].names("src0")
        (table,) = (line.text for line in self.lines if line.text.startswith(f".ap {pattern} "))
        return int(re.findall(r"(\d+):-?\d+\]", table)[0])

    def shorter_k(self) -> str:
        """One trip fewer in every loop over K, and what waits for all of its products waits for one fewer."""
        changed = {i: f"loop {self.trips - 1}" for i in range(len(self.lines)) if self._trips(i) == self.trips}
        assert len(changed) >= 2, "the K loop moves tiles and multiplies them"
        for semaphore in self.lines[self.mm].names("signal"):
            for i, line in enumerate(self.lines):
                wait = f" wait={semaphore}>={self.trips}"
                if line.queue.startswith("vector") and line.text.endswith(wait) or wait + " " in line.text:
                    changed[i] = line.text.replace(wait, f" wait={semaphore}>={self.trips - 1}")
        return self.text(changed)

    def load_of(self, operand: str) -> int:
        """The transfer that fills an operand of `mm` ("src0", "src1"): the one to the same scratchpad bytes."""
        (pattern,) = self.lines[self.mm].names(operand)
        base = self._base(pattern)
        loads = [i for i, line in enumerate(self.lines) if line.queue.startswith("dma") and line.names("dst")]
        (found,) = (i for i in loads if self._base(self.lines[i].names("dst")[0]) == base and self._space(i) == "sram")
        return found

    def _table(self, pattern: str) -> str:
        (table,) = (line.text for line in self.lines if line.text.startswith(f".ap {pattern} "))
        return table

    def _base(self, pattern: str) -> int:
        match = re.search(r" base=(\d+)", self._table(pattern))
        return int(match[1]) if match else 0

    def _space(self, index: int) -> str:
        return self._table(self.lines[index].names("dst")[0]).split()[2]

    def doubled(self, index: int) -> str:
        """The transfer twice: the first takes the waits, the second gives the signals."""
        line = self.lines[index]
        return self.text({index: line.without("signal") + "\n" + line.without("wait")})

    def without_last_mm(self) -> str:
        """The last `mm` of every K loop removed; its waits and signals stay."""
        mm, end = self.lines[self.mm], self.mm + 1
        assert self.lines[end].text.strip() == "endloop" and self.k_loop == self.mm - 1
        waits = re.findall(r" (?:wait|signal)=\S+", mm.text)
        return self.text({self.k_loop: f"loop {self.trips - 1}", end: "endloop\nsync" + "".join(waits)})

    def without_mm(self) -> str:
        """Every `mm` removed; waits and signals stay."""
        waits = re.findall(r" (?:wait|signal)=\S+", self.lines[self.mm].text)
        return self.text({self.mm: "sync" + "".join(waits)})

    def without_signal(self, index: int) -> str:
        return self.text({index: self.lines[index].without("signal")})

    def semaphore_number(self, name: str) -> int:
        names = [line.text.split()[1] for line in self.lines if line.text.startswith(".sem ")]
        return names.index(name)
