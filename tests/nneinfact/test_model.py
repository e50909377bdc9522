"""Model strings: what is read, what is refused, and that errors name the letter."""

from __future__ import annotations

import pytest

from icml.formats.errors import InputError
from icml.tools.nneinfact.model import Model, parse_grid, parse_sizes


def test_whitespace_and_letters() -> None:
    model = Model.parse(" w r, h r ,ikr -> whi ")
    assert model.factors == ("wr", "hr", "ikr")
    assert model.text == "wr,hr,ikr->whi"
    assert model.latent == "rk"
    assert model.letters == "whirk"
    assert model.carrying("w") == (0,)
    assert model.carrying("r") == (0, 1, 2)
    sizes = model.bind((3, 4, 5), {"r": 2, "k": 6})
    assert sizes == {"w": 3, "h": 4, "i": 5, "r": 2, "k": 6}
    assert model.parameters(sizes) == 3 * 2 + 4 * 2 + 5 * 6 * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ir,jr", "no single '->'"),
        ("ir->j->i", "no single '->'"),
        ("ir,jr->", "no letters after"),
        ("ir,,jr->ij", "empty factor"),
        ("->i", "empty factor"),
        ("ir,jr->ijk", "no factor carries the output letter 'k'"),
        ("irr,jr->ij", "letter 'r' is repeated in 'irr'"),
        ("ir,jr->iji", "letter 'i' is repeated in 'iji'"),
        ("ir,jr,ir->ij", "factors 'ir' and 'ir' carry the same letters"),
        ("ir,jr,ri->ij", "factors 'ir' and 'ri' carry the same letters"),
        ("i1,j1->ij", "'1' is not a letter"),
        (",".join("abcdefghijklmno") + "->a", "15 factors; at most 14"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", "\\(")):
        Model.parse(text)


@pytest.mark.parametrize(
    ("shape", "latent", "message"),
    [
        ((3,), {"r": 2}, "has 2 letters"),
        ((3, 4), {}, "latent letter 'r' has no size"),
        ((3, 4), {"r": 0}, "size of letter 'r' must be a whole number of at least 1"),
        ((3, 4), {"r": 2, "z": 1}, "letter 'z'"),
        ((3, 4), {"r": 2, "i": 5}, "letter 'i' has size 3 in the data but 5"),
        ((0, 4), {"r": 2}, "axis 'i' of the data is empty"),
    ],
)
def test_sizes_that_do_not_fit(shape: tuple[int, ...], latent: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Model.parse("ir,jr->ij").bind(shape, latent)


def test_sizes_text() -> None:
    assert parse_sizes("r=10, k=6") == {"r": 10, "k": 6}
    assert parse_sizes("") == {}
    assert parse_grid("r=5:20:5,k=3,s=2:4") == {"r": [5, 10, 15, 20], "k": [3], "s": [2, 3, 4]}
    for bad in ("r", "r=", "rr=3", "r=0", "r=1,r=2", "r=x", "r=-1"):
        with pytest.raises(InputError):
            parse_sizes(bad)
    for bad in ("r=5:1", "r=1:2:0", "r=1:2:3:4", "r=", "r=3,r=4", "r=a:b"):
        with pytest.raises(InputError):
            parse_grid(bad)
