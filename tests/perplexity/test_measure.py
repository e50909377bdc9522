"""Figures against transformers' own loss, explicit softmaxes and models whose figures are known."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_models import write_gguf
from models import POSITIONS, byte_tokenizer, tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from icml.formats.errors import InputError, WorkError  # noqa: E402
from icml.tools.perplexity import perplexity  # noqa: E402

TEXT = "The quick brown fox jumps over the lazy dog; 12 < 34 & so on.\n" * 5


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("models") / "a")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("models") / "b", seed=1)


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, with a tokenizer that puts a token before every text."""
    folder = tiny_llama(tmp_path_factory.mktemp("models") / "c")
    byte_tokenizer(folder, begins=True)
    return folder


def loaded(path: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def tokens(path: Path, text: str = TEXT) -> list[int]:
    found: list[int] = transformers.AutoTokenizer.from_pretrained(path)(text, add_special_tokens=False)[
        "input_ids"
    ]
    return found


def log_probabilities(module: Any, context: list[int]) -> np.ndarray:
    """Of the token after a context, by an explicit softmax in float64."""
    with torch.no_grad():
        logits = module(input_ids=torch.tensor([context])).logits[0, -1].double().numpy()
    shifted = logits - logits.max()
    return shifted - math.log(np.exp(shifted).sum())


def test_one_window_is_the_loss_of_transformers(model: Path) -> None:
    ids = torch.tensor([tokens(model)[:200]])
    with torch.no_grad():
        loss = float(loaded(model)(input_ids=ids, labels=ids).loss)
    found = perplexity(model, [TEXT], max_tokens=200)
    assert (found.tokens, found.windows, found.window, found.stride) == (199, 1, POSITIONS, POSITIONS)
    assert found.nll.value == pytest.approx(loss, rel=1e-5)
    assert found.perplexity.value == pytest.approx(math.exp(loss), rel=1e-5)


@pytest.mark.parametrize(("window", "stride"), [(16, 16), (16, 5), (7, 3), (5, 1)])
@pytest.mark.parametrize("begins", [False, True])
def test_every_token_by_brute_force(
    model: Path, other: Path, beginning: Path, window: int, stride: int, begins: bool
) -> None:
    """Each token by a run of its own, with the context that its window gives it."""
    path = beginning if begins else model
    ids = tokens(path)[:36]
    mine, theirs = loaded(path), loaded(other)
    nll, difference, kl, agree = 0.0, 0.0, 0.0, 0
    sequence = [0, *ids] if begins else ids
    for target in range(1, len(sequence)):
        number = max(0, -(-(target - window) // stride))  # the first window whose positions reach it
        start = number * stride
        context = sequence[start:target]
        if begins:
            context = [0, *context[1:]]
        p, q = log_probabilities(mine, context), log_probabilities(theirs, context)
        nll -= p[sequence[target]]
        difference += q[sequence[target]] - p[sequence[target]]
        kl += float((np.exp(q) * (q - p)).sum())
        agree += int(p.argmax() == q.argmax())
    count = len(sequence) - 1
    baseline = None if begins else other
    found = perplexity(path, [TEXT], baseline=baseline, window=window, stride=stride, max_tokens=36)
    assert found.tokens == count
    assert found.nll.value == pytest.approx(nll / count, rel=2e-6)
    if found.comparison is not None:
        assert found.comparison.nll_difference.value == pytest.approx(difference / count, rel=1e-4)
        assert found.comparison.kl.value == pytest.approx(kl / count, rel=1e-5)
        assert found.comparison.top1_agreement.value == pytest.approx(agree / count)


def test_a_uniform_model_has_its_vocabulary_for_a_perplexity(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "u", tied=False)
    module = loaded(path)
    module.lm_head.weight.data.zero_()
    module.save_pretrained(path)
    found = perplexity(path, [TEXT], window=32)
    assert found.perplexity.value == pytest.approx(258, rel=1e-6)
    assert found.perplexity.low == pytest.approx(258, rel=1e-6)
    assert found.bits_per_byte is not None
    assert found.bits_per_byte.value == pytest.approx(math.log2(258), rel=1e-6)
    assert found.bytes == found.tokens == len(TEXT) - 1


def test_a_model_beside_itself(model: Path) -> None:
    found = perplexity(model, [TEXT], baseline=model, window=64).comparison
    assert found is not None
    assert (found.kl.value, found.kl.high, found.nll_difference.value, found.nll_difference.low) == (
        0,
        0,
        0,
        0,
    )
    assert found.top1_agreement.value == found.top1_agreement.low == 1


def test_stride_gives_context_and_changes_no_count(model: Path) -> None:
    whole = perplexity(model, [TEXT], window=64)
    overlapping = perplexity(model, [TEXT], window=64, stride=16)
    assert whole.tokens == overlapping.tokens == len(TEXT) - 1
    assert whole.bytes == overlapping.bytes
    assert overlapping.windows > whole.windows
    assert overlapping.nll.value != whole.nll.value


@pytest.mark.parametrize("text", ["plain", "häßlich und schön — 漢字", "🦊🦊"])
def test_bytes_are_those_of_the_text_that_is_scored(model: Path, beginning: Path, text: str) -> None:
    size = len(text.encode())
    assert perplexity(beginning, [text]).bytes == size
    assert perplexity(model, [text]).bytes == size - len(text[0].encode())
    assert perplexity(beginning, [text, text]).bytes == 2 * size
    assert perplexity(beginning, [text, text]).tokens == 2 * size + 1  # the end token between them
    cut = perplexity(beginning, [text, text], max_tokens=3)
    assert cut.tokens == 3
    assert cut.bytes == len(text.encode()[:3].decode(errors="ignore").encode()) or cut.bytes == 4


def test_sources_of_text(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT)
    rows = [{"text": TEXT[:100]}, {"content": TEXT[100:], "n": 1}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    plain = perplexity(model, tmp_path / "t.txt")
    assert plain.text == str(tmp_path / "t.txt")
    assert plain == perplexity(model, str(tmp_path / "t.txt"))
    assert perplexity(model, io.BytesIO(TEXT.encode())).nll == perplexity(model, [TEXT]).nll == plain.nll
    assert perplexity(model, tmp_path / "t.jsonl").nll == perplexity(model, [TEXT[:100], TEXT[100:]]).nll


def test_progress_and_an_end_before_the_end(model: Path, beginning: Path) -> None:
    seen: list[dict[str, Any]] = []
    for path, lost in ((model, 1), (beginning, 0)):
        seen.clear()
        found = perplexity(
            path, [TEXT], window=32, on_progress=seen.append, should_stop=lambda: len(seen) == 3
        )
        assert [state["windows"] for state in seen] == [1, 2, 3]
        assert {state["of"] for state in seen} == {-(-(len(TEXT) - lost) // 32)}
        assert not found.complete
        assert (found.windows, found.tokens, found.bytes) == (3, 96, 96)
        same = perplexity(path, [TEXT], window=32, max_tokens=96 + lost)
        assert same.complete
        assert found.nll == same.nll
        assert seen[-1]["nll"] == pytest.approx(found.nll.value)
    with pytest.raises(WorkError, match="before the first window"):
        perplexity(model, [TEXT], should_stop=lambda: True)


def test_threads_are_put_back(model: Path) -> None:
    before = torch.get_num_threads()
    one = perplexity(model, [TEXT], threads=1)
    assert torch.get_num_threads() == before
    assert one.nll.value == pytest.approx(perplexity(model, [TEXT], threads=2).nll.value, rel=1e-6)


def refusal(*args: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        perplexity(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_texts_that_cannot_be_measured(model: Path, tmp_path: Path) -> None:
    assert "holds no text" in refusal(model, [""])
    assert "holds no text" in refusal(model, [])
    assert "1 tokens of text are too few" in refusal(model, ["a"])
    for content, message in [
        (b"", "holds no text"),
        (b" \n ", "holds no text"),
        (b"a\0b", "binary data"),
        (b"ab\ncd\xff", "t:2: not UTF-8"),
        (b'{"text": "a b"}\n{"other": 1}\n', "t:2: no string called 'text' or 'content'"),
        (b'{"text": "a b"}\n{"text": \n', "t:2: not JSON"),
        (b'{"text": ""}\n', "holds no text"),
    ]:
        (tmp_path / "t").write_bytes(content)
        assert message in refusal(model, tmp_path / "t")
    assert "No such file" in refusal(model, tmp_path / "absent")


def test_arguments_that_make_no_sense(model: Path) -> None:
    assert "longer than the 256 positions it has" in refusal(model, [TEXT], window=257)
    assert "leave tokens out" in refusal(model, [TEXT], window=16, stride=17)
    assert "at least 2 positions" in refusal(model, [TEXT], window=1)
    assert "at least 1 position" in refusal(model, [TEXT], stride=0)
    assert "at least 2 tokens" in refusal(model, [TEXT], max_tokens=1)
    assert "no device cuda:7" in refusal(model, [TEXT], device="cuda:7")


def test_models_that_cannot_be_measured(model: Path, tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent", [TEXT])
    assert "give the model's directory" in refusal(model / "model.safetensors", [TEXT])
    bare = tiny_llama(tmp_path / "bare")
    for file in bare.glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in refusal(bare, [TEXT])
    nan = tiny_llama(tmp_path / "nan")
    module = loaded(nan)
    module.model.norm.weight.data[3] = math.nan
    module.save_pretrained(nan)
    assert "nan: its logits are NaN" in refusal(nan, [TEXT])
    assert "nan: its logits are NaN" in refusal(model, [TEXT], baseline=nan)
    config = transformers.BertConfig(
        vocab_size=258, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    byte_tokenizer(tmp_path / "bert")
    assert "is not a causal language model" in refusal(tmp_path / "bert", [TEXT])
    unknown = tiny_llama(tmp_path / "unknown")
    settings = json.loads((unknown / "config.json").read_text())
    (unknown / "config.json").write_text(json.dumps({**settings, "model_type": "nonesuch"}))
    assert "transformers cannot load it" in refusal(unknown, [TEXT]) or "no tokenizer" in refusal(
        unknown, [TEXT]
    )


def test_baselines_that_do_not_fit(model: Path, beginning: Path, tmp_path: Path) -> None:
    assert "its tokenizer cuts the text otherwise" in refusal(model, [TEXT], baseline=beginning)
    smaller = tiny_llama(tmp_path / "smaller")
    module = loaded(smaller)
    module.resize_token_embeddings(250)
    module.save_pretrained(smaller)
    assert "a vocabulary of 250" in refusal(model, [TEXT], baseline=smaller)
    assert "its tokenizer makes token" in refusal(smaller, ["ÜÜÜÜÜ"])


def test_a_gguf_file(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    write_gguf(tmp_path / "tiny.gguf", model)
    notes: list[str] = []
    found = perplexity(tmp_path / "tiny.gguf", [TEXT], baseline=model, on_note=notes.append)
    assert found.comparison is not None
    assert 0 < found.comparison.kl.value < 1e-4  # float16
    assert notes == [f"{tmp_path}/tiny.gguf: the weights are F32; they are dequantized to be measured"]


def test_what_quantize_makes_can_be_measured(model: Path, tmp_path: Path) -> None:
    from icml.tools.quantize.pipeline.jobs import Control, Job, Settings, quantize_model

    settings = Settings(method="rtn", bits=4, protect=())
    quantize_model(Job(model, tmp_path / "q", settings, calibration="none"), Control())
    found = perplexity(tmp_path / "q", [TEXT], baseline=model, window=64)
    assert found.comparison is not None
    assert 0 < found.comparison.kl.value < 0.5
    assert found.comparison.kl.low <= found.comparison.kl.value <= found.comparison.kl.high
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "q").dequantize()
    plain.save_pretrained(tmp_path / "plain")
    byte_tokenizer(tmp_path / "plain")
    assert perplexity(tmp_path / "plain", [TEXT], window=64).nll.value == pytest.approx(
        found.nll.value, rel=1e-5
    )
