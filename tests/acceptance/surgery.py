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

    @property
    def cut(self) -> int:
        """Trips to remove from the K loop: one, or as many as rotate buffers where an outer loop repeats it (docs/isa.md, section 4)."""
        level = self.lines[self.k_loop].level
        outer = [
            i
            for i in range(self.k_loop)
            if self.lines[i].queue == self.lines[self.mm].queue and self.lines[i].level < level
        ]
        if all(self._trips(i) in (0, 1) for i in outer):
            return 1
        (pattern,) = self.lines[self.mm].names("src0")
        rotation = re.search(r" rot=\d:(\d+):", self._table(pattern))
        return int(rotation[1]) if rotation else 1

    def shorter_k(self) -> str:
        """Fewer trips in every loop over K; what waits for all of its products waits for as many fewer."""
        left = self.trips - self.cut
        changed = {i: f"loop {left}" for i in range(len(self.lines)) if self._trips(i) == self.trips}
        assert len(changed) >= 2, "the K loop moves tiles and multiplies them"
        for semaphore in self.lines[self.mm].names("signal"):
            for i, line in enumerate(self.lines):
                if line.queue.startswith("vector"):
                    text = re.sub(rf" wait={semaphore}>={self.trips}\b", f" wait={semaphore}>={left}", line.text)
                    changed |= {i: text} if text != line.text else {}
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
        """The last `mm` (`cut` of them) of every K loop removed; waits and signals stay."""
        level = self.lines[self.k_loop].level
        end = next(i for i in range(self.mm, len(self.lines)) if self.lines[i].level == level)
        body = [self.idle_mm() if i == self.mm else self.lines[i].text for i in range(self.k_loop + 1, end)]
        return self.text(
            {self.k_loop: f"loop {self.trips - self.cut}", end: "\n".join(["endloop", *(body * self.cut)])}
        )

    def idle_mm(self) -> str:
        return "sync" + "".join(re.findall(r" (?:wait|signal)=\S+", self.lines[self.mm].text))

    def without_mm(self) -> str:
        """Every `mm` removed; waits and signals stay."""
        return self.text({self.mm: self.idle_mm()})

    def without_signal(self, index: int) -> str:
        return self.text({index: self.lines[index].without("signal")})

    def semaphore_number(self, name: str) -> int:
        names = [line.text.split()[1] for line in self.lines if line.text.startswith(".sem ")]
        return names.index(name)
