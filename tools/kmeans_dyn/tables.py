"""Points from binary tables: NPY, NPZ and Parquet."""

from __future__ import annotations

import io

from icml.formats.dialect import fold
from icml.formats.errors import InputError
from icml.formats.source import Content
from icml.formats.tables import Points, read_points
from icml.tools.kmeans_dyn.layout import LATITUDE, LONGITUDE, Columns


class _Named(io.BytesIO):
    """Bytes that error messages call by their file's name."""

    def __init__(self, content: Content) -> None:
        super().__init__(bytes(content.data))
        self.name = content.name


def read_binary(content: Content, columns: Columns, metric: str) -> Points:
    """The rows of a table as insertions.

    Args:
        content: an NPY, NPZ or Parquet file.
        columns: which of its columns are the ids and the coordinates; by default a column called id holds the ids, and
            every other column a coordinate, for haversine those called latitude and longitude.

    Raises:
        InputError: there is no such column, or a coordinate is no finite number.
    """
    if columns.id is not None or columns.coordinates is not None or not content.begins_with(b"PAR1"):
        return read_points(_Named(content), columns=columns.coordinates, id_column=columns.id)
    names = _parquet_names(content)
    folded = [fold(name) for name in names]
    ids = names[folded.index("id")] if "id" in folded else None
    coordinates = [name for name in names if name != ids]
    if metric == "haversine":
        found = [
            [name for name, f in zip(names, folded, strict=True) if f in known]
            for known in (LATITUDE, LONGITUDE)
        ]
        if not all(found):
            raise InputError(
                "no columns called latitude and longitude; name them with --columns", content.name
            )
        coordinates = [found[0][0], found[1][0]]
    return read_points(_Named(content), columns=coordinates, id_column=ids)


def _parquet_names(content: Content) -> list[str]:
    from icml.formats.parquet import load_parquet

    return list(load_parquet(content)[1])
