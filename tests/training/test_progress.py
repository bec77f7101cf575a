"""What a watcher sees: lines off a terminal, a bar on it, nothing on request; always on standard error."""

import io
import sys
import time

import pytest
from rich.console import Console

from hotvae.errors import ConfigError
from hotvae.training.progress import Bar, Clock, Lines, OutOfTimeError, Silent, make_progress, summary, watched


def run(progress, n_epochs, done=0, stop_at=None):
    """Play a training run to a watcher."""
    with progress:
        progress.start(n_epochs, [{"epoch": epoch + 1} for epoch in range(done)])
        for epoch in range(done + 1, (stop_at or n_epochs) + 1):
            progress.epoch({"epoch": epoch, "loss": 1 / epoch, "seconds": 0.1})


class Terminal(io.StringIO):
    def isatty(self):
        return True


def open_terminal(monkeypatch):
    """Put a terminal on standard error; not a fixture, as pytest takes the stream anew for each phase."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


# Lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_epochs", "shown"),
    [
        (1, [1]),
        (5, [1, 2, 3, 4, 5]),
        (40, [1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]),
        (25, [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25]),
        (200, [1, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200]),
    ],
)
def test_lines__whole_run__first_last_and_each_tenth_on_stderr(capsys, n_epochs, shown):
    run(Lines("HOT-VAE"), n_epochs)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"HOT-VAE: epoch {e}/{n_epochs}  loss {1 / e:.4f}" for e in shown]


def test_lines__stopped_early__no_line_is_made_up(capsys):
    run(Lines("HOT-VAE"), 40, stop_at=9)
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_lines__resumed__says_after_which_epoch(capsys):
    run(Lines("HOT-VAE"), 5, done=3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "HOT-VAE: resumed after epoch 3"
    assert [line.split()[2] for line in lines[1:]] == ["4/5", "5/5"]


def test_summary__validation_values__named_in_order():
    record = {
        "epoch": 2,
        "loss": 0.25,
        "loss_bce": 0.2,
        "learning_rate": 1e-3,
        "seconds": 2.0,
        "threshold": 0.3,
    }
    record |= {"validation_log_loss": 0.123456, "validation_macro_f1": 1.0}
    assert summary(record) == "loss 0.2500  validation log_loss 0.1235  validation macro_f1 1.0000"


# Silent and the choice ------------------------------------------------------------------------------------


def test_silent__whole_run__prints_nothing(capsys):
    run(Silent(), 5, done=2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("style", "kind"), [("silent", Silent), ("lines", Lines), ("bar", Bar)])
def test_make_progress__named_style__that_style(style, kind):
    assert type(make_progress(style, "HOT-VAE")) is kind


def test_make_progress__auto_without_terminal__lines(capsys):
    run(make_progress("auto", "HOT-VAE"), 1)
    assert capsys.readouterr().err == "HOT-VAE: epoch 1/1  loss 1.0000\n"


def test_make_progress__auto_in_a_terminal__bar(monkeypatch):
    open_terminal(monkeypatch)
    assert type(make_progress("auto", "HOT-VAE")) is Bar


def test_make_progress__unknown_style__named_with_the_choices():
    with pytest.raises(ConfigError, match=r"progress must be one of 'auto', 'bar', 'lines', 'silent'; got 'loud'"):
        make_progress("loud", "HOT-VAE")


# Bar ------------------------------------------------------------------------------------------------------


def test_bar__in_a_terminal__counts_epochs_and_vanishes(monkeypatch, capsys):
    terminal = open_terminal(monkeypatch)
    bar = Bar("HOT-VAE")
    with bar:
        assert bar.bar.live.is_started
        bar.start(20, [])
        bar.epoch({"epoch": 7, "loss": 0.5, "seconds": 0.1})
        bar.bar.refresh()
        drawn = terminal.getvalue()
    assert "HOT-VAE" in drawn
    assert "7/20" in drawn
    assert "loss 0.5000" in drawn
    assert not bar.bar.live.is_started
    assert terminal.getvalue().endswith("\x1b[2K")  # its line is erased
    assert capsys.readouterr().out == ""


def test_bar__resumed__starts_where_the_run_was(monkeypatch):
    open_terminal(monkeypatch)
    bar = Bar("HOT-VAE")
    with bar:
        bar.start(20, [{"epoch": 1}, {"epoch": 2}])
        assert (bar.bar.tasks[0].completed, bar.bar.tasks[0].total) == (2, 20)


def test_bar__error_in_training__terminal_given_back(monkeypatch):
    terminal = open_terminal(monkeypatch)
    bar = Bar("HOT-VAE")
    with pytest.raises(KeyboardInterrupt), bar:
        raise KeyboardInterrupt
    assert not bar.bar.live.is_started
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1  # cursor


def test_bar__asked_for_without_terminal__no_control_codes(capsys):
    bar = Bar("HOT-VAE")
    assert isinstance(bar.bar.console, Console)
    run(bar, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err


def test_watched__any_style__the_watcher_is_told_until_the_block_ends():
    told = []

    class Watcher(Silent):
        def epoch(self, record):
            told.append(record["epoch"])

    with watched(Watcher()):
        run(make_progress("lines", "HOT-VAE"), 2)
    assert told == [1, 2]
    with pytest.raises(RuntimeError, match="stop"), watched(Watcher()):
        raise RuntimeError("stop")
    assert type(make_progress("lines", "HOT-VAE")) is Lines


def test_clock__time_is_over__ends_the_fit():
    run(Clock(time.time() + 1e6), 3)
    with pytest.raises(OutOfTimeError):
        run(Clock(time.time() - 1), 3)
