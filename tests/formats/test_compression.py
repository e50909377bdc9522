"""Compression by content: every format, members, truncation, damage, and where bytes come from."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from icml.formats import InputError, read_edges

TEXT = b"".join(b"%d %d\n" % (i, i * i % 101) for i in range(3000))
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
}
each_codec = pytest.mark.parametrize("name", CODECS)


def lines_of(data: bytes) -> int:
    return len(read_edges(io.BytesIO(data)))


@each_codec
def test_content_not_name_decides(tmp_path: Path, name: str) -> None:
    for file_name in ("graph", "graph.gz", "graph.csv.xz", "graph.zst"):
        (tmp_path / file_name).write_bytes(CODECS[name](TEXT))
        edges = read_edges(tmp_path / file_name)
        assert len(edges) == 3000
        assert edges.line is not None
        assert edges.line[-1] == 3000
    (tmp_path / "plain.gz").write_bytes(TEXT)
    assert len(read_edges(tmp_path / "plain.gz")) == 3000


@each_codec
def test_members_follow_one_another(name: str) -> None:
    compress = CODECS[name]
    assert lines_of(compress(TEXT) + compress(b"a b\n")) == 3001
    assert lines_of(compress(b"") + compress(TEXT) + compress(b"")) == 3000
    assert lines_of(compress(b"")) == 0
    assert lines_of(compress(TEXT) + b"\0" * 1024) == 3000


def test_streams_that_give_little_at_a_time() -> None:
    class Dribble(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(3, size) if size and size > 0 else 3)

    for compress in CODECS.values():
        assert len(read_edges(Dribble(compress(TEXT) + compress(b"a b\n")))) == 3001
    assert len(read_edges(Dribble(TEXT))) == 3000


def test_parallel_compressors_skippable_frames() -> None:
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    assert lines_of(skippable + zstandard.compress(TEXT) + skippable + zstandard.compress(b"a b\n")) == 3001


@each_codec
def test_truncated_anywhere(tmp_path: Path, name: str) -> None:
    whole = CODECS[name](TEXT)
    path = tmp_path / "graph.gz"
    for keep in {20, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1}:
        path.write_bytes(whole[:keep])
        with pytest.raises(InputError) as caught:
            read_edges(path)
        assert str(caught.value) == f"{path}: truncated {name} stream"
    path.write_bytes(whole + whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"truncated {name} stream"):
        read_edges(path)


@each_codec
def test_damaged(name: str) -> None:
    whole = bytearray(CODECS[name](TEXT))
    # zstandard.compress writes no checksum, so that only a damaged structure shows there.
    places = [len(whole) // 2] if name != "zstd" else [6, 7, 8]
    outcomes = []
    for place in places:
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        try:
            read_edges(io.BytesIO(damaged))
        except InputError as error:
            outcomes.append(str(error))
    assert f"input: corrupt {name} stream" in outcomes
    with pytest.raises(InputError, match=f"something else after the {name} stream"):
        read_edges(io.BytesIO(whole + b"1 2\n" * 10))


def test_checksum_of_zstd() -> None:
    whole = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    whole[-1] ^= 1
    with pytest.raises(InputError, match="corrupt zstd stream"):
        read_edges(io.BytesIO(whole))


def test_text_that_looks_like_bzip2() -> None:
    assert read_edges(io.BytesIO(b"BZh9 1\n2 3\n")).names[0] == "BZh9"


def test_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out.graph").write_bytes(TEXT)
    with tarfile.open(tmp_path / "graph.tar.bz2", "w:bz2") as archive:
        archive.add(tmp_path / "out.graph")
    with pytest.raises(InputError, match="this is a tar archive; unpack it first"):
        read_edges(tmp_path / "graph.tar.bz2")


def test_compressed_binary_formats() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, u=np.array([1, 2]), v=np.array([3, 4]))
    assert len(read_edges(io.BytesIO(gzip.compress(buffer.getvalue())))) == 2


def test_operating_system_reasons(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_edges(tmp_path / "none.edges")
    assert str(caught.value) == f"{tmp_path / 'none.edges'}: No such file or directory"
    with pytest.raises(InputError, match="Is a directory"):
        read_edges(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        read_edges(tmp_path / "loop")
    with pytest.raises(InputError, match="null byte"):
        read_edges("a\0b")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be refused")
def test_permission_denied(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(TEXT)
    (tmp_path / "secret").chmod(0o600)
    tmp_path.chmod(0o755)
    code = (
        "import os, sys; from icml.formats import InputError, read_edges\n"
        "import icml.formats._kernel; os.setgid(65534); os.setuid(65534)\n"
        "try: read_edges(sys.argv[1])\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "secret"], capture_output=True, text=True, check=True
    )
    assert "Permission denied" in done.stdout


def test_standard_input() -> None:
    code = "from icml.formats import read_edges; e = read_edges('-'); print(len(e), e.source)"
    for data in (TEXT, gzip.compress(TEXT)):
        done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
        assert done.stdout == b"3000 stdin\n"


def test_file_objects(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_bytes(b"a b\tc\n")
    with open(tmp_path / "g.tsv", "rb") as file:
        edges = read_edges(file)
    assert edges.source == str(tmp_path / "g.tsv")
    assert edges.names.to_list() == ["a b", "c"]
    with open(tmp_path / "g.tsv") as text, pytest.raises(TypeError, match="binary mode"):
        read_edges(text)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="closed file"):
        read_edges(file)


def test_a_pipe_by_path(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"printf '1 2\\n3 4\\n' > {pipe}"]) as writer:
        assert len(read_edges(pipe)) == 2
    assert writer.returncode == 0
