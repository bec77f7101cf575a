"""Settings from files, pairs and options."""

import pytest

from hotvae.errors import ConfigError
from hotvae.estimators.registry import CLASSIFIERS, find_classifier
from hotvae.jobs.settings import OPTIONS, TrainSettings, parse_assignments, parse_value, read_settings, train_settings

PARAMETERS = {
    "dim": 64,
    "max_epochs": 60,
    "learning_rate": 1e-3,
    "encoder_widths": (256,),
    "direct_path": False,
    "selection_metric": "macro_f1",
    "random_state": None,
    "graph": "complete",
    "progress": "silent",
    "state_file": None,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-4", 1e-4),
        ("[16, 8]", [16, 8]),
        ("(16,)", (16,)),
        ("True", True),
        ("false", False),
        ("none", None),
        ("'7'", "7"),
        ("macro_f1", "macro_f1"),
        ("a=b", "a=b"),
        ("[16", "[16"),
    ],
)
def test_parse_value__typed_text__is_the_value_it_looks_like(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


@pytest.mark.parametrize(("text", "value"), [("2", 2), ("none", None)])
def test_train_settings__threads__a_number_or_as_many_as_torch_has(text, value):
    assert train_settings({"n_threads": 1}, ("options", {"threads": text})).parameters == {"n_threads": value}


def test_parse_assignments__value_with_equals_sign__splits_at_the_first():
    assert parse_assignments(["selection-metric=a=b"]) == {"selection_metric": "a=b"}


@pytest.mark.parametrize("item", ["dim", "=3"])
def test_parse_assignments__no_pair__is_refused(item):
    with pytest.raises(ConfigError, match="--set must be key=value; got"):
        parse_assignments([item])


def test_parse_assignments__key_twice__is_refused():
    with pytest.raises(ConfigError, match="each key once; got 'dim' twice"):
        parse_assignments(["dim=3", "dim=4"])


def test_read_settings__toml_and_yaml__say_the_same(tmp_path):
    toml, yaml = tmp_path / "run.toml", tmp_path / "run.yaml"
    toml.write_text('labels = ["sp_*"]\nlearning_rate = 1e-4\nlabel-table = "y.csv"\npresence = true\n')
    yaml.write_text("labels: [sp_*]\nlearning_rate: 1e-4\nlabel-table: y.csv\npresence: true\n")
    settings = [train_settings(PARAMETERS, (path.name, read_settings(path))) for path in (toml, yaml)]
    assert settings[0] == settings[1]
    # YAML reads 1e-4 as text; it must still end as a number.
    assert settings[1] == TrainSettings(
        labels=("sp_*",), label_table="y.csv", presence=True, parameters={"learning_rate": 1e-4}
    )


def test_read_settings__empty_yaml__is_no_settings(tmp_path):
    path = tmp_path / "run.yml"
    path.write_text("# nothing yet\n")
    assert read_settings(path) == {}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.ini", "", "config must end in .toml, .yaml or .yml; got 'run.ini'"),
        ("run.toml", "epochs = = 3", "config must be well-formed TOML; got .*line 1.* \\(run.toml\\)"),
        ("run.yaml", "a: [1", "config must be well-formed YAML; got .*line 1.* \\(run.yaml\\)"),
        ("run.yaml", "seed: 1\nepochs: 2\nseed: 3\n", "well-formed YAML; got 'seed' more than once"),
        ("run.yaml", "- a\n- b\n", "config must hold names and values; got list"),
    ],
)
def test_read_settings__file_that_does_not_fit__is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_settings(tmp_path / name)


def test_read_settings__missing_file__is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"config must be a readable UTF-8 file; got .*No such file"):
        read_settings(tmp_path / "run.toml")


def test_train_settings__later_layer__wins_even_under_another_name():
    settings = train_settings(
        PARAMETERS, ("file", {"max_epochs": 9, "dim": 8, "out": "a"}), ("options", {"epochs": 3, "out": "b"})
    )
    assert settings.parameters == {"max_epochs": 3, "dim": 8}
    assert settings.out == "b"


def test_train_settings__two_names_for_one_in_a_layer__are_refused():
    with pytest.raises(ConfigError, match=r"max_epochs must be set once; got both 'epochs' and 'max_epochs' \(f\)"):
        train_settings(PARAMETERS, ("f", {"epochs": 3, "max_epochs": 3}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("epoch", r"got 'epoch' \(f\). Did you mean 'epochs', 'max_epochs'"),
        ("learning_rat", "Did you mean 'learning_rate'"),
        ("xyzzy", "Known are 'block_size', 'coordinates'"),
        ("state_file", "must be an option or a parameter; got 'state_file'"),
        ("progress", "must be an option or a parameter; got 'progress'"),
    ],
)
def test_train_settings__unknown_name__names_close_ones(given, message):
    with pytest.raises(ConfigError, match=message):
        train_settings(PARAMETERS, ("f", {given: 1}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dim", 1.5, "dim must be a whole number; got 1.5"),
        ("dim", True, "dim must be a whole number; got True"),
        ("learning_rate", "fast", "learning_rate must be a number; got 'fast'"),
        ("encoder_widths", 16, r"encoder_widths must be a list of whole numbers such as \[64, 64\]; got 16"),
        ("direct_path", 1, "direct_path must be true or false; got 1"),
        ("seed", "x", "^seed must be a whole number; got 'x'"),
        ("presence", "yes", "presence must be true or false; got 'yes'"),
        ("labels", [1], r"labels must be text or a list of texts; got \[1\]"),
        ("block_size", "big", "block_size must be a number"),
        ("neighbours", 2.5, "neighbours must be a whole number"),
        ("split", "blok", "split must be one of 'auto', 'random', .*got 'blok'.* Did you mean 'block'"),
    ],
)
def test_train_settings__value_of_another_type__is_refused(name, value, message):
    with pytest.raises(ConfigError, match=message):
        train_settings(PARAMETERS, ("f", {name: value}))


def test_train_settings__whole_number_for_a_share__is_taken():
    assert train_settings(PARAMETERS, ("f", {"learning_rate": 1})).parameters == {"learning_rate": 1}


def test_train_settings__coordinates_as_list__become_the_text_of_the_option():
    assert train_settings(PARAMETERS, ("f", {"coordinates": ["lon", "lat"]})).coordinates == "lon,lat"


@pytest.mark.parametrize(
    ("told", "expected"),
    [("lon,lat", ("lon", "lat")), (["lon", "lat"], ("lon", "lat")), ("[0, 1]", (0, 1)), ([-2, "lat"], (-2, "lat"))],
)
def test_train_settings__spatial_columns__are_names_or_positions(told, expected):
    settings = train_settings({"spatial_columns": (-2, -1)}, ("command line", {"spatial_columns": told}))
    assert settings.parameters["spatial_columns"] == expected


def test_train_settings__spatial_columns_of_another_kind__are_refused():
    with pytest.raises(ConfigError, match="spatial_columns must be two columns"):
        train_settings({"spatial_columns": (-2, -1)}, ("command line", {"spatial_columns": [0.5, 1]}))


def test_train_settings__list_of_numbers__is_taken_and_checked():
    settings = train_settings({"penalties": (0.1, 1.0)}, ("--set", {"penalties": [0.5, 2]}))
    assert settings.parameters == {"penalties": (0.5, 2)}
    with pytest.raises(ConfigError, match="penalties must be a list of numbers such as"):
        train_settings({"penalties": (0.1, 1.0)}, ("--set", {"penalties": ["many"]}))


def test_train_settings__option_of_another_model__is_not_offered():
    """Rounds of messages mean nothing to a model without them: its own name must not come back as advice."""
    with pytest.raises(ConfigError) as caught:
        train_settings({"n_neighbours": 10}, ("--layers", {"layers": 2}))
    assert "Did you mean 'layers'" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_options__parameters_of_every_model__have_names_of_their_own(name):
    """A parameter that is called as an option would be set by nobody: the option takes it.

    The graph is built first, the recipe chooses the model, and a table brings its coordinates.
    """
    assert set(find_classifier(name).all_settings()) & set(OPTIONS) <= {"graph", "recipe", "coordinates"}
