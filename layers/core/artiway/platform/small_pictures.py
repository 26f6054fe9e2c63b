"""Makes a picture small for a model: an upright JPEG without metadata, bounded in pixels and bytes."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 50_000_000  # as a worker accepts; counted before the picture is decoded
MOST_SIDE = 1_536
MOST_BYTES = 1_500_000
QUALITIES = (88, 75, 50, 25, 10)
FORMATS = ("PNG", "JPEG", "WEBP")
DEEP_TO_PLAIN = [value // 256 for value in range(65_536)]


class TooManyPixels(ValueError):
    """Known from the header alone."""


def small_jpeg(data: bytes) -> bytes:
    """Raises ValueError, whose message may be shown, for what cannot be decoded or has too many pixels."""
    return _encoded(_on_white(_decoded(data)))


def _decoded(data: bytes) -> Image:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the pixels are counted here
            picture: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
            if picture.width * picture.height > MOST_PIXELS:
                raise TooManyPixels(f"it has more than {MOST_PIXELS:,} pixels")
            picture.draft("RGB", (MOST_SIDE, MOST_SIDE))  # a large JPEG is decoded at a fraction of its size
            if picture.mode.startswith("I"):
                picture = picture.convert("I").point(DEEP_TO_PLAIN, "L")
            elif picture.mode not in {"RGB", "RGBA", "L"}:
                picture = picture.convert("RGB" if picture.mode == "CMYK" else "RGBA")
            turned = ImageOps.exif_transpose(picture)
            turned.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
            return turned
    except TooManyPixels:
        raise
    except (UnidentifiedImageError, Image.DecompressionBombError):
        raise ValueError("it is no PNG, JPEG or WebP of a size that is accepted") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError):  # what Pillow raises for broken data
        raise ValueError("it is broken or incomplete") from None


def _on_white(picture: Image) -> Image:
    """A cut-out is seen as in a shop: on white."""
    from PIL import Image

    if picture.mode != "RGBA":
        return picture.convert("RGB")
    ground = Image.new("RGB", picture.size, "white")
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _encoded(picture: Image) -> bytes:
    for quality in QUALITIES:
        output = io.BytesIO()
        picture.save(output, "JPEG", quality=quality)
        if output.getbuffer().nbytes <= MOST_BYTES:
            break
    return output.getvalue()
