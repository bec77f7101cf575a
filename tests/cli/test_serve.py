"""``hotvae serve``: what is refused before a socket is opened."""

import socket
import sys

import pytest

from hotvae.baselines.prevalence import Prevalence
from hotvae.cli import main


@pytest.fixture
def folder(tmp_path):
    Prevalence().fit([[0.0], [1.0]] * 20, [[0, 1], [1, 0]] * 20).save(tmp_path / "m")
    return str(tmp_path / "m")


def fails(capsys, *words):
    assert main(["serve", *words]) == 2
    return capsys.readouterr().err


def test_serve__beyond_this_machine_without_a_token__refused(folder, capsys, monkeypatch):
    monkeypatch.delenv("HOTVAE_TOKEN", raising=False)
    said = fails(capsys, folder, "--host", "0.0.0.0")
    assert "host must be 127.0.0.1, ::1 or localhost where no token is set; got '0.0.0.0'." in said


@pytest.mark.parametrize("token", ["short", "a token with spaces in it", "schlüssel-mit-umlauten"])
def test_serve__token_that_is_soon_guessed_or_cannot_be_sent__refused(folder, capsys, monkeypatch, token):
    monkeypatch.setenv("HOTVAE_TOKEN", token)
    assert f"token must be 16 or more letters, digits or signs without spaces; got {len(token)}." in fails(
        capsys, folder
    )


def test_serve__token_file_empty_or_not_there__refused(folder, capsys, tmp_path):
    (tmp_path / "token").write_text("\n")
    assert "token file must hold a token; got an empty file" in fails(
        capsys, folder, "--token-file", str(tmp_path / "token")
    )
    assert "No such file or directory" in fails(capsys, folder, "--token-file", str(tmp_path / "nowhere"))


def test_serve__port_taken__refused(folder, capsys, monkeypatch):
    monkeypatch.delenv("HOTVAE_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"host and port must be free to listen at; got 127.0.0.1, {port}" in fails(
            capsys, folder, "--port", port
        )


def test_serve__no_model__refused(capsys, tmp_path):
    assert "model folder must exist" in fails(capsys, str(tmp_path / "none"))


def test_serve__extra_not_installed__says_how_to_get_it(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    said = fails(capsys, folder)
    assert "fastapi must be installed to serve a model; got none." in said
    assert "The extra 'serve' of hotvae brings it: pip install 'fastapi" in said
