"""Untrusted input (R-WRK-4): refused by its header, or decoded upright into clean pixels."""

from __future__ import annotations

import contextlib
import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.worker import samples
from worker import png_data
from worker.errors import (
    AttemptFailed,
    InputAnimated,
    InputTooLarge,
    InputTooManyPixels,
    InputTypeUnknown,
    InputUndecodable,
)
from worker.pictures import Limits, Picture, check, decode, encode

LIMITS = Limits(max_bytes=2_000_000, max_pixels=4_000_000)


@pytest.mark.parametrize("picture_format", ["png", "jpeg", "webp"])
def test_a_picture_survives_encoding_and_decoding(picture_format):
    source = decode(samples.png(200, 120), LIMITS)
    again = decode(encode(source, picture_format, 95), LIMITS)
    assert (again.width, again.height, again.alpha) == (200, 120, None)
    assert np.abs(again.rgb.astype(int) - source.rgb).mean() < 8


@pytest.mark.parametrize("picture_format", ["png", "webp"])
def test_transparency_survives(picture_format):
    alpha = np.zeros((40, 60), np.uint8)
    alpha[10:30, 10:50] = 255
    again = decode(encode(Picture(np.full((40, 60, 3), 90, np.uint8), alpha), picture_format, 90), LIMITS)
    assert again.alpha is not None
    assert np.array_equal(again.alpha, alpha)


def test_jpeg_of_a_cutout_has_white_background():
    picture = Picture(np.zeros((32, 32, 3), np.uint8), np.zeros((32, 32), np.uint8))
    assert decode(encode(picture, "jpeg", 95), LIMITS).rgb.min() > 250


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"GIF89a" + bytes(50),
        b"%PDF-1.7",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"BM" + bytes(60),
    ],
)
def test_other_types_are_refused_by_their_first_bytes(data):
    with pytest.raises(InputTypeUnknown):
        decode(data, LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        samples.png_bomb(),
        samples.jpeg_claiming(60_000, 60_000),
        samples.webp_claiming(16_000_000, 16_000_000),
        samples.jpeg_claiming(30_000, 20),
    ],
)
def test_a_bomb_is_refused_by_its_header(data):
    with pytest.raises(InputTooManyPixels):
        check(data, LIMITS)


def test_endless_text_chunk_is_not_inflated():
    data = samples.png_text_bomb()
    assert len(data) < 300_000
    tracemalloc.start()
    with contextlib.suppress(InputUndecodable):  # it may be skipped or refused, but not inflated to 200 MB
        decode(data, LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 1024 * 1024


def test_data_beyond_the_header_size_are_refused():
    data = samples.png_of(bytes(300_000_000))
    assert len(data) < 400_000
    tracemalloc.start()
    with pytest.raises(InputUndecodable, match="more data than its header says"):
        decode(data, LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * 1024 * 1024


def test_one_extra_row_of_data_is_accepted():
    rows = 48 * (64 * 3 + 1)
    assert decode(samples.png_of(bytes(rows + 200)), LIMITS).height == 48
    with pytest.raises(InputUndecodable):
        decode(samples.png_of(bytes(rows - 1)), LIMITS)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
@pytest.mark.parametrize("size", [(17, 23), (64, 48)])
@pytest.mark.parametrize("is_interlaced", [False, True])
def test_png_of_any_type_has_the_computed_size(mode, size, is_interlaced):
    image = Image.new("L", size, 128)
    data = samples.saved(Image.new("I;16", size, 9) if mode == "I;16" else image.convert(mode), "PNG")
    if is_interlaced:  # Pillow writes no interlaced files: the same header with passes announces another size
        body = zlib.compress(bytes(png_data.announced_bytes(data[:28] + b"\1" + data[29:])))
        header = samples.chunk(b"IHDR", data[16:28] + b"\1")
        palette = data[33 : data.index(b"IDAT") - 4]
        data = data[:8] + header + palette + samples.chunk(b"IDAT", body) + samples.chunk(b"IEND", b"")
    picture = decode(data, LIMITS)  # Pillow would raise for fewer bytes
    assert (picture.width, picture.height) == size


def test_too_many_bytes_are_refused_before_reading():
    with pytest.raises(InputTooLarge):
        check(bytes(LIMITS.max_bytes + 1), LIMITS)


@pytest.mark.parametrize("picture_format", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_picture_is_refused(picture_format, share):
    noise = np.random.default_rng(1).integers(0, 256, (120, 120, 3), dtype=np.uint8)
    whole = samples.saved(Image.fromarray(noise), picture_format)
    with pytest.raises(InputUndecodable):
        decode(whole[: int(len(whole) * share)], LIMITS)


@pytest.mark.parametrize("picture_format", ["PNG", "WEBP"])
def test_an_animation_is_refused(picture_format):
    with pytest.raises(InputAnimated):
        check(samples.animated(picture_format), LIMITS)


def test_a_tiny_picture_is_refused():
    with pytest.raises(InputUndecodable):
        check(samples.png(8, 8), LIMITS)


def test_frame_larger_than_its_header_is_refused():
    data = bytearray(samples.png(64, 64))
    data[16:24] = struct.pack(">II", 32, 32)
    with pytest.raises(InputUndecodable):
        decode(bytes(data), LIMITS)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation):
    upright = Image.new("RGB", (60, 40), "blue")
    upright.paste("red", (0, 0, 30, 20))
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(undo[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = decode(samples.saved(stored, "JPEG", exif=exif, quality=95), LIMITS)
    assert (picture.width, picture.height) == (60, 40)
    assert picture.rgb[8, 12, 0] > 180
    assert picture.rgb[32, 48, 2] > 180


@pytest.mark.parametrize(("picture_format", "side"), [("webp", 16_384), ("jpeg", 65_501)])
def test_result_too_long_for_its_format_is_refused(picture_format, side):
    with pytest.raises(InputTooManyPixels, match="a side"):
        encode(Picture(np.zeros((16, side, 3), np.uint8)), picture_format, 90)


@pytest.mark.parametrize("picture_format", ["png", "jpeg", "webp"])
def test_no_metadata_of_an_input_reaches_an_output(picture_format):
    exif = Image.Exif()
    exif[0x010F] = "SECRET-CAMERA"
    exif.get_ifd(0x8825)[1] = "SECRET-PLACE"
    source = samples.saved(
        Image.new("RGB", (64, 64), "red"), "JPEG", exif=exif, icc_profile=b"SECRET-PROFILE" * 20, comment=b"SECRET-NOTE"
    )
    assert source.count(b"SECRET") > 3
    made = encode(decode(source, LIMITS), picture_format, 90)
    assert b"SECRET" not in made
    with Image.open(io.BytesIO(made)) as image:
        assert not image.getexif()
        assert "icc_profile" not in image.info


def test_a_wide_gamut_picture_is_brought_to_srgb():
    from PIL import ImageCms

    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = decode(samples.saved(Image.new("RGB", (32, 32), (200, 100, 50)), "PNG", icc_profile=lab), LIMITS)
    assert np.abs(picture.rgb[0, 0].astype(int) - (200, 100, 50)).max() <= 2


@pytest.mark.parametrize("mode", ["L", "P", "LA", "CMYK", "1", "I;16"])
def test_every_pixel_mode_becomes_rgb(mode):
    image = Image.new("L", (32, 32), 128)
    image = Image.new("I;16", (32, 32), 128 * 257) if mode == "I;16" else image.convert(mode)
    data = samples.saved(image, "JPEG" if mode == "CMYK" else "PNG")
    picture = decode(data, LIMITS)
    assert picture.rgb.shape == (32, 32, 3)
    assert 90 < picture.rgb.mean() < 170


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["PNG", "JPEG", "WEBP"]), st.data())
def test_damaged_bytes_are_either_decoded_or_refused(picture_format, data):
    whole = bytearray(samples.saved(Image.linear_gradient("L").resize((48, 48)).convert("RGB"), picture_format))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(AttemptFailed):  # anything else that decoding raises fails this test
        assert decode(bytes(whole), LIMITS).pixels <= LIMITS.max_pixels
