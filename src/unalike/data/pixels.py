"""Pictures as arrays of bytes, channels first; files of pictures read with care."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

Color = Literal["rgb", "gray"]
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")  # no format whose reader starts another program
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MOST_PIXELS = 64_000_000  # of one picture; a small file can unpack to far more
SIZES = (4, 1024)


def is_image(value: Any) -> bool:
    """Whether it is a picture of Pillow, which is not needed here to ask."""
    return hasattr(value, "getbands") and hasattr(value, "convert")


def pixels(image: Any) -> Array:
    """The picture as bytes [channels, height, width]; one that is neither grey nor colour becomes colour."""
    values = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return np.ascontiguousarray(values[None] if values.ndim == 2 else values.transpose(2, 0, 1))


def check_picture(name: str, size: int) -> None:
    """Refuse pictures of a size that no net can use."""
    if not SIZES[0] <= size <= SIZES[1]:
        raise UserError(f"{name}'s size must be from {SIZES[0]} to {SIZES[1]} pixels, got {size}. Use 32.")


def read_picture(source: Path | bytes, what: str, size: int, color: Color) -> Array:
    """A file of a picture as bytes [channels, size, size], upright as its EXIF data say.

    The shorter side becomes ``size`` pixels long, and of the longer one the middle is kept. A picture that is
    damaged, or has so many pixels that it may be meant to fill the memory, is a UserError that names it.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # there is a bound of our own
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise UserError(
                        f"{what} has {image.width} x {image.height} pixels, too many. Make it smaller."
                    )
                if image.mode.startswith(("I", "F")):
                    raise UserError(f"{what} has more than 8 bits a colour ({image.mode}). Save it with 8 bits.")
                upright = ImageOps.exif_transpose(image).convert("RGB" if color == "rgb" else "L")
                return pixels(ImageOps.fit(upright, (size, size), Image.Resampling.BILINEAR))
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, Image.DecompressionBombError) as error:
        reason = "no picture of a known format" if isinstance(error, UnidentifiedImageError) else error
        raise UserError(f"Cannot read {what}: {' '.join(str(reason).split())[:200]}. Mend or remove it.") from None
