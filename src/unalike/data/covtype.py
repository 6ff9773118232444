"""Forest cover types of four wilderness areas, the natural parties."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find, or_get
from unalike.data.libsvm import check_count
from unalike.data.split import choose_test_rows
from unalike.data.unpack import unpacked
from unalike.errors import UserError

ROWS = 581_012
AREAS = ("rawah", "neota", "comanche peak", "cache la poudre")
COVERS = (
    *("spruce/fir", "lodgepole pine", "ponderosa pine", "cottonwood/willow"),
    *("aspen", "douglas-fir", "krummholz"),
)
# Mean and standard deviation of all 581,012 rows of the public file, rounded. They are constants, not computed
# when the file is read: they are public knowledge, so parties that may not pool their rows can use them too, and
# they do not move with the split.
CONTINUOUS: dict[str, tuple[float, float]] = {
    "elevation": (2959, 280),
    "aspect": (156, 112),
    "slope": (14.1, 7.5),
    "horizontal_distance_to_hydrology": (269, 213),
    "vertical_distance_to_hydrology": (46.4, 58.3),
    "horizontal_distance_to_roadways": (2350, 1559),
    "hillshade_9am": (212, 26.8),
    "hillshade_noon": (223, 19.8),
    "hillshade_3pm": (143, 38.3),
    "horizontal_distance_to_fire_points": (1980, 1324),
}
FEATURES = (
    *CONTINUOUS,
    *(f"wilderness_{area.replace(' ', '_')}" for area in AREAS),
    *(f"soil_{number}" for number in range(1, 41)),
)

_NUMBERS, _BINARY = 10, 44
_TAIL = 2 * _BINARY + 2  # bytes at the end of a line: "0," or "1," for each binary column, the label, the line end
_LONGEST = 6 * _NUMBERS + _TAIL + 1  # bytes of a line: numbers of up to five characters, a comma after each; \r
_SPLIT_SEED = 581012  # constant: every run, whatever its seed, is tested on the same rows
_HOW = or_get("covtype", "Download covtype.data.gz from the UCI repository (data set 'Covertype') there.")


@register_dataset("covtype", paper="Blackard & Dean 1999; UCI Covertype, doi:10.24432/C50K5N")
class Covtype:
    """581,012 patches of forest, 54 features, lodgepole pine or not (or 7 cover types); four natural areas.

    ``task="binary"`` is the papers' task, cover type 2 (lodgepole pine, label 1) against the rest;
    ``task="cover"`` keeps the seven types. A fixed quarter of each cover type is the test set: 435,759 + 145,253
    rows as in NIID-Bench, the same rows for both tasks. Rows stay whole numbers (int16); the ten continuous
    columns are standardised by fixed constants (``CONTINUOUS``) when a batch is made. The wilderness area is the
    natural party, and stays a feature, as in the public file.
    """

    task: Literal["binary", "cover"] = "binary"

    def load(self) -> Dataset:
        """Read the file from the data folder."""
        places = [f"{folder}covtype.data{packed}" for folder in ("", "covtype/") for packed in ("", ".gz")]
        path = find("covtype", places, _HOW)
        x, cover = read_covtype(path)
        check_count(path, len(x), ROWS)
        area = x[:, _NUMBERS : _NUMBERS + len(AREAS)].argmax(axis=1)
        test = choose_test_rows(cover, 0.25, _SPLIT_SEED)
        y = (cover == COVERS.index("lodgepole pine")).astype(np.int64) if self.task == "binary" else cover
        shift, scale = np.zeros(len(FEATURES), np.float32), np.ones(len(FEATURES), np.float32)
        shift[:_NUMBERS], scale[:_NUMBERS] = zip(*CONTINUOUS.values(), strict=True)
        return Dataset(
            name="covtype",
            x=x[~test],
            y=y[~test],
            x_test=x[test],
            y_test=y[test],
            classes=("other", "lodgepole pine") if self.task == "binary" else COVERS,
            features=FEATURES,
            group=area[~test],
            group_names=AREAS,
            group_test=area[test],
            shift=shift,
            scale=scale,
        )


def read_covtype(path: Path) -> tuple[Array, Array]:
    """The 54 columns (int16) and the cover types, numbered from 0."""
    with unpacked(path, ROWS * _LONGEST) as file:
        content = file.read()
    content = content.replace(b"\r\n", b"\n") if b"\r" in content else content
    content = content if content.endswith(b"\n") else content + b"\n"
    if not content.strip():
        raise UserError(f"{path} is empty. Download it again.")
    lines = content.count(b"\n")
    if lines > ROWS:  # before places of line ends are kept, which for a file of nothing else would be many
        check_count(path, lines, ROWS)
    parsed = _parse(content)
    if parsed is None:
        raise _mistake(path, content)
    return parsed


def _parse(content: bytes) -> tuple[Array, Array] | None:
    """Columns and cover types, or None where a line is not as it should be.

    The general way, one number after the other, takes seconds for these 32 million numbers. But 45 of the 55 on
    a line are single digits at fixed places from its end, so only ten need to be parsed.
    """
    text = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    cuts = ends + 1 - _TAIL  # where the ten numbers, with a comma after each, end
    if (cuts < starts + 2 * _NUMBERS).any():
        return None
    tails = np.lib.stride_tricks.sliding_window_view(text, _TAIL)[cuts]
    binary, cover = tails[:, 0:-2:2] - ord("0"), tails[:, -2] - ord("1")
    heads = b"".join([content[i:j] for i, j in zip(starts.tolist(), cuts.tolist(), strict=True)])
    numbers = _whole_numbers(heads, np.cumsum(cuts - starts))
    # Differences of unsigned bytes wrap around, so that one comparison excludes what is below as well.
    if numbers is None or (tails[:, 1:-2:2] != ord(",")).any() or (binary > 1).any() or (cover > 6).any():
        return None
    if (binary[:, : len(AREAS)].sum(axis=1) != 1).any():
        return None
    return np.concatenate([numbers, binary], axis=1, dtype=np.int16), cover.astype(np.int64)


def _whole_numbers(heads: bytes, ends: Array) -> Array | None:
    """The ten numbers of every line, from text in which a comma follows each; ``ends`` are the lines' ends."""
    text = np.frombuffer(heads, np.uint8)
    commas = np.flatnonzero(text == ord(","))
    if len(commas) != _NUMBERS * len(ends) or (commas[_NUMBERS - 1 :: _NUMBERS] != ends - 1).any():
        return None
    widths = np.diff(commas, prepend=-1) - 1
    signs = np.flatnonzero(text == ord("-"))
    digits = np.count_nonzero(text - ord("0") <= 9)  # unsigned bytes: what is below "0" wraps around
    if digits + len(signs) + len(commas) != len(text) or widths.min() < 1 or widths.max() > 5:
        return None
    if len(signs) and ((text[signs - 1] != ord(",")) | (text[signs + 1] == ord(","))).any():
        return None
    numbers: Array = np.fromstring(heads, np.int32, sep=",")  # cannot fail: commas and digits were checked above
    in_range = np.abs(numbers).max() <= np.iinfo(np.int16).max
    return numbers.astype(np.int16).reshape(-1, _NUMBERS) if in_range else None


def _mistake(path: Path, content: bytes) -> UserError:
    """What is wrong in the first line that is."""
    for number, line in enumerate(content.decode("latin-1").rstrip("\n").split("\n"), 1):
        if _parse(line.encode("latin-1") + b"\n") is None:
            found = len(line.split(","))
            reason = f"has {found} values, not 55" if found != 55 else f"is not 55 whole numbers: {line[:40]!r}..."
            return UserError(f"{path}, line {number} {reason}. Download it again.")
    return UserError(f"{path} cannot be read. Download it again.")
