"""A product photograph with a printed label: a real photograph of the console's samples, and text in a real font."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SAMPLES = Path(__file__).parents[1] / "console/public/samples"
LINES = ("GREEN VALLEY", "Organic Tea 250 g")


def photograph(lines: Sequence[str] = LINES, *, name: str = "bottle", kind: str = "JPEG") -> bytes:
    """The photograph with the lines on a white label, a little turned as by hand."""
    picture = Image.open(SAMPLES / f"{name}.jpg").convert("RGB")
    if lines:
        label = Image.new("RGBA", (420, 70 * len(lines) + 30), (250, 248, 240, 255))
        drawing = ImageDraw.Draw(label)
        for place, line in enumerate(lines):
            drawing.text((20, 20 + 70 * place), line, fill=(25, 25, 25, 255), font=ImageFont.load_default(42))
        turned = label.rotate(2, expand=True, resample=Image.Resampling.BICUBIC)
        picture.paste(turned, ((picture.width - turned.width) // 2, picture.height // 2), turned)
    output = io.BytesIO()
    picture.save(output, kind)
    return output.getvalue()


def broken() -> bytes:
    """A JPEG with a good header whose pixels end early."""
    return photograph()[:20_000]
