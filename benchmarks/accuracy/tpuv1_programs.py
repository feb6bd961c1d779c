"""MLP0 and CNN0 as programs of the instruction set: activations stay in the unified buffer, weights come tile by tile.

That is how the TPU v1 runs them: its memory holds weights alone, activations cross the host link. Kernels of this library keep nothing
on the chip from one launch to the next, so the two networks are written out, layer after layer, in one program. Whole tiles of
256 x 256, as the weight memory has them. What the array waits for between layers (input, activations) is signalled by the activation
unit, so that it counts as a dependency and not as a weight stall.
"""

from __future__ import annotations

from benchmarks.accuracy.convolution import Conv
from benchmarks.accuracy.rows import Call, round_up

EDGE = 256  # rows and columns of the array
TILE = EDGE * EDGE  # bytes of a tile of weights


def _program(name: str, patterns: list[str], queues: dict[str, list[str]], sram: int, acc: int) -> str:
    semaphores = ("x_full", "w_full", "w_free", "acc_full", "acc_free", "act_full", "done")
    lines = [f".program {name}", ".arg x in", ".arg w in", ".arg out out", *(f".sem {s}" for s in semaphores)]
    lines += [f".sram {sram}", f".acc {acc}", *patterns]
    for queue, instructions in queues.items():
        lines += [f".queue {queue}", *instructions]
    return "\n".join(lines) + "\n"


def perceptron(layers: int, batch: int, inputs: int) -> Call:
    """Square layers of inputs x inputs with an activation behind each; int8, batch x inputs activations."""
    width = round_up(inputs, EDGE)
    steps, act = width // EDGE, batch * width
    fifo = 4  # tiles of weights
    patterns = [
        f".ap x_far dram i8 arg=x dims=[{act}:1]",
        f".ap x_near sram i8 base=0 dims=[{act}:1]",
        f".ap out_far dram i8 arg=out dims=[{act}:1]",
        f".ap out_near sram i8 base={act * (layers % 2)} dims=[{act}:1]",
        f".ap w_near sram i8 base={2 * act} dims=[{EDGE}:{EDGE}, {EDGE}:1] rot=1:{fifo}:{TILE}",
        f".ap sums acc i32 dims=[{batch}:{EDGE}, {EDGE}:1] rot=0:2:{batch * EDGE}",
    ]
    for side in range(2):
        patterns.append(f".ap in{side} sram i8 base={side * act} dims=[{batch}:{width}, {EDGE}:1] loop1=+{EDGE}")
        patterns.append(f".ap next{side} sram i8 base={side * act} dims=[{batch}:{width}, {EDGE}:1] loop0=+{EDGE}")
    weights, matrix = [], [f"sync signal=w_free+{fifo}"]
    vector = ["sync signal=acc_free+2", f"sync wait=x_full signal=act_full+{steps}"]
    for layer in range(layers):
        patterns.append(
            f".ap w{layer} dram i8 arg=w base={layer * steps * steps * TILE} dims=[{EDGE}:{EDGE}, {EDGE}:1] "
            f"loop0=+{steps * TILE} loop1=+{TILE}"
        )
        weights += [
            f"loop {steps}",
            f"loop {steps}",
            f"dma_copy dst=w_near src0=w{layer} wait=w_free signal=w_full",
            "endloop",
            "endloop",
        ]
        matrix += [
            f"sync wait=act_full>={steps}",
            f"loop {steps}",
            "sync wait=acc_free",
            f"loop {steps}",
            f"mm dst=sums src0=in{layer % 2} src1=w_near notfirst=1 wait=w_full signal=w_free signal=acc_full",
            "endloop",
            "endloop",
        ]
        last = " signal=done" if layer == layers - 1 else " signal=act_full"
        vector += [
            f"loop {steps}",
            f"v_unary.relu dst=next{(layer + 1) % 2} src0=sums int wait=acc_full>={steps} signal=acc_free{last}",
            "endloop",
        ]
    host = [
        "dma_copy dst=x_near src0=x_far signal=x_full",
        f"dma_copy dst=out_far src0=out_near wait=done>={steps}",
    ]
    source = _program(
        "perceptron",
        patterns,
        {"dma0": weights, "matrix0": matrix, "vector0": vector, "dma1": host},
        2 * act + fifo * TILE,
        8 * batch * EDGE,
    )
    return {"op": "text", "source": source, "args": [act, layers * steps * steps * TILE, act]}


def convolutions(layers: int, conv: Conv) -> Call:
    """Equal layers of conv with c_in = c_out = 256 and stride 1; int8, images with their border in the unified buffer."""
    assert conv.c_in == conv.c_out == EDGE and conv.stride == 1
    rows, cols = conv.height + 2 * conv.pad, conv.width + 2 * conv.pad
    act, kernel = conv.batch * rows * cols * EDGE, conv.kernel
    fifo = kernel  # tiles of weights: a row of kernel positions
    pixels = f"{conv.batch}:{rows * cols * EDGE}, {conv.height}:{cols * EDGE}, {conv.width}:{EDGE}"
    sums = conv.batch * conv.height * conv.width * EDGE
    inside = (conv.pad * cols + conv.pad) * EDGE
    patterns = [
        f".ap x_far dram i8 arg=x dims=[{act}:1]",
        f".ap x_near sram i8 base=0 dims=[{act}:1]",
        f".ap out_far dram i8 arg=out dims=[{act}:1]",
        f".ap out_near sram i8 base={act * (layers % 2)} dims=[{act}:1]",
        f".ap w_near sram i8 base={2 * act} dims=[{EDGE}:{EDGE}, {EDGE}:1] rot=1:{fifo}:{TILE}",
        f".ap sums acc i32 dims=[{conv.batch}:{sums // conv.batch}, {conv.height}:{conv.width * EDGE}, {conv.width}:{EDGE}, {EDGE}:1]",
    ]
    for side in range(2):
        patterns.append(
            f".ap in{side} sram i8 base={side * act} dims=[{pixels}, {EDGE}:1] loop0=+{cols * EDGE} loop1=+{EDGE}"
        )
        patterns.append(f".ap next{side} sram i8 base={side * act + inside} dims=[{pixels}, {EDGE}:1]")
    weights, matrix, vector = (
        [],
        [f"sync signal=w_free+{fifo}"],
        ["sync signal=acc_free", "sync wait=x_full signal=act_full"],
    )
    for layer in range(layers):
        patterns.append(
            f".ap w{layer} dram i8 arg=w base={layer * kernel * kernel * TILE} dims=[{EDGE}:{EDGE}, {EDGE}:1] "
            f"loop0=+{kernel * TILE} loop1=+{TILE}"
        )
        weights += [
            f"loop {kernel}",
            f"loop {kernel}",
            f"dma_copy dst=w_near src0=w{layer} wait=w_free signal=w_full",
            "endloop",
            "endloop",
        ]
        matrix += [
            "sync wait=act_full wait=acc_free",
            f"loop {kernel}",
            f"loop {kernel}",
            f"mm dst=sums src0=in{layer % 2} src1=w_near notfirst=0,1 wait=w_full signal=w_free signal=acc_full",
            "endloop",
            "endloop",
        ]
        last = "done" if layer == layers - 1 else "act_full"
        vector.append(
            f"v_unary.relu dst=next{(layer + 1) % 2} src0=sums int wait=acc_full>={kernel * kernel} signal=acc_free signal={last}"
        )
    host = ["dma_copy dst=x_near src0=x_far signal=x_full", "dma_copy dst=out_far src0=out_near wait=done"]
    source = _program(
        "convolutions",
        patterns,
        {"dma0": weights, "matrix0": matrix, "vector0": vector, "dma1": host},
        2 * act + fifo * TILE,
        4 * sums,
    )
    return {"op": "text", "source": source, "args": [act, layers * kernel * kernel * TILE, act]}
