"""What the doctor finds, and how it says to get what is missing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from icml.formats.errors import MissingError
from icml.tools.migrate import doctor, emulator, toolchain
from icml.tools.migrate.targets import TARGETS


def test_findings_say_what_is_here_and_how_to_get_the_rest() -> None:
    findings = doctor.examine()
    names = [finding.what for finding in findings]
    assert names[:2] == ["C compiler", "parsers"]
    assert {"qemu-riscv64", "qemu-loongarch64"} <= set(names)
    for finding in findings:
        assert finding.ok == (finding.how == "")
        assert finding.detail


@pytest.mark.parametrize(
    ("system", "root", "expected"),
    [
        (("debian", "12"), True, "apt-get install -t bookworm-backports qemu-user"),
        (("debian", "12"), False, "apt-get download qemu-user/bookworm-backports, dpkg -x"),
        (("debian", "13"), True, "apt-get install qemu-user"),
        (
            ("debian", "13"),
            False,
            "sudo apt-get install qemu-user; without root: apt-get download qemu-user, dpkg -x",
        ),
    ],
)
def test_how_qemu_comes_to_each_debian(
    system: tuple[str, str], root: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_system", lambda: system)
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    text = doctor.how_to_get_qemu()
    assert expected in text
    assert ("bookworm" in text) == (system[1] == "12")
    assert ("sudo" in text) == (not root)


def test_a_qemu_without_lsx_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    old = emulator.Emulator("/usr/bin/qemu-loongarch64", (7, 2, 0))
    monkeypatch.setattr(emulator, "find", lambda target: old)
    finding = next(f for f in doctor.examine() if f.what == "qemu-loongarch64")
    assert not finding.ok
    assert "7.2.0 has no LSX" in finding.detail
    assert emulator.problem(TARGETS["rvv"]) is None


def test_a_missing_compiler_is_a_finding_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(cc: str | None = None) -> toolchain.Compiler:
        raise MissingError(
            "compiling for another CPU needs zig's C compiler", "pip install 'icml-tools[migrate]'"
        )

    monkeypatch.setattr(toolchain, "find_compiler", missing)
    first = doctor.examine()[0]
    assert (first.ok, first.how) == (False, "pip install 'icml-tools[migrate]'")


@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed (extra `migrate`)")
def test_warming_links_a_program() -> None:
    (name, seconds), *_ = doctor.warm(["rvv"])
    assert name == "rvv"
    assert seconds >= 0
