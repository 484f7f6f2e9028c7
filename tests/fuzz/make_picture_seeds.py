#!/usr/bin/env python3
"""Writes the seeds of fuzz_jpeg and fuzz_png into corpus/ (needs Pillow): small files of each kind,
with the whole or a part to decode."""
import io
import pathlib

from PIL import Image

here = pathlib.Path(__file__).parent / "corpus"
whole, part = bytes([0, 0, 255, 255, 0]), bytes([90, 40, 99, 120, 0])
scaled = bytes([0, 0, 255, 255, 3])

picture = Image.new("RGB", (37, 29))
picture.putdata([(7 * x % 256, 9 * y % 256, x * y % 256) for y in range(29) for x in range(37)])
exif = Image.Exif()
exif[0x0112] = 6


def seed(folder, name, head, mode="RGB", **options):
    file = io.BytesIO()
    picture.convert(mode).save(file, folder, **options)
    (here / folder).mkdir(exist_ok=True)
    (here / folder / name).write_bytes(head + file.getvalue())


seed("jpeg", "h2v2", whole, quality=40, subsampling=2)
seed("jpeg", "h2v1-part", part, quality=40, subsampling=1)
seed("jpeg", "grey", whole, "L", quality=40)
seed("jpeg", "cmyk-part", part, "CMYK", quality=40)
seed("jpeg", "progressive", part, quality=40, progressive=True)
seed("jpeg", "turned-scaled", scaled, quality=40, exif=exif)
seed("jpeg", "restarts", whole, quality=40, restart_marker_blocks=2)
seed("png", "rgb", whole)
seed("png", "palette-part", part, "P")
seed("png", "grey-bits", whole, "1")
seed("png", "alpha", whole, "RGBA")
seed("png", "turned", part, exif=exif)
