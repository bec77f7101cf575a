"""Files that survive: round trips to the bit, all-or-nothing writes, a clear word for every damage."""

import json
import os
import pickle
import re
import stat

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from hotvae import checkpoint
from hotvae.checkpoint import (
    CONFIG_FILE,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST_FILE,
    WEIGHTS_FILE,
    check_replaceable,
    json_ready,
    load_folder,
    read_tensors,
    save_folder,
    seal,
    write_tensors,
    write_text,
)
from hotvae.errors import ConfigError, ModelError

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def same_bits(left, right):
    """Equal dtype, shape and bytes: unlike ==, NaN equals itself and 0.0 differs from -0.0."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    raw = [tensor.contiguous().reshape(-1).view(torch.uint8).tolist() for tensor in (left, right)]
    return raw[0] == raw[1]


def raising(error):
    def fail(*args, **kwargs):
        raise error

    return fail


def everything_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def model(tmp_path):
    """A saved model, alone in its parent folder."""
    folder = tmp_path / "model"
    save_folder(folder, {"kind": "demo", "label_names": ["Böhm"]}, {"weight": torch.arange(6.0).reshape(2, 3)})
    return folder


def edit_config(folder, **changes):
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    (folder / CONFIG_FILE).write_text(json.dumps(config | changes), encoding="utf-8")
    seal(folder)


# Tensor files ---------------------------------------------------------------------------------------------


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    n_cells = int(torch.Size(shape).numel())
    if dtype == torch.bool:
        cells = draw(st.lists(st.booleans(), min_size=n_cells, max_size=n_cells))
    elif dtype.is_floating_point:
        cells = draw(st.lists(st.floats(width=16), min_size=n_cells, max_size=n_cells))
    else:
        cells = draw(st.lists(st.integers(0, 255), min_size=n_cells, max_size=n_cells))
    return torch.tensor(cells, dtype=dtype).reshape(shape)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    content=st.dictionaries(
        st.text(min_size=1, max_size=4).filter(lambda n: n != "__metadata__"), tensors(), max_size=4
    ),
    metadata=json_values,
)
@settings(max_examples=40, deadline=None)
def test_tensor_file__any_tensors_and_metadata__come_back_to_the_bit(tmp_path_factory, content, metadata):
    path = tmp_path_factory.getbasetemp() / "round_trip"
    write_tensors(path, content, metadata)
    read, read_metadata = read_tensors(path)
    assert read_metadata == metadata
    assert read.keys() == content.keys()
    assert all(same_bits(read[name], content[name]) for name in content)


def test_tensor_file__views_that_share_memory_and_gradients__stored_as_own_copies(tmp_path):
    base = torch.arange(6.0).reshape(2, 3).requires_grad_()
    write_tensors(tmp_path / "state", {"base": base, "turned": base.T, "row": base[0]}, None)
    read, _ = read_tensors(tmp_path / "state")
    assert read["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert read["row"].tolist() == [0, 1, 2]
    assert not read["base"].requires_grad


def test_tensor_file__written_twice__holds_the_second(tmp_path):
    for value in (1.0, 2.0):
        write_tensors(tmp_path / "state", {"a": torch.tensor(value)}, value)
    tensors, metadata = read_tensors(tmp_path / "state")
    assert (tensors["a"].item(), metadata) == (2.0, 2.0)
    assert os.listdir(tmp_path) == ["state"]


# What goes wrong, and what is said of it.
BROKEN = [(OSError(28, "No space left on device"), ConfigError), (KeyboardInterrupt(), KeyboardInterrupt)]


@pytest.mark.parametrize(("error", "said"), BROKEN)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_tensor_file__write_breaks_at_any_step__old_file_whole_and_nothing_left_over(
    tmp_path, monkeypatch, step, error, said
):
    path = tmp_path / "state"
    write_tensors(path, {"a": torch.ones(2)}, "old")
    before = path.read_bytes()
    monkeypatch.setattr(checkpoint.os, step, raising(error))
    with pytest.raises(said, match="No space left" if said is ConfigError else None):
        write_tensors(path, {"a": torch.zeros(2)}, "new")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["state"]


@settings(max_examples=60)
@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_read_tensors__any_flipped_bit__found_or_without_meaning(tmp_path_factory, position, bit):
    path = tmp_path_factory.mktemp("flip") / "state"
    write_tensors(path, {"a": torch.arange(4.0), "b": torch.ones(2)}, {"records": [{"bce": 0.5}], "step": 3})
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    try:
        tensors, metadata = read_tensors(path)
    except ModelError:
        return
    assert metadata == {"records": [{"bce": 0.5}], "step": 3}
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == {"a": [0, 1, 2, 3], "b": [1, 1]}


@pytest.mark.parametrize("change", ["tensor", "metadata"])
def test_read_tensors__other_content_under_the_old_checksum__says_so(tmp_path, change):
    write_tensors(tmp_path / "state", {"a": torch.zeros(2)}, {"step": 3})
    content = (tmp_path / "state").read_bytes()
    old, new = (b"\x00" * 8, b"\x00" * 7 + b"\x01") if change == "tensor" else (b'step\\": 3', b'step\\": 4')
    at = content.rindex(old)
    (tmp_path / "state").write_bytes(content[:at] + new + content[at + len(old) :])
    with pytest.raises(ModelError, match="does not match its checksum"):
        read_tensors(tmp_path / "state")


def test_tensors__many__come_in_the_order_of_their_names(tmp_path):
    names = [f"layers.{i}" for i in range(9)]
    content = {name: torch.ones(1) for name in names[::-1]}
    write_tensors(tmp_path / "state", content, None)
    save_folder(tmp_path / "model", {"kind": "demo"}, content)
    assert list(read_tensors(tmp_path / "state")[0]) == list(load_folder(tmp_path / "model")[1]) == names


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (0, 2), ()])
def test_tensor_file__strides_of_zero__same_bits_again(tmp_path, shape):
    spread = torch.tensor(2.5, dtype=torch.float64).expand(shape)
    write_tensors(tmp_path / "state", {"a": spread}, None)
    assert torch.equal(read_tensors(tmp_path / "state")[0]["a"], spread)


def test_tensor_file__metadata_that_is_not_json__nothing_written(tmp_path):
    with pytest.raises(TypeError):
        write_tensors(tmp_path / "state", {}, {1, 2})
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no POSIX permissions to take away")
def test_tensor_file__permissions__those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_tensors(tmp_path / "state", {"a": torch.ones(1)}, None)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "state")}
    assert len(modes) == 1


def test_read_tensors__missing__says_so(tmp_path):
    with pytest.raises(ModelError, match=r"tensor file must be readable; got .*state .*missing or damaged"):
        read_tensors(tmp_path / "state")


@pytest.mark.parametrize("keep", [0, 4, 8, 20, -1])
def test_read_tensors__truncated__says_so(tmp_path, keep):
    path = tmp_path / "state"
    write_tensors(path, {"a": torch.ones(100)}, None)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match="tensor file must be readable"):
        read_tensors(path)


def test_read_tensors__another_kind_of_file__says_so(tmp_path):
    (tmp_path / "state").write_text("site,Turdus merula\n1,0\n" * 10)
    with pytest.raises(ModelError, match="tensor file must be readable"):
        read_tensors(tmp_path / "state")


@pytest.mark.parametrize("metadata", [None, {"json": "{"}, {"json": "null"}])
def test_read_tensors__without_a_checksum__says_so(tmp_path, metadata):
    save_file({"a": torch.ones(1)}, tmp_path / "foreign", metadata=metadata)
    with pytest.raises(ModelError, match="tensor file must be readable"):
        read_tensors(tmp_path / "foreign")


# Model folders: writing -----------------------------------------------------------------------------------


def test_save_folder__then_load__same_settings_and_bits(tmp_path):
    config = {
        "kind": "demo",
        "names": ["Turdus merula", "Großtrappe", '"'],
        "deep": {"a": [1, 2.5, None, True]},
    }
    content = {
        "weight": torch.tensor([[0.1, -0.0], [float("nan"), 3e-42]]),
        "graph": torch.tensor([[True, False]]),
        "scale": torch.tensor(2.0, dtype=torch.float64),
    }
    save_folder(tmp_path / "deep" / "er" / "model", config, content)
    read, tensors = load_folder(tmp_path / "deep" / "er" / "model")
    assert {key: read[key] for key in config} == config
    assert (read["format"], read["format_version"]) == (FORMAT, FORMAT_VERSION)
    assert tensors.keys() == content.keys()
    assert all(same_bits(tensors[name], content[name]) for name in content)


def test_save_folder__new__three_files_and_nothing_beside(model):
    assert sorted(os.listdir(model)) == [CONFIG_FILE, MANIFEST_FILE, WEIGHTS_FILE]
    assert os.listdir(model.parent) == ["model"]


def test_save_folder__over_an_older_model__replaces_it_whole(model):
    save_folder(model, {"kind": "second"}, {"other": torch.zeros(1)})
    config, tensors = load_folder(model)
    assert config["kind"] == "second"
    assert "label_names" not in config
    assert list(tensors) == ["other"]
    assert os.listdir(model.parent) == ["model"]


def test_save_folder__over_an_empty_folder__accepted(tmp_path):
    (tmp_path / "model").mkdir()
    save_folder(tmp_path / "model", {"kind": "demo"}, {})
    assert load_folder(tmp_path / "model")[0]["kind"] == "demo"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize(("error", "said"), BROKEN)
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize(("step", "n_before"), [("fsync", n) for n in range(3)] + [("replace", n) for n in range(5)])
def test_save_folder__breaks_at_any_step__old_model_whole_and_nothing_left_over(
    model, monkeypatch, exchange, step, n_before, error, said
):
    """Three files are written and moved within the new folder; without an exchange two more moves put it in place."""
    before = everything_in(model.parent)
    real, calls = getattr(os, step), []

    def break_once(*arguments):
        calls.append(arguments)
        if len(calls) == n_before + 1:
            raise error
        return real(*arguments)

    if not exchange:
        monkeypatch.setattr(checkpoint, "_exchanged", lambda one, other: False)
    monkeypatch.setattr(checkpoint.os, step, break_once)
    if exchange and n_before >= 3:
        save_folder(model, {"kind": "second"}, {"other": torch.zeros(1)})
        assert len(calls) == 3
        return
    with pytest.raises(said):
        save_folder(model, {"kind": "second"}, {"other": torch.zeros(1)})
    monkeypatch.undo()
    assert everything_in(model.parent) == before
    assert os.listdir(model.parent) == ["model"]
    assert load_folder(model)[0]["kind"] == "demo"


@pytest.mark.parametrize("exchange", [True, False])
def test_save_folder__killed_after_any_step__old_or_new_model_is_there(model, monkeypatch, exchange):
    """What a kill would leave is what is there after each step."""
    found, real = [], os.replace

    def look(*arguments):
        real(*arguments)
        found.append(load_folder(model)[0]["kind"])

    if not exchange:
        monkeypatch.setattr(checkpoint, "_exchanged", lambda one, other: False)
    monkeypatch.setattr(checkpoint.os, "replace", look)
    save_folder(model, {"kind": "second"}, {"other": torch.zeros(1)})
    assert found == ["demo"] * 3 if exchange else ["demo"] * 4 + ["second"]
    assert os.listdir(model.parent) == ["model"]


def test_save_folder__where_a_kill_left_the_old_model_aside__new_model_alone(model):
    model.rename(model.with_name(".model.old"))
    assert load_folder(model)[0]["kind"] == "demo"
    save_folder(model, {"kind": "second"}, {})
    assert load_folder(model)[0]["kind"] == "second"
    assert os.listdir(model.parent) == ["model"]


def test_save_folder__through_a_link__replaces_what_it_leads_to(model):
    link = model.with_name("latest")
    link.symlink_to(model)
    save_folder(link, {"kind": "second"}, {})
    assert link.is_symlink()
    assert load_folder(model)[0]["kind"] == load_folder(link)[0]["kind"] == "second"


def test_save_folder__through_a_link_to_itself__says_so(tmp_path):
    (tmp_path / "model").symlink_to(tmp_path / "model")
    with pytest.raises(ModelError, match="must not be a link to itself"):
        save_folder(tmp_path / "model", {"kind": "demo"}, {})


@pytest.mark.parametrize("read_first", [MANIFEST_FILE, CONFIG_FILE])
def test_load_folder__replaced_while_it_is_read__one_model_not_half_of_each(model, monkeypatch, read_first):
    real, done = checkpoint._read, []

    def replaced_after(path):
        content = real(path)
        if path.name == read_first and not done:
            done.append(True)
            save_folder(model, {"kind": "second"}, {"weight": torch.zeros(1)})
        return content

    monkeypatch.setattr(checkpoint, "_read", replaced_after)
    config, tensors = load_folder(model)
    assert (config["kind"], tensors["weight"].tolist()) == ("second", [0])


def test_save_folder__settings_that_are_not_json__nothing_left_over(tmp_path):
    with pytest.raises(TypeError):
        save_folder(tmp_path / "model", {"kind": {1, 2}}, {})
    assert os.listdir(tmp_path) == []


def test_save_folder__leftovers_of_a_killed_write__do_not_disturb(model):
    leftover = model.parent / ".model.abc123"
    leftover.mkdir()
    (leftover / WEIGHTS_FILE).write_bytes(b"half")
    save_folder(model, {"kind": "second"}, {})
    assert load_folder(model)[0]["kind"] == "second"


FOREIGN = {
    "other files": {"thesis.tex": "..."},
    "a model and other files": {CONFIG_FILE: json.dumps({"format": FORMAT}), "thesis.tex": "..."},
    "settings of another tool": {CONFIG_FILE: json.dumps({"format": "other"})},
    "settings that are no JSON": {CONFIG_FILE: "{"},
    "weights alone": {WEIGHTS_FILE: "..."},
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_save_folder__foreign_folder__refused_and_untouched(tmp_path, content):
    folder = tmp_path / "work"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)
    before = everything_in(tmp_path)
    with pytest.raises(ModelError, match=rf"must be new, empty or a hotvae model; got .*{sorted(content)[0]}"):
        save_folder(folder, {"kind": "demo"}, {})
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("name", ["thesis.tex", CONFIG_FILE])
def test_save_folder__path_is_a_file__refused_and_untouched(tmp_path, name):
    (tmp_path / name).write_text("years of work")
    with pytest.raises(ModelError, match=rf"must be new, empty or a hotvae model; got .*{name}.* Choose another path"):
        save_folder(tmp_path / name, {"kind": "demo"}, {})
    assert (tmp_path / name).read_text() == "years of work"


def test_check_replaceable__many_foreign_files__five_named(tmp_path):
    for number in range(8):
        (tmp_path / f"plot_{number}.png").write_text("")
    with pytest.raises(ModelError, match=r"'plot_0.png', .*'plot_4.png', \+3 more"):
        check_replaceable(tmp_path)


def test_check_replaceable__new_empty_or_ours__no_objection(tmp_path, model):
    check_replaceable(tmp_path / "new")
    check_replaceable(model)
    (tmp_path / "empty").mkdir()
    check_replaceable(tmp_path / "empty")


# Model folders: reading -----------------------------------------------------------------------------------


def test_load_folder__missing__says_so(tmp_path):
    with pytest.raises(ModelError, match=r"model folder must exist; got .*nowhere\. Check the path"):
        load_folder(tmp_path / "nowhere")


def test_load_folder__a_file__says_so(tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(ModelError, match="model folder must exist"):
        load_folder(tmp_path / "model")


def test_load_folder__no_config__says_so(model):
    (model / CONFIG_FILE).unlink()
    with pytest.raises(ModelError, match=r"model folder must hold config\.json; got none"):
        load_folder(model)


def test_load_folder__no_weights__says_so(model):
    (model / WEIGHTS_FILE).unlink()
    with pytest.raises(ModelError, match=r"model folder must hold weights\.safetensors; got none"):
        load_folder(model)


@pytest.mark.parametrize("keep", [0, 8, -1])
def test_load_folder__truncated_weights__says_so(model, keep):
    weights = model / WEIGHTS_FILE
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"weights\.safetensors must match its checksum .* damaged"):
        load_folder(model)


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=25, deadline=None)
def test_load_folder__any_flipped_bit_of_the_weights__found(tmp_path_factory, position, bit):
    folder = tmp_path_factory.mktemp("flip") / "model"
    save_folder(folder, {"kind": "demo"}, {"weight": torch.arange(6.0)})
    content = bytearray((folder / WEIGHTS_FILE).read_bytes())
    content[position % len(content)] ^= 1 << bit
    (folder / WEIGHTS_FILE).write_bytes(content)
    with pytest.raises(ModelError, match="must match its checksum"):
        load_folder(folder)


def test_load_folder__weights_of_another_model__says_so(model, tmp_path):
    save_folder(tmp_path / "other", {"kind": "demo"}, {"weight": torch.zeros(2, 3)})
    (tmp_path / "other" / WEIGHTS_FILE).replace(model / WEIGHTS_FILE)
    with pytest.raises(ModelError, match="damaged, edited or from another model"):
        load_folder(model)


def test_load_folder__weights_damaged_before_the_checksum__says_so(model):
    (model / WEIGHTS_FILE).write_bytes(b"not tensors")
    seal(model)
    with pytest.raises(ModelError, match="tensor file must be readable"):
        load_folder(model)


@pytest.mark.parametrize("text", ["", "{", "]]]", '{"format": "hotvae-model"', "\ufeff{}"])
def test_load_folder__config_is_no_json__says_so(model, text):
    (model / CONFIG_FILE).write_text(text, encoding="utf-8")
    seal(model)
    with pytest.raises(ModelError, match=r"config\.json must be whole JSON; got .*damaged"):
        load_folder(model)


def test_load_folder__config_is_not_utf8__says_so(model):
    (model / CONFIG_FILE).write_bytes('{"label": "Böhm"}'.encode("latin-1"))
    seal(model)
    with pytest.raises(ModelError, match=r"config\.json must be whole JSON; got 'utf-8' codec"):
        load_folder(model)


@pytest.mark.parametrize(("text", "kind"), [("[1, 2]", "list"), ("3", "int"), ('"a"', "str"), ("null", "NoneType")])
def test_load_folder__config_is_no_object__says_so(model, text, kind):
    (model / CONFIG_FILE).write_text(text)
    seal(model)
    with pytest.raises(ModelError, match=rf"config\.json must hold a JSON object; got {kind}"):
        load_folder(model)


@pytest.mark.parametrize("found", ["other-model", None])
def test_load_folder__foreign_format__says_so(model, found):
    edit_config(model, format=found)
    with pytest.raises(ModelError, match=rf"must be written by hotvae; got format {found!r}"):
        load_folder(model)


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, "1", None])
def test_load_folder__newer_format__asks_to_upgrade(model, version):
    edit_config(model, format_version=version, hotvae_version="9.9.0")
    with pytest.raises(ModelError, match=rf"at most {FORMAT_VERSION}; got {version!r} .*hotvae 9\.9\.0: upgrade"):
        load_folder(model)


def test_load_folder__older_format__says_how_to_train_anew(model):
    edit_config(model, format_version=1, hotvae_version="0.4.0")
    message = (
        rf"model format must be {FORMAT_VERSION}; got 1, which hotvae 0\.4\.0 wrote .*config\.json\)\. Train it anew: "
    )
    with pytest.raises(ModelError, match=message + r"hotvae train TABLE --out MODEL, as before$"):
        load_folder(model)
    command = "hotvae train birds.csv --labels 'sp_*' --out model"
    edit_config(model, extra={"command": command})
    with pytest.raises(ModelError, match=message + re.escape(command) + "$"):
        load_folder(model)


@pytest.mark.parametrize("extra", [None, {}, {"notes": "by hand"}])
def test_load_folder__older_format_without_a_command__says_so_all_the_same(model, extra):
    edit_config(model, format_version=1, extra=extra)
    with pytest.raises(ModelError, match=r"Train it anew: hotvae train TABLE --out MODEL, as before$"):
        load_folder(model)


def test_save_folder__over_a_model_of_an_older_format__replaces_it(model):
    edit_config(model, format_version=1)
    save_folder(model, {"kind": "new"}, {})
    assert load_folder(model)[0]["kind"] == "new"


@pytest.mark.parametrize("content", ["{}", '{"files": []}', '{"files": {"config.json": 1}}'])
def test_load_folder__no_checksum__says_so(model, content):
    (model / MANIFEST_FILE).write_text(content)
    with pytest.raises(ModelError, match="must match its checksum"):
        load_folder(model)


def test_load_folder__no_manifest__says_so(model):
    (model / MANIFEST_FILE).unlink()
    with pytest.raises(ModelError, match=r"must hold manifest\.json; got none .*train again"):
        load_folder(model)


def test_load_folder__older_format_without_a_manifest__says_how_to_train_anew(model):
    edit_config(model, format_version=2)
    (model / MANIFEST_FILE).unlink()
    with pytest.raises(ModelError, match=r"wrote before every file had a checksum .*Train it anew"):
        load_folder(model)


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7), name=st.sampled_from([CONFIG_FILE, MANIFEST_FILE]))
def test_load_folder__any_flipped_bit__found_or_without_meaning(tmp_path_factory, position, bit, name):
    folder = tmp_path_factory.mktemp("flip") / "model"
    save_folder(folder, {"kind": "demo", "thresholds": {"macro_f1": 0.25}}, {"weight": torch.arange(6.0)})
    whole = load_folder(folder)[0]
    content = bytearray((folder / name).read_bytes())
    content[position % len(content)] ^= 1 << bit
    (folder / name).write_bytes(content)
    try:
        assert load_folder(folder)[0] == whole
        assert name == MANIFEST_FILE  # a blank between two words of it
    except ModelError:
        pass


def test_load_folder__whole_or_pickled__nothing_is_ever_unpickled(model, monkeypatch):
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, raising(AssertionError("unpickled")))
    monkeypatch.setattr(torch, "load", raising(AssertionError("torch.load")))
    assert load_folder(model)[1]["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    (model / WEIGHTS_FILE).write_bytes(pickle.dumps({"weight": [1]}))
    seal(model)
    with pytest.raises(ModelError, match="tensor file must be readable"):
        load_folder(model)


# --- text ------------------------------------------------------------------------------------------------


def test_write_text__older_file__is_replaced_for_all_to_read(tmp_path):
    target = tmp_path / "deep" / "note.txt"
    write_text(target, "owl")
    write_text(target, "wren ✓")
    assert target.read_text(encoding="utf-8") == "wren ✓"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert [path.name for path in target.parent.iterdir()] == ["note.txt"]


def test_write_text__failure_half_way__keeps_the_old_file(tmp_path, monkeypatch):
    write_text(tmp_path / "note.txt", "owl")
    monkeypatch.setattr(os, "fsync", raising(OSError(28, "No space left on device")))
    with pytest.raises(ConfigError, match=r"path must be a place one can write to; got .*No space left"):
        write_text(tmp_path / "note.txt", "wren")
    assert everything_in(tmp_path) == {"note.txt": b"owl"}


def test_write_text__folder_is_a_file__says_so(tmp_path):
    (tmp_path / "taken").write_text("x")
    with pytest.raises(ConfigError, match=r"path must be a place one can write to; got .*note\.txt"):
        write_text(tmp_path / "taken" / "note.txt", "wren")


def test_json_ready__nested_numbers__are_what_json_knows():
    value = {1: (np.float32(0.5), [np.array([1.0, np.inf])]), "b": np.bool_(True), "c": float("nan"), "d": None}
    assert json_ready(value) == {"1": [0.5, [[1.0, None]]], "b": True, "c": None, "d": None}
