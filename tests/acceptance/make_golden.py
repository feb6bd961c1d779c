"""Writes golden/minilm.json anew: `python tests/acceptance/make_golden.py "why the bits changed"`. On a host with AVX-512, so that both
levels are compared before anything is written."""

from __future__ import annotations

import json
import sys

from chip import python
from test_minilm import FORWARD, GOLDEN, ON_DEVICE, SENTENCES, levels


def main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].strip():
        print(__doc__, file=sys.stderr)
        return 2
    if "avx512" not in levels():
        print("this host has no AVX-512: the file would hold for one level only", file=sys.stderr)
        return 1
    hashes = {
        isa: python(FORWARD + ON_DEVICE + "answer(digest=digest(result))", {"VNPU_ISA": isa})["digest"]
        for isa in levels()
    }
    if len(set(hashes.values())) != 1:
        print(f"the levels differ: {hashes}", file=sys.stderr)
        return 1
    GOLDEN.parent.mkdir(exist_ok=True)
    golden = {
        "what": "embeddings of the first sentences",
        "sentences": SENTENCES,
        "sha256": hashes["avx2"],
        "reason": sys.argv[1],
    }
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
    print(GOLDEN.read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
