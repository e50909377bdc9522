"""Other people's subcommands: entry points and executables, without touching this repository."""

from __future__ import annotations


def test_an_entry_point_runs_as_a_tool(cli) -> None:
    done = cli.run("toy-flood", "--lines", "2")
    assert (done.returncode, done.stdout) == (0, "line 0\nline 1\n")


def test_an_entry_point_may_be_a_typer_app_with_subcommands(cli) -> None:
    assert cli.run("toy-sub", "two").stdout == "two\n"
    assert cli.error("toy-sub", "three", code=2).startswith("icml toy-sub: no such command 'three'")


def test_a_builtin_name_wins_over_an_entry_point(cli) -> None:
    assert "Show what is installed here" in cli.run("doctor", "--help").stdout


def test_an_entry_point_that_cannot_be_loaded_is_missing_something(cli) -> None:
    line = cli.error("toy-gone", code=3)
    assert line == (
        "icml toy-gone: plug-in 'toy-gone' (from toy-tools) cannot be loaded: "
        "ModuleNotFoundError: No module named 'module_that_is_gone'"
    )


def test_an_entry_point_that_is_no_command_is_refused(cli) -> None:
    assert "neither a function nor a typer.Typer" in cli.error("toy-number", code=3)


def test_a_broken_plugin_does_not_disturb_the_help(cli) -> None:
    done = cli.run("--help")
    assert done.returncode == 0
    assert "│ toy-gone " in done.stdout


def test_an_executable_on_path_gets_the_words_as_they_are(cli) -> None:
    cli.add_executable("icml-words", '#!/bin/sh\nprintf "<%s>" "$@"\n')
    done = cli.run("words", "a b", "--help", "--", "-x", "", "--debug")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "<a b><--help><--><-x><><--debug>"


def test_an_executable_gets_the_streams_and_gives_the_exit_code(cli) -> None:
    cli.add_executable("icml-filter", "#!/bin/sh\ntr a-z A-Z\nexit 9\n")
    done = cli.run("filter", input="text")
    assert (done.returncode, done.stdout) == (9, "TEXT")


def test_an_executable_replaces_the_process(cli) -> None:
    cli.add_executable("icml-pid", "#!/bin/sh\necho $$\n")
    process = cli.start("pid")
    out, _ = process.communicate(timeout=30)
    assert int(out) == process.pid


def test_an_executable_dies_of_a_closed_pipe_as_it_would_without_icml(cli) -> None:
    """Python ignores SIGPIPE, which a program started by it must not inherit."""
    cli.add_executable("icml-yes", "#!/bin/sh\nexec yes\n")
    done = cli.shell('icml yes | head -n 1; echo "${PIPESTATUS[0]}"')
    assert (done.stdout, done.stderr) == ("y\n141\n", "")


def test_an_entry_point_wins_over_an_executable(cli) -> None:
    cli.add_executable("icml-toy-flood", "#!/bin/sh\necho executable\n")
    assert cli.run("toy-flood", "--lines", "1").stdout == "line 0\n"
    assert cli.run("--help").stdout.count("│ toy-flood ") == 1


def test_an_executable_that_the_system_cannot_run_is_one_line(cli) -> None:
    path = cli.add_executable("icml-odd", "\x7fELF but not really")
    assert cli.error("odd", code=1) == f"icml odd: {path}: Exec format error"


def test_a_folder_or_a_plain_file_of_that_name_is_no_tool(cli) -> None:
    (cli.bin / "icml-folder").mkdir()
    (cli.bin / "icml-text").write_text("")
    assert cli.error("folder", code=2).startswith("icml: no such tool: 'folder'")
    assert cli.error("text", code=2).startswith("icml: no such tool: 'text'")
