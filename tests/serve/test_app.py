"""Each path answers what the model says in this process, to the last bit, and refuses in a sentence."""

import json
import logging

import numpy as np
import pandas as pd
import pytest

from hotvae.errors import DataWarning
from hotvae.serve.limits import Limits
from hotvae.serve.questions import Served
from tests.serve.conftest import LABELS, ask, records, table_of_plots

NEW = table_of_plots(300, 1)  # more than one piece of rows


def features(model, frame=NEW):
    return frame[list(model.feature_names_in_)]


def refused(client, status, body, path="/predict"):
    """Send a body that is refused, and return the sentence."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


# --- answers ---------------------------------------------------------------------------------------------


def test_predict__rows__equal_the_model_in_process(client, model):
    answer = client.post("/predict", json={"rows": records(NEW)}).json()
    assert answer["labels"] == LABELS
    assert answer["ids"] == NEW["plot"].tolist()
    assert answer["warnings"] == []
    np.testing.assert_array_equal(answer["probabilities"], model.predict_proba(features(model)).astype(float))


def test_predict__columns_in_another_order_and_labels_among_them__same_answer(client):
    mixed = json.loads(NEW[NEW.columns[::-1]].to_json(orient="records"))
    told = [client.post("/predict", json={"rows": rows}).json() for rows in (records(NEW), mixed)]
    assert told[0] == told[1]


def test_predict__missing_value__as_a_gap_in_a_table(client, model):
    rows = [row | {"depth": None} for row in records(NEW[:2])]
    answer = client.post("/predict", json={"rows": rows}).json()
    with pytest.warns(DataWarning) as warned:
        expected = model.predict_proba(features(model, NEW[:2].assign(depth=np.nan)))
    np.testing.assert_array_equal(answer["probabilities"], expected.astype(float))
    assert answer["warnings"] == list({str(one.message): None for one in warned})
    assert "columns without missing values in training now have some: 'depth' (2 values)" in answer["warnings"][0]


@pytest.mark.parametrize("given", [{"sp_fern": 1}, {"sp_fern": True, "sp_oak": None}])
def test_predict__given_for_all_rows__equals_the_model_in_process(client, model, given):
    answer = client.post("/predict", json={"rows": records(NEW), "given": given}).json()
    expected = model.predict_proba(features(model), given={"sp_fern": 1})
    np.testing.assert_array_equal(answer["probabilities"], expected.astype(float))
    alone = np.array(client.post("/predict", json={"rows": records(NEW)}).json()["probabilities"])
    assert (np.array(answer["probabilities"])[:, 1] > alone[:, 1]).all()  # ivy follows fern


def test_predict__given_for_each_row__only_what_is_named_is_known(client, model):
    given = [{"sp_fern": 0}, {}, {"sp_ivy": 1, "sp_oak": 0}]
    answer = client.post("/predict", json={"rows": records(NEW[:3]), "given": given}).json()
    known = pd.DataFrame([[0, np.nan, np.nan], [np.nan] * 3, [np.nan, 1, 0]], columns=LABELS)
    expected = model.predict_proba(features(model, NEW[:3]), given=known)
    np.testing.assert_array_equal(answer["probabilities"], expected.astype(float))


def test_predict__given_with_ids__joined_by_them(client):
    one = client.post("/predict", json={"rows": records(NEW[:2]), "given": [{}, {"sp_fern": 1}]}).json()
    joined = {"rows": records(NEW[:2]), "given": [{"plot": "p1", "sp_fern": 1}]}
    assert client.post("/predict", json=joined).json() == one


@pytest.mark.parametrize("given", [None, {}, [{}, {}]])
def test_predict__nothing_given__as_without(client, given):
    plain = client.post("/predict", json={"rows": records(NEW[:2])}).json()
    assert client.post("/predict", json={"rows": records(NEW[:2]), "given": given}).json() == plain


def test_predict__rows_unlike_training__warned_of_without_a_flag_of_the_command_line(client):
    answer = client.post("/predict", json={"rows": [{"depth": 1e4, "soil": "clay"}]}).json()
    assert "rows must be like those of training to be predicted well; got 1 of 1" in " ".join(answer["warnings"])
    assert "--" not in " ".join(answer["warnings"])


def test_sample__seed_and_given__equal_the_model_in_process(client, model):
    question = {"rows": records(NEW[:20]), "n_draws": 7, "seed": 5, "given": {"sp_fern": 1}}
    answer = client.post("/sample", json=question).json()
    expected = model.sample(features(model, NEW[:20]), 7, random_state=5, given={"sp_fern": 1})
    np.testing.assert_array_equal(answer["draws"], expected)
    assert np.array(answer["draws"]).shape == (7, 20, 3)


@pytest.mark.parametrize("objective", ["hamming", "f1", "jaccard", "subset", "macro_f1"])
def test_decide__each_objective__equals_the_model_in_process(client, model, objective):
    question = {"rows": records(NEW), "objective": objective, "given": {"sp_ivy": 0}, "n_draws": 50}
    answer = client.post("/decide", json=question).json()
    expected = model.predict(features(model), objective=objective, given={"sp_ivy": 0}, n_draws=50)
    assert answer["lists"] == [[LABELS[i] for i in np.flatnonzero(row)] for row in expected]


def test_model_species_health__tell_what_there_is(client, folder):
    told = client.get("/model").json()
    assert (told["model"], told["kind"], told["labels"]) == ("model", "HotVAEClassifier", LABELS)
    assert str(folder.parent) not in json.dumps(told)
    species = client.get("/species").json()
    assert [entry["name"] for entry in species] == LABELS
    assert 0.4 < species[0]["prevalence"] < 0.6
    assert client.get("/health").json() == {"status": "ok"}


def test_metrics__after_some_requests__count_them(client):
    client.post("/predict", json={"rows": records(NEW[:3])})
    client.post("/predict", json={"rows": []})
    client.get("/nowhere/else")
    text = client.get("/metrics").text
    assert 'hotvae_requests_total{path="/predict",status="200"} 1.0' in text
    assert 'hotvae_requests_total{path="/predict",status="422"} 1.0' in text
    assert 'hotvae_requests_total{path="other",status="404"} 1.0' in text
    assert "hotvae_rows_total 3.0" in text
    assert "hotvae_under_way 0.0" in text
    assert "process_resident_memory_bytes" in text


def test_openapi__body_of_a_question__names_the_columns_of_this_model(client):
    described = client.get("/openapi.json").json()
    body = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]["rows"]["items"]["properties"]) == {"depth", "soil"}
    assert set(described["paths"]) == {"/predict", "/sample", "/decide", "/model", "/species", "/health", "/metrics"}


def test_log__each_request__one_line_without_what_was_asked(client, caplog):
    with caplog.at_level(logging.INFO, "hotvae.serve"):
        client.post("/predict", json={"rows": records(NEW[:2])})
        client.post("/predict", json={"rows": [{"depth": "secret"}]})
    lines = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    assert [(line["status"], line["path"], line.get("rows")) for line in lines] == [
        (200, "/predict", 2),
        (422, "/predict", None),
    ]
    assert lines[0]["bytes_in"] > 0 < lines[0]["bytes_out"]
    assert lines[1]["error"].startswith("table must have the column(s) 'soil'")


# --- refusals --------------------------------------------------------------------------------------------

ROW = {"depth": 0.5, "soil": "clay"}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ([1], r'body must be a JSON object; got [1]. Put the rows under "rows".'),
        ({}, "rows must be in the body; got nothing. Add it."),
        ({"rows": 5}, "rows must be a list with at least 1 row; got 5."),
        ({"rows": []}, "rows must be a list with at least 1 row; got []."),
        ({"rows": [ROW, 7]}, "rows[1] must map names to values; got 7."),
        ({"rows": [{}]}, "table must have the column(s) 'depth', 'soil'; got none of that name."),
        ({"rows": [{"depth": 1}]}, "table must have the column(s) 'soil'; got none of that name."),
        (
            {"rows": [{"depht": 1, "soil": "clay"}]},
            "must have the column(s) 'depth'; got none of that name (close: 'depht')",
        ),
        ({"rows": [ROW, {"depth": 1}]}, "rows must all have the same columns; got 'soil' in some (rows[1] is unlike"),
        (
            {"rows": [ROW | {"depth": [1, 2]}]},
            "rows[0]['depth'] must be a finite number, a text, true or false; got [1,2].",
        ),
        ({"rows": [ROW, ROW | {"depth": 10**30}]}, "rows[1]['depth'] must be a finite number"),
        (
            {"rows": [ROW | {"depth": "deep"}]},
            "column 'depth' must hold numbers, as in training; got text 'deep' (rows 0)",
        ),
        ({"rows": [ROW | {"x": 1}]}, """got unknown column(s) 'x'. Remove them, or pass "ignore_unknown": true."""),
        ({"rows": [ROW], "ignore_unknown": 1}, "ignore_unknown must be a valid boolean; got 1."),
        (
            {"rows": [ROW], "rowz": 1},
            "body must have no other fields than 'rows', 'given', 'ignore_unknown'; got 'rowz' (close: 'rows')",
        ),
        ({"rows": [ROW], "given": 3}, "given must be a list with at least 1 row; got 3."),
        (
            {"rows": [ROW], "given": {"sp_fem": 1}},
            "columns named as in training; got unknown column(s) 'sp_fem' (close: 'sp_fern'",
        ),
        (
            {"rows": [ROW], "given": {"sp_fern": 2}},
            "labels must be 0 or 1; got 2.0 in column 'sp_fern' (rows 0). Correct these cells.",
        ),
        ({"rows": [ROW], "given": {"sp_fern": "X"}}, "labels must be 0 or 1; got text 'X' in column 'sp_fern'"),
        (
            {"rows": [ROW], "given": [{"sp_fern": 1}] * 2},
            "given labels must have the rows of the table, 1; got 2 (given).",
        ),
        ({"rows": [ROW], "given": {"sp_fern": {"a": 1}}}, "given[0]['sp_fern'] must be a finite number"),
    ],
)
def test_predict__body_that_does_not_fit__422_and_a_sentence(client, body, sentence):
    said = refused(client, 422, body)
    assert sentence in said
    assert "--" not in said
    assert "=True" not in said


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("/sample", {"n_draws": 0}, "n_draws must be greater than or equal to 1; got 0."),
        ("/sample", {"n_draws": "many"}, 'n_draws must be a valid integer; got "many".'),
        ("/sample", {"seed": -1}, "seed must be greater than or equal to 0; got -1."),
        (
            "/decide",
            {"objective": "beauty"},
            "\"objective\" must be one of 'hamming', 'f1', 'jaccard', 'subset' or a measure",
        ),
        ("/decide", {"empty": 2}, "empty must be 0 or 1; got 2."),
    ],
)
def test_sample_and_decide__option_that_is_not_allowed__422_and_a_sentence(client, path, options, sentence):
    assert sentence in refused(client, 422, {"rows": [ROW], **options}, path)


def test_ignore_unknown__column_of_its_own__passed_over(client):
    answers = [
        client.post("/predict", json={"rows": [row], "ignore_unknown": True}).json() for row in (ROW, ROW | {"x": 1})
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("body", "got"),
    [
        (b"", "EOF"),
        (b"{", "EOF"),
        (b"\xff\xfe{}", "expected value"),
        (b'{"rows": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "recursion limit exceeded"),
        (b'{"rows": ' + b'{"a":' * 50_000, "recursion limit exceeded"),
        (b'{"rows": [{"depth": "\\ud800"}]}', "hex escape"),
        (b'{"rows": [{"depth": 01}]}', "invalid number"),
        (b'{"rows": [{"depth": 1' + b"0" * 5000 + b"}]}", "number out of range"),
    ],
)
def test_predict__body_that_is_no_json__400_and_a_sentence(client, body, got):
    said = refused(client, 400, body)
    assert said.startswith("body must be JSON; got ")
    assert got in said


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_predict__number_that_is_none__422_and_what_to_write_instead(client, number):
    said = refused(client, 422, b'{"rows": [{"soil": "clay", "depth": ' + number + b"}]}")
    assert "rows[0]['depth'] must be a finite number, a text, true or false; got" in said
    assert said.endswith("Write null for a missing value.")


@pytest.mark.parametrize("depth", [1e308, -1e308, 5e-324, 2**62, True, None])
def test_predict__extreme_numbers__answered_or_refused_in_a_sentence(client, depth):
    answer = client.post("/predict", json={"rows": [ROW | {"depth": depth}]})
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert np.isfinite(answer.json()["probabilities"]).all()


def test_limits__rows_columns_cells_body__413(folder):
    with ask(folder, rows=2, columns=5, cells=12, body=100_000) as client:
        assert "rows of a request must be at most 2; got 3." in refused(client, 413, {"rows": [ROW] * 3})
        wide = ROW | {f"x{i}": 1 for i in range(20)}
        assert "columns of rows must be at most" in refused(client, 413, {"rows": [wide], "ignore_unknown": True})
        given = {f"sp_{i}": 1 for i in range(20)}
        assert "columns of given must be at most" in refused(client, 413, {"rows": [ROW], "given": given})
        question = {"rows": [ROW] * 2, "n_draws": 3}
        assert "numbers of an answer must be at most 12; got 18." in refused(client, 413, question, "/sample")
        million = b'{"rows": [{' + b",".join(b'"%d":1' % i for i in range(1_000_000)) + b"}]}"
        assert "body must be at most 100,000 bytes; got more." in refused(client, 413, million)


def test_million_columns__within_the_limit_of_bytes__413_without_looking_at_each(folder):
    million = b'{"rows": [{' + b",".join(b'"%d":1' % i for i in range(1_000_000)) + b"}]}"
    with ask(folder, body=1 << 24) as client:
        assert "columns of rows must be at most 1,006; got 1,000,000." in refused(client, 413, million)


def test_body__sent_in_pieces_without_its_length__counted_while_it_comes(folder):
    def pieces():
        for _ in range(1000):
            yield b"[" * 1000

    with ask(folder, body=10_000) as client:
        answer = client.post("/predict", content=pieces(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert "body must be at most 10,000 bytes" in answer.json()["error"]


def test_content_type__not_json__415(client):
    answer = client.post("/predict", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert "content type must be application/json; got 'text/plain'." in answer.json()["error"]


def test_path_or_method__unknown__404_and_405(client):
    assert client.get("/nowhere").status_code == 404
    answer = client.get("/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"].startswith("method and path must be those of the service; got GET /predict.")


def test_token__set__asked_of_all_but_health(folder):
    with ask(folder, token="a-token-of-some-length") as client:
        for shown in ({}, {"Authorization": "Bearer another"}, {"Authorization": "Basic a-token-of-some-length"}):
            for path in ("/model", "/metrics", "/openapi.json"):
                answer = client.get(path, headers=shown)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert client.post("/predict", json={"rows": [ROW]}, headers=shown).status_code == 401
        assert client.get("/health").status_code == 200
        right = {"Authorization": "Bearer a-token-of-some-length"}
        assert client.post("/predict", json={"rows": [ROW]}, headers=right).status_code == 200
        assert client.get("/model", headers=right | {"Host": "plants.example"}).status_code == 200


def test_host__of_another_site_and_no_token__403(client):
    answer = client.get("/model", headers={"Host": "evil.example"})
    assert answer.status_code == 403
    assert "host must be one of 127.0.0.1, ::1, localhost" in answer.json()["error"]
    assert client.get("/model", headers={"Host": "[::1]:8000"}).status_code == 200


def test_given__model_that_knows_no_law__refused_without_a_python_call(folder, model):
    from hotvae.baselines.prevalence import Prevalence

    plain = Prevalence().fit(features(model), NEW[LABELS])
    plain.save(folder.parent / "plain")
    with ask(folder.parent / "plain") as client:
        rows = records(NEW[:1].drop(columns="plot"))
        assert client.post("/predict", json={"rows": rows}).status_code == 200
        said = refused(client, 422, {"rows": rows, "given": {"sp_fern": 1}})
        assert said == '"given" must go with a model that learns labels from labels; got Prevalence. Leave it out.'
        assert client.post("/sample", json={"rows": rows, "n_draws": 2}).status_code == 200


def test_classes__model_of_one_target__predicted_but_neither_drawn_nor_listed(folder, model):
    from hotvae.baselines.prevalence import Prevalence

    Prevalence().fit(features(model), NEW["soil"]).save(folder.parent / "classes")
    with ask(folder.parent / "classes") as client:
        rows = records(NEW[:1].drop(columns="plot"))
        assert client.post("/predict", json={"rows": rows}).json()["labels"] == ["clay", "sand"]
        for path, what in (("/sample", "n_draws"), ("/decide", "objective")):
            said = refused(client, 422, {"rows": rows}, path)
            assert said == f'"{what}" must go with a model of labels; got one of classes. Leave it out.'


def test_served__threads_side_by_side__each_gets_its_own_answer(folder, model):
    from concurrent.futures import ThreadPoolExecutor

    served = Served.load(folder, Limits())
    with ask(folder, workers=4, waiting=100) as client, ThreadPoolExecutor(8) as pool:
        parts = [NEW[start : start + 9] for start in range(0, 297, 9)]
        questions = [{"rows": records(part), "given": {"sp_oak": i % 2}} for i, part in enumerate(parts)]
        answers = list(pool.map(lambda question: client.post("/predict", json=question).json(), questions))
    for i, (part, answer) in enumerate(zip(parts, answers, strict=True)):
        expected = model.predict_proba(features(model, part), given={"sp_oak": i % 2})
        np.testing.assert_array_equal(answer["probabilities"], expected.astype(float))
    assert served.labels == LABELS
