"""Numbers as people read them."""

from __future__ import annotations

_TIME = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"), (1, "ps"))


def time_text(ps: float | None) -> str:
    """Picoseconds with the unit that keeps 1 to 999 before the point."""
    if ps is None:
        return "-"
    for factor, unit in _TIME:
        if abs(ps) >= factor:
            return f"{ps / factor:.3g} {unit}" if abs(ps) < 1000 * factor else f"{ps / factor:,.0f} {unit}"
    return "0"


def energy_text(pj: float) -> str:
    """Picojoules with the unit that keeps 1 to 999 before the point."""
    for factor, unit in ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ")):
        if abs(pj) >= factor:
            return f"{pj / factor:.3g} {unit}" if abs(pj) < 1000 * factor else f"{pj / factor:,.0f} {unit}"
    return f"{pj:.3g} pJ"


def bytes_text(size: float) -> str:
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(size) >= factor:
            return f"{size / factor:.3g} {unit}" if size < 1000 * factor else f"{size / factor:.0f} {unit}"
    return f"{size:.0f} B"


def si_text(value: float, unit: str = "") -> str:
    """Decimal prefixes: 1.23 TFLOP/s."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def percent_text(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{share:.1%}" if share == 0 or abs(share) >= 0.0005 else "<0.1%"
