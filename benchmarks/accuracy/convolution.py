"""Shapes of convolutions and of the networks that the sets name."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.accuracy.rows import Call


@dataclass(frozen=True)
class Conv:
    """A square-kernel convolution; sizes in elements."""

    batch: int
    height: int
    width: int
    c_in: int
    c_out: int
    kernel: int
    stride: int
    pad: int

    @property
    def out_height(self) -> int:
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def macs(self) -> int:
        outputs = self.batch * self.out_height * self.out_width * self.c_out
        return outputs * self.kernel * self.kernel * self.c_in

    @property
    def flops(self) -> float:
        return 2.0 * self.macs

    @property
    def elems(self) -> int:
        """Input, weights and output."""
        image = self.batch * self.height * self.width * self.c_in
        out = self.batch * self.out_height * self.out_width * self.c_out
        return image + out + self.kernel * self.kernel * self.c_in * self.c_out

    def call(self, dtype: str, out: str) -> Call:
        return {"op": "conv2d", "dtype": dtype, "out": out, **vars(self)}


def resnet(depth: int, batch: int) -> list[tuple[int, Conv]]:
    """Convolutions of ResNet-18 and ResNet-50 for 224 x 224 images with how often each occurs; v1, stride in the 3 x 3."""
    first = (1, Conv(batch, 224, 224, 3, 64, 7, 2, 3))
    if depth == 18:
        return [first, *_basic_stages(batch)]
    if depth == 50:
        return [first, *_bottleneck_stages(batch)]
    raise ValueError(f"resnet{depth}: only 18 and 50 are described")


def _basic_stages(batch: int) -> list[tuple[int, Conv]]:
    convs = [(4, Conv(batch, 56, 56, 64, 64, 3, 1, 1))]
    size, width = 56, 64
    for _ in range(3):
        convs.append((1, Conv(batch, size, size, width, 2 * width, 3, 2, 1)))
        convs.append((1, Conv(batch, size, size, width, 2 * width, 1, 2, 0)))
        size, width = size // 2, 2 * width
        convs.append((3, Conv(batch, size, size, width, width, 3, 1, 1)))
    return convs


def _bottleneck_stages(batch: int) -> list[tuple[int, Conv]]:
    convs: list[tuple[int, Conv]] = []
    size, before = 56, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        stride = 1 if stage == 0 else 2
        out_size = size // stride
        convs += [
            (1, Conv(batch, size, size, before, width, 1, 1, 0)),
            (1, Conv(batch, size, size, width, width, 3, stride, 1)),
            (1, Conv(batch, size, size, before, 4 * width, 1, stride, 0)),
            (blocks, Conv(batch, out_size, out_size, width, 4 * width, 1, 1, 0)),
            (blocks - 1, Conv(batch, out_size, out_size, 4 * width, width, 1, 1, 0)),
            (blocks - 1, Conv(batch, out_size, out_size, width, width, 3, 1, 1)),
        ]
        size, before = out_size, 4 * width
    return convs
