#!/usr/bin/env python3
"""Pixels of --augment beside torchvision's for the same parameters: test_augment_torchvision.py
PEER

PEER (augment_peer) makes pictures, takes them through a list of steps and says what each step drew;
torchvision.transforms.v2.functional does the same with these parameters. They must differ by one
level of 255 at most at every pixel. Where an operation takes the nearest neighbour, a position
between two pixels can go to either, so a thousandth of those pixels may differ by more.

It goes on with the Python that PSR_PYTHON names, where there is one. It is skipped
where there is no torchvision.
"""
import json
import os
import subprocess
import sys
import tempfile

if "PSR_PYTHON" in os.environ:
    other = os.environ.pop("PSR_PYTHON")
    os.execvp(other, [other, *sys.argv])
try:
    import numpy
    import torch
    from PIL import Image
    from torchvision.transforms.v2 import functional as F
    from torchvision.transforms.v2 import InterpolationMode, RandAugment
except ImportError as missing:
    print("1..0 # SKIP %s; PSR_PYTHON may name a Python that has torchvision" % missing)
    sys.exit(0)

BILINEAR = InterpolationMode.BILINEAR
# psr_operation_kind, by torchvision's names
OPERATIONS = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
              "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
NEAREST = set(OPERATIONS[1:6])
SAMPLES = 40

# list of steps, shape of the pictures; judge: PIL for images as torchvision's folders give them.
CASES = [
    ("crop:32:4,flip,resize:224:plain", (3, 32, 32), "tensor"),  # the CPU tutorial's
    ("crop:32:4,flip,resize:224", (3, 32, 32), "PIL"),
    ("flip:1,crop:24:2,crop:26:3", (1, 28, 28), "tensor"),
    ("flip:alternate,crop:32:2:reflect", (3, 32, 32), "tensor"),  # airbench94's
    ("crop:30:4,flip,crop:36:5:reflect,crop:33:1:reflect", (3, 32, 32), "tensor"),
    ("resize:40,crop:44:6:reflect,flip", (1, 32, 32), "PIL"),
    ("resize:64", (3, 150, 97), "PIL"),
    ("resize:64:plain", (3, 150, 97), "tensor"),
    ("random-resized-crop:96,flip", (3, 120, 160), "PIL"),
    ("random-resized-crop:96:0.5-1:1-2:plain", (3, 120, 160), "tensor"),
    ("resize-short:80,centre-crop:64", (3, 120, 160), "PIL"),
    ("centre-crop:51", (3, 40, 72), "tensor"),
    ("colour-jitter:0.4", (3, 32, 32), "tensor"),
    ("colour-jitter:0:0.4", (3, 32, 32), "tensor"),
    ("colour-jitter:0:0:0.4", (3, 32, 32), "tensor"),
    ("colour-jitter:0:0:0:0.5", (3, 32, 32), "tensor"),
    ("lighting:0.5", (3, 32, 32), "tensor"),
    ("rand-augment:1:17", (3, 48, 48), "tensor"),
    ("rand-augment:1:30", (1, 48, 48), "tensor"),
    ("trivial-augment", (3, 64, 64), "tensor"),
    ("random-erasing:0.7", (3, 32, 32), "tensor"),
    ("cutout:16", (3, 32, 32), "tensor"),
]


def as_image(picture, judge):
    if judge == "tensor":
        return torch.from_numpy(picture.copy())
    return Image.fromarray(picture.transpose(1, 2, 0) if len(picture) == 3 else picture[0])


def as_tensor(image):
    return image if isinstance(image, torch.Tensor) else F.pil_to_tensor(image)


def jittered(image, drawn):
    order, factors = drawn
    changes = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for which in order:
        image = changes[which](image, factors[which])
    return image


def followed(image, drawn):
    policy = RandAugment()
    for kind, magnitude in drawn:
        image = policy._apply_image_or_video_transform(image, OPERATIONS[kind], magnitude, InterpolationMode.NEAREST,
                                                       {torch.Tensor: None})
    return image


def expected(image, drawn, antialias):
    """What torchvision makes of an image by these steps, as float32 on the scale of bytes."""
    bilinear = dict(interpolation=BILINEAR, antialias=antialias)
    for name, value in drawn:
        if name == "crop":
            top, left, side, padding, mode = value
            image = F.crop(F.pad(image, [padding] * 4, padding_mode=mode), top, left, side, side)
        elif name == "flip":
            image = F.horizontal_flip(image) if value else image
        elif name == "resize":
            image = F.resize(image, [value, value], **bilinear)
        elif name == "resize-short":
            image = F.resize(image, [value], **bilinear)
        elif name == "centre-crop":
            image = F.center_crop(image, [value, value])
        elif name == "random-resized-crop":
            image = F.resized_crop(image, *value, [96, 96], **bilinear)
        elif name == "colour-jitter":
            image = jittered(image, value)
        elif name == "lighting":
            amount = torch.tensor(value, dtype=torch.float64).view(3, 1, 1)
            image = (image + 255 * amount).clamp(0, 255).round()
        elif name in ("rand-augment", "trivial-augment"):
            image = followed(image, value)
        else:
            image = as_tensor(image)
            image = F.erase(image.float(), *value, torch.zeros(1)) if value else image
    return as_tensor(image).to(torch.float32).numpy()


def judge_case(peer, steps, shape, judge):
    with tempfile.TemporaryDirectory() as folder:
        command = [peer, steps, *map(str, shape), str(SAMPLES), folder]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        pictures = numpy.fromfile(os.path.join(folder, "pictures"), numpy.uint8).reshape(SAMPLES, *shape)
        images = numpy.fromfile(os.path.join(folder, "images"), numpy.float32)
    images = images.reshape(SAMPLES, shape[0], -1)
    most, beyond, nearest, seen = 0, 0, 0, set()
    for picture, image, line in zip(pictures, images, lines):
        drawn = json.loads(line)
        theirs = expected(as_image(picture, judge), drawn, ":plain" not in steps).reshape(shape[0], -1)
        if theirs.shape != image.shape:
            return "shapes %s and %s" % (theirs.shape, image.shape)
        differ = numpy.abs(theirs - image)
        used = {OPERATIONS[o[0]] for name, value in drawn if name.endswith("-augment") for o in value}
        seen |= used
        if used & NEAREST:
            beyond += int((differ > 1.001).sum())
            nearest += differ.size
        else:
            most = max(most, float(differ.max()))
    print("# %s: at most %.4g levels%s%s" % (steps, most, ", %d of %d nearest neighbours differ" % (beyond, nearest)
                                              if nearest else "", "; " + " ".join(sorted(seen)) if seen else ""))
    if most > 1.001:
        return "differs by %g levels" % most
    if beyond > nearest / 1000:
        return "%d of %d pixels by the nearest neighbour differ" % (beyond, nearest)
    if "augment" in steps and len(seen) < 8:
        return "only %s were drawn" % seen
    return None


def main():
    failed = 0
    print("1..%d" % len(CASES))
    for number, (steps, shape, judge) in enumerate(CASES, 1):
        why = judge_case(sys.argv[1], steps, shape, judge)
        print("%s %d - %s on %s is torchvision's of a %s%s" % ("not ok" if why else "ok", number, steps, shape, judge,
                                                                 ": " + why if why else ""))
        failed += why is not None
    sys.exit(failed > 0)


main()
