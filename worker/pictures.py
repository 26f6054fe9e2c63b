"""Decodes untrusted pictures and encodes results. The size is checked before a picture is decoded."""

from __future__ import annotations

import contextlib
import io
import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageFile, ImageOps

from worker import png_data
from worker.errors import (
    InputAnimated,
    InputTooLarge,
    InputTooManyPixels,
    InputTypeUnknown,
    InputUndecodable,
)

Pixels = NDArray[np.uint8]
Format = Literal["png", "jpeg", "webp"]

PROFILE_BYTES = 1024 * 1024
FORMAT_SIDES = {"png": 2**31 - 1, "jpeg": 65_500, "webp": 16_383}  # what the formats can hold

Image.MAX_IMAGE_PIXELS = None  # check() has its own limit, which is an error and not a warning
ImageFile.LOAD_TRUNCATED_IMAGES = False


@dataclass(frozen=True)
class Limits:
    max_bytes: int = 25 * 1024 * 1024
    max_pixels: int = 50_000_000
    max_side: int = 16_384
    min_side: int = 16


@dataclass(frozen=True)
class Picture:
    """8-bit sRGB, upright, with alpha only where the picture has transparency."""

    rgb: Pixels
    alpha: Pixels | None = None

    @property
    def width(self) -> int:
        return int(self.rgb.shape[1])

    @property
    def height(self) -> int:
        return int(self.rgb.shape[0])

    @property
    def pixels(self) -> int:
        return self.width * self.height


@dataclass(frozen=True)
class Header:
    """Format and size as the first bytes state them, read without a decoder."""

    format: Format
    width: int
    height: int
    is_animated: bool = False


def read_header(data: bytes) -> Header:
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _png_header(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg_header(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_header(data)
    except (struct.error, IndexError) as error:
        raise InputUndecodable("the picture ends inside its header") from error
    raise InputTypeUnknown("only PNG, JPEG and WebP pictures are accepted")


def _png_header(data: bytes) -> Header:
    if data[12:16] != b"IHDR":
        raise InputUndecodable("the PNG has no header chunk")
    width, height = struct.unpack(">II", data[16:24])
    # The chunk acTL of an animation stands between the header and the first data chunk.
    head = data[: data.find(b"IDAT")] if b"IDAT" in data else data
    return Header("png", width, height, is_animated=b"acTL" in head)


def _jpeg_header(data: bytes) -> Header:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise InputUndecodable("the JPEG is broken before its frame")
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return Header("jpeg", width, height)
        if marker in (0xD9, 0xDA):
            raise InputUndecodable("the JPEG has no frame")
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if length < 2:
            raise InputUndecodable("the JPEG is broken before its frame")
        at += 2 + length


def _webp_header(data: bytes) -> Header:
    kind = data[12:16]
    if kind == b"VP8X":
        flags = data[20]
        width = 1 + int.from_bytes(data[24:27], "little")
        height = 1 + int.from_bytes(data[27:30], "little")
        if len(data) < 30:
            raise InputUndecodable("the picture ends inside its header")
        return Header("webp", width, height, is_animated=bool(flags & 0x02))
    if kind == b"VP8L":
        (bits,) = struct.unpack("<I", data[21:25])
        return Header("webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return Header("webp", width & 0x3FFF, height & 0x3FFF)
    raise InputUndecodable("the WebP has no picture chunk")


def check(data: bytes, limits: Limits) -> Header:
    """Refuse a picture by its bytes and its header, without decoding it."""
    if len(data) > limits.max_bytes:
        raise InputTooLarge(f"the picture has {len(data)} bytes; at most {limits.max_bytes} are accepted")
    header = read_header(data)
    if header.is_animated:
        raise InputAnimated("animated pictures are not accepted; send one frame")
    _check_size(header.width, header.height, limits)
    return header


def _check_size(width: int, height: int, limits: Limits) -> None:
    if width * height > limits.max_pixels or max(width, height) > limits.max_side:
        raise InputTooManyPixels(f"{width} x {height} pixels; at most {limits.max_pixels} are accepted")
    if min(width, height) < limits.min_side:
        raise InputUndecodable(f"{width} x {height} pixels are too few; at least {limits.min_side} a side")


def decode(data: bytes, limits: Limits) -> Picture:
    header = check(data, limits)
    if header.format == "png":
        png_data.require_announced_size(data)
    try:
        with Image.open(io.BytesIO(data), formats=[header.format.upper()]) as image:
            _check_size(*image.size, limits)  # the decoder may read another size than read_header()
            image.load()
            upright = ImageOps.exif_transpose(image)
            return _to_picture(_to_srgb(upright))
    # Decoders raise many exceptions for damaged bytes; each means that the bytes are no picture.
    except (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, struct.error, EOFError) as error:
        raise InputUndecodable(f"the {header.format.upper()} cannot be decoded") from error


def _to_srgb(image: Image.Image) -> Image.Image:
    """Convert to sRGB: phones use wide gamuts, and without the profile such a picture looks pale."""
    profile = image.info.get("icc_profile")
    if image.mode in ("RGB", "RGBA", "CMYK") and isinstance(profile, bytes) and len(profile) <= PROFILE_BYTES:
        mode: Literal["RGB", "RGBA"] = "RGBA" if image.mode == "RGBA" else "RGB"
        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError):
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode=mode)
            return converted or image
    return image


def _to_picture(image: Image.Image) -> Picture:
    if image.mode.startswith("I") or image.mode == "F":
        deep = np.asarray(image, dtype=np.float32)
        gray = np.clip(deep / (257 if deep.max(initial=0) > 255 else 1), 0, 255).astype(np.uint8)
        return Picture(np.ascontiguousarray(np.repeat(gray[:, :, None], 3, axis=2)))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        full = np.array(image.convert("RGBA"), dtype=np.uint8)
        alpha = np.ascontiguousarray(full[:, :, 3])
        opaque = bool((alpha == 255).all())
        return Picture(np.ascontiguousarray(full[:, :, :3]), None if opaque else alpha)
    return Picture(np.array(image.convert("RGB"), dtype=np.uint8))


def encode(picture: Picture, picture_format: Format, quality: int) -> bytes:
    """Encode from pixels alone, so that no metadata of an input is kept. JPEG gets a white background."""
    if max(picture.width, picture.height) > FORMAT_SIDES[picture_format]:
        limit = FORMAT_SIDES[picture_format]
        raise InputTooManyPixels(
            f"{picture.width} x {picture.height} pixels; a {picture_format} has at most {limit} a side"
        )
    target = io.BytesIO()
    if picture_format == "jpeg":
        Image.fromarray(flatten(picture, (255, 255, 255)).rgb).save(target, "JPEG", quality=quality, optimize=True)
        return target.getvalue()
    layers = picture.rgb if picture.alpha is None else np.dstack([picture.rgb, picture.alpha])
    image = Image.fromarray(np.ascontiguousarray(layers))
    if picture_format == "png":
        image.save(target, "PNG", compress_level=4)
    else:
        image.save(target, "WEBP", quality=quality, method=3)
    return target.getvalue()


def flatten(picture: Picture, color: tuple[int, int, int]) -> Picture:
    if picture.alpha is None:
        return picture
    weight = picture.alpha[:, :, None].astype(np.float32) / 255
    mixed = picture.rgb * weight + np.array(color, np.float32) * (1 - weight)
    return Picture(np.clip(mixed + 0.5, 0, 255).astype(np.uint8))
