"""A transformer encoder as small as a test needs it: the operators of MiniLM, made-up weights. Imported by the programs under test."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(3))
        self.out, self.norm1 = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        self.up, self.down, self.norm2 = (
            nn.Linear(hidden, 4 * hidden),
            nn.Linear(4 * hidden, hidden),
            nn.LayerNorm(hidden),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, hidden = x.shape
        q, k, v = (f(x).view(batch, tokens, self.heads, -1).transpose(1, 2) for f in self.qkv)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, hidden)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, layers: int = 2, hidden: int = 192, heads: int = 6, words: int = 500, tokens: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, hidden), nn.Embedding(tokens, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return x.mean(dim=1)


def encoder_and_ids() -> tuple[Encoder, torch.Tensor]:
    """The same model and words every time."""
    torch.manual_seed(1)
    return Encoder().eval(), torch.randint(0, 500, (4, 64))
