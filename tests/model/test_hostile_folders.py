"""A model folder from anybody: none of its code is run, nobody is asked, nothing is written, and the error is one
line.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_network, tokenizer

from wherefrom.errors import BadOption, WherefromError, WrongModel
from wherefrom.model.loading import load_model, quiet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a program in it that leaves a file behind when it is run."""
    path = tmp_path / "model"
    with quiet():
        make_network("bert", labels=2).save_pretrained(path)
        tokenizer().save_pretrained(path)
    program = f"open({str(tmp_path / 'was_run')!r}, 'w').close()\n"
    (path / "evil.py").write_text(program + "class C: pass\nclass M: pass\nclass T: pass\n")
    return path


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(autouse=True)
def willing_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked says yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))


def was_run(folder: Path) -> bool:
    return (folder.parent / "was_run").exists()


CODE = {"AutoConfig": "evil.C", "AutoModelForSequenceClassification": "evil.M"}


def test_an_unknown_type_with_its_own_code(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    change(folder / "config.json", model_type="evil", auto_map=CODE)
    with pytest.raises(WrongModel, match="brings its own program code, and Wherefrom runs none"):
        load_model(str(folder))
    assert not was_run(folder)
    assert capfd.readouterr() == ("", "")  # nobody was asked


def test_a_known_type_does_without_the_code(folder: Path) -> None:
    change(folder / "config.json", auto_map=CODE)
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]})
    assert load_model(str(folder)).labels == ["LABEL_0", "LABEL_1"]
    assert not was_run(folder)


def test_a_tokenizer_of_an_unknown_class(folder: Path) -> None:
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]}, tokenizer_class="Evil")
    with suppress(WrongModel):
        load_model(str(folder))  # as the tokenizer.json says, or not at all
    assert not was_run(folder)


class Pickled:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_pickled_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"x": Pickled(folder.parent / "was_run")}, folder / "pytorch_model.bin")
    with pytest.raises(WrongModel, match=r"a pickle file that holds more than tensors.*safetensors"):
        load_model(str(folder))
    assert not was_run(folder)
    torch.save(make_network("bert", labels=2).state_dict(), folder / "pytorch_model.bin")
    load_model(str(folder))  # tensors alone are fine
    make_network("bert", labels=2).save_pretrained(folder)
    torch.save({"x": Pickled(folder.parent / "was_run")}, folder / "pytorch_model.bin")
    load_model(str(folder))  # where there are safetensors, the other file is not even looked at
    assert not was_run(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_link_out_of_the_folder_is_only_read(folder: Path, name: str) -> None:
    """The hub's own cache is made of such links, so they are followed; what is there does not end up in the message."""
    secret = folder.parent / "secret"
    secret.write_text("password: hunter2\n")
    (folder / name).unlink()
    (folder / name).symlink_to(secret)
    with pytest.raises(WrongModel) as error:
        load_model(str(folder))
    assert "hunter2" not in str(error.value)
    assert secret.read_text() == "password: hunter2\n"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("vocab_size", 10**9, "sizes in its config.json are not those of its weights"),
        ("vocab_size", 10**30, "could not be loaded"),
        ("vocab_size", -5, "could not be loaded"),
        ("max_position_embeddings", 10**9, "sizes in its config.json are not those of its weights"),
        ("num_hidden_layers", 10**9, "says that it has 1,000,000,000 layers"),
    ],
)
def test_sizes_that_nothing_could_hold(folder: Path, setting: str, value: int, message: str) -> None:
    change(folder / "config.json", **{setting: value})
    with pytest.raises(WrongModel, match=message):
        load_model(str(folder))


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("tokenizer_config.json", {"model_max_length": {}}),
        ("tokenizer_config.json", {"model_max_length": []}),
        ("config.json", {"pad_token_id": "x"}),
    ],
)
def test_values_that_fail_only_when_the_model_is_tried(folder: Path, file: str, values: dict[str, Any]) -> None:
    change(folder / file, **values)
    with pytest.raises(WrongModel, match=r"could not be loaded|does not work"):
        load_model(str(folder))


def test_a_tokenizer_that_fails_on_a_text(folder: Path) -> None:
    """The token that stands at an end of the text is not in the vocabulary: tokenizers panics."""
    path = folder / "tokenizer.json"
    told = json.loads(path.read_text())
    told["post_processor"]["special_tokens"] = {}
    path.write_text(json.dumps(told))
    with pytest.raises(WrongModel, match=r"could not be loaded|tokenizer fails"):
        load_model(str(folder)).encode("a fine film")


@pytest.mark.slow
def test_nothing_is_written_into_the_cache_of_the_hub(folder: Path, tmp_path: Path) -> None:
    home, before = tmp_path / "home", sorted(path.name for path in folder.iterdir())
    home.mkdir()
    environment = os.environ | {"HF_HOME": str(home), "HOME": str(home), "HF_HUB_OFFLINE": "0"}
    program = "import sys; from wherefrom.model.loading import load_model; load_model(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(folder)], env=environment, check=True, timeout=300)
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert sorted(path.name for path in folder.iterdir()) == before


def test_an_unknown_name_without_a_network_is_one_line_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hub's library tries six times and says so each time; it is not asked where its host is not there."""
    tried: list[object] = []

    def no_network(address: object, **_: object) -> None:
        tried.append(address)
        raise OSError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setattr("socket.create_connection", no_network)
    with pytest.raises(WrongModel, match="no such folder, it is not in the hub's cache, and the hub cannot be reached"):
        load_model("nobody/nothing")
    assert len(tried) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("device", ["bogus", "cuda:99", ""])
def test_devices_that_are_not_there(folder: Path, device: str) -> None:
    with pytest.raises(BadOption, match="device"):
        load_model(str(folder), device=device)


CRAFTED: list[dict[str, Any]] = [{"data_offsets": [0, 10**15]}, {"data_offsets": [-4, 0]}, {"data_offsets": [8, 0]}]
CRAFTED += [{"shape": [2**40, 2**40]}, {"shape": [-1]}, {"dtype": "X99"}]


@pytest.mark.parametrize("crafted", CRAFTED)
def test_headers_of_safetensors(folder: Path, crafted: dict[str, Any]) -> None:
    file = folder / "model.safetensors"
    content = file.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    name = next(name for name in header if name != "__metadata__")
    written = json.dumps(header | {name: header[name] | crafted}).encode()
    file.write_bytes(struct.pack("<Q", len(written)) + written + content[end:])
    with pytest.raises(WherefromError, match="could not be loaded"):
        load_model(str(folder))


@pytest.mark.parametrize("size", [0, 2**20, 2**63])
def test_wrong_lengths_of_the_header_of_safetensors(folder: Path, size: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", size) + file.read_bytes()[8:])
    with pytest.raises(WherefromError, match="could not be loaded"):
        load_model(str(folder))
