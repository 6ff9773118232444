"""A data set in a folder, ``saved:FOLDER``: what ``Dataset.save`` wrote, with no pickled objects, and checked.

``dataset.json`` names the file of the rows by its SHA-256 and is written last, so that the folder holds a whole
data set or none. The rows are an ``npz`` file that is not packed: it cannot unpack to more than it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset, Units, register_dataset
from unalike.data.files import check_file
from unalike.data.schema import Schema
from unalike.data.unpack import NPY_HEADER, read_member, read_npy
from unalike.data.whole_file import new_folder, whole_file
from unalike.errors import UserError

FORMAT = "unalike data set 1"
HEADER = "dataset.json"
_AGAIN = "Save it again."
_ROWS = ("x", "x_test")
_ARRAYS = ("y", "y_test", "group", "group_test", "shift", "scale")
_UNITS = ("units", "target")
_TEXTS = ("name", "classes", "features", "group_names", "kind", "task")
_SPARSE = ("data", "indices", "indptr")
_UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, EOFError, OSError, MemoryError),
    *(RecursionError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error),
)


@register_dataset("saved")
class Saved:
    """A data set that Dataset.save wrote into a folder, saved:FOLDER; it works anywhere, in studies too."""

    path: str

    def fingerprint(self) -> str:
        """The digest of the data set; that the rows have it is seen when they are loaded."""
        return str(_header(self._folder)["digest"])

    @property
    def _folder(self) -> Path:
        return Path(self.path).expanduser()

    def load(self) -> Dataset:
        """Read the folder; a UserError where it is not as it was saved."""
        return load(self._folder)


def save(data: Dataset, folder: Path) -> None:
    """Write the data set into the folder, whole or not at all; another one that is there stays as it is."""
    if data.holders is not None:
        raise UserError(f"{data.name} is of several sites' tables. Keep these: they make it again.")
    new_folder(folder)
    if (folder / HEADER).exists():
        if _header(folder)["digest"] == data.digest:
            return
        raise UserError(f"{folder} holds another data set, and nothing is overwritten. Name another folder.")
    arrays = _arrays(data)
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type]  # none of the names is an option of savez
    content = packed.getbuffer()
    sha256 = hashlib.sha256(content).hexdigest()
    header = {
        "format": FORMAT,
        "digest": data.digest,
        "rows": f"rows-{sha256[:16]}.npz",
        "rows_sha256": sha256,
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()},
        "sparse": {name: list(getattr(data, name).shape) for name in _ROWS} if data.is_sparse else None,
        **{name: getattr(data, name) for name in _TEXTS},
        "schema": None if data.schema is None else data.schema.to_dict(),
        **({"gaps": True} if data.gaps else {}),
    }
    with whole_file(folder / str(header["rows"])) as file:
        file.write(content)
    with whole_file(folder / HEADER) as file:
        file.write(json.dumps(header | {"sha256": seal(header)}, indent=1, ensure_ascii=False).encode())


def load(folder: Path) -> Dataset:
    """The data set that :func:`save` wrote; a UserError where it is not that, or was changed since."""
    header = _header(folder)
    path = folder / header["rows"]
    check_file(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}. {_AGAIN}") from None
    if hashlib.sha256(content).hexdigest() != header["rows_sha256"]:
        raise UserError(f"{path} was changed or damaged: its checksum does not fit. {_AGAIN}")
    try:
        data = _dataset(header, _unpack(content, header["arrays"], path))
        if data.digest != header["digest"]:
            raise UserError(f"{folder / HEADER} was changed: the data set has another digest. {_AGAIN}")
        return data
    except _UNREADABLE as error:
        raise _no_data_set(folder, error) from None


def seal(header: dict[str, Any]) -> str:
    """The SHA-256 of a header: it names the rows by theirs, so this is one of everything."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _no_data_set(folder: Path, error: Exception) -> UserError:
    return UserError(f"{folder} does not hold a saved data set ({type(error).__name__}). {_AGAIN}")


def _header(folder: Path) -> dict[str, Any]:
    check_file(folder / HEADER)
    try:
        header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except OSError:
        raise UserError(
            f"There is no {folder / HEADER}. Save a data set there: data.save({str(folder)!r})."
        ) from None
    except (ValueError, RecursionError) as error:
        raise _no_data_set(folder, error) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("name"), str):
        raise _no_data_set(folder, ValueError())
    if header.pop("sha256", None) != seal(header):
        raise UserError(f"{folder / HEADER} was changed or damaged: its checksum does not fit. {_AGAIN}")
    texts = (str(header.get(name)) for name in ("digest", "rows_sha256"))
    if not all(re.fullmatch("[0-9a-f]{64}", text) for text in texts) or header.get("rows") != _rows_name(header):
        raise _no_data_set(folder, ValueError())
    return header


def _rows_name(header: dict[str, Any]) -> str:
    """The file of the rows: its name cannot lead out of the folder."""
    return f"rows-{header['rows_sha256'][:16]}.npz"


def _arrays(data: Dataset) -> dict[str, Array]:
    """Everything of the data set that is numbers, by name."""
    found: dict[str, Any] = {}
    for name in _ROWS:
        rows = getattr(data, name)
        parts = {f"{name}.{part}": getattr(rows, part) for part in _SPARSE} if data.is_sparse else {name: rows}
        found |= parts
    found |= {name: getattr(data, name) for name in _ARRAYS}
    for name in _UNITS:
        found |= {f"{name}.{part}": value for part, value in getattr(data, name)._asdict().items()}
    if data.public is not None:
        found |= {"public.x": data.public[0], "public.y": data.public[1]}
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def _unpack(content: bytes, expected: dict[str, Any], path: Path) -> dict[str, Array]:
    """The arrays of these types and shapes, no byte of memory more than the file has."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if any(info.compress_type != zipfile.ZIP_STORED for info in file.infolist()):
            raise ValueError("packed")
        for name, (kind, shape) in expected.items():
            most = math.prod(shape) * np.dtype(kind).itemsize + NPY_HEADER
            array = read_npy(read_member(file, f"{name}.npy", most, path, _AGAIN))
            if (array.dtype.str, list(array.shape)) != (kind, shape):
                raise ValueError(name)
            arrays[name] = array.copy()  # the bytes of the file cannot be written to
    return arrays


def _dataset(header: dict[str, Any], arrays: dict[str, Array]) -> Dataset:
    parts: dict[str, Any] = {name: arrays.get(name) for name in _ARRAYS}
    for name in _ROWS:
        parts[name] = _sparse(arrays, name, header["sparse"][name]) if header["sparse"] else arrays[name]
    for name in _UNITS:
        parts[name] = Units(arrays[f"{name}.shift"], arrays[f"{name}.scale"])
    parts |= {
        name: tuple(map(str, value)) if isinstance(value := header[name], list) else value for name in _TEXTS
    }
    if "public.x" in arrays:
        parts["public"] = arrays["public.x"], arrays["public.y"]
    if header["schema"] is not None:
        parts["schema"] = Schema.from_dict(header["schema"])
    parts["gaps"] = header.get("gaps", False) is True
    return Dataset(**parts)


def _sparse(arrays: dict[str, Array], name: str, shape: list[int]) -> Any:
    from scipy import sparse

    values = tuple(arrays[f"{name}.{part}"] for part in _SPARSE)
    made = sparse.csr_matrix(values, shape=tuple(shape))
    made.check_format()
    return made
