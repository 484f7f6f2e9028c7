#!/usr/bin/env python3
"""Pictures as Pillow decodes them, which is how torchvision's ImageFolder reads them: photographs,
parts of them, and every kind of JPEG and PNG that Pillow writes. Skipped (77) where the
interpreter, PSR_PYTHON or python3, has no Pillow.

usage: test_image_peer.py DECODE_TOOL PHOTOGRAPHS"""

import io
import os
import random
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("PSR_PYTHON")
if PYTHON and PYTHON != sys.executable:
    os.execv(PYTHON, [PYTHON] + sys.argv)
try:
    from PIL import Image, ImageOps
except ImportError:
    print("skipped: this interpreter has no Pillow")
    sys.exit(77)


def ours(tool, files, part=()):
    """The decoded pictures: (height, width, bytes)."""
    said = io.BytesIO(subprocess.run([tool] + [str(word) for word in part] + files, check=True, stdout=subprocess.PIPE).stdout)
    for file in files:
        height, width = (int(number) for number in said.readline().split())
        if height == 0:
            raise SystemExit("%s: %s" % (file, said.readline().decode()))
        yield height, width, said.read(height * width * 3)


def theirs(file):
    return ImageOps.exif_transpose(Image.open(file)).convert("RGB")


def largest(a, b):
    return 0 if a == b else max(abs(x - y) for x, y in zip(a, b))


def compare(tool, files, what):
    """At most 1/255 apart, and of one size."""
    worst = 0
    for file, (height, width, pixels) in zip(files, ours(tool, files)):
        picture = theirs(file)
        if picture.size != (width, height):
            raise SystemExit("%s: %dx%d, Pillow has %dx%d" % ((file, width, height) + picture.size))
        worst = max(worst, largest(pixels, picture.tobytes()))
    print("%s: %d pictures, largest difference %d/255" % (what, len(files), worst))
    if worst > 1:
        sys.exit(1)


def write_kinds(folder):
    """One file of each kind. Returns their paths."""
    rgb = Image.new("RGB", (61, 43))
    rgb.putdata([((5 * x + y) % 256, (7 * y) % 256, (x * y) % 256) for y in range(43) for x in range(61)])
    files = []

    def save(name, mode, picture=rgb, **options):
        files.append(os.path.join(folder, name))
        (picture if picture.mode == mode else picture.convert(mode)).save(files[-1], **options)
    for mode in ("L", "RGB", "CMYK"):
        save(mode + ".jpeg", mode)
        save(mode + "-progressive.jpeg", mode, progressive=True)
    for sampling in (0, 1, 2):
        save("sampling%d.jpeg" % sampling, "RGB", subsampling=sampling)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save("turned%d.jpeg" % orientation, "RGB", exif=exif)
        save("turned%d.png" % orientation, "RGB", exif=exif)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        save(mode + ".png", mode)
    save("transparent.png", "P", transparency=3)
    save("pixel.png", "RGB", Image.new("RGB", (1, 1), (9, 8, 7)))
    save("pixel.jpeg", "RGB", Image.new("RGB", (1, 1), (9, 8, 7)))
    return files


def compare_parts(tool, files):
    dice = random.Random(7)
    for file in files:
        picture = theirs(file)
        height, width = dice.randint(1, picture.height), dice.randint(1, picture.width)
        top, left = dice.randint(0, picture.height - height), dice.randint(0, picture.width - width)
        (_, _, pixels), = ours(tool, [file], ["part", top, left, height, width, 0, 0])
        part = picture.crop((left, top, left + width, top + height))
        if largest(pixels, part.tobytes()) > 1:
            raise SystemExit("%s: rows %d +%d, columns %d +%d differ" % (file, top, height, left, width))
    print("%d parts: as those of the whole" % len(files))


def main():
    tool, photographs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        kinds = write_kinds(folder)
        compare(tool, kinds, "kinds")
        compare_parts(tool, kinds)
    if os.path.isdir(photographs):
        files = [os.path.join(photographs, name) for name in sorted(os.listdir(photographs)) if name.endswith(".JPEG")]
        compare(tool, files, "photographs")
        compare_parts(tool, files[::8])


if __name__ == "__main__":
    main()
