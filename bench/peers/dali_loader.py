#!/usr/bin/env python3
"""Images a second of NVIDIA DALI's pipeline on processors alone, with one thread, from the same
files that bench_loader reads, and with the same augmentation (loader_peer.py). One line of JSON.
"""
import loader_peer as peer
import numpy
from nvidia.dali import fn, pipeline_def, types

BYTES = 255.0


def normalised(images, mean, deviation, **options):
    return fn.crop_mirror_normalize(images, mean=[BYTES * m for m in mean], std=[BYTES * d for d in deviation],
                                    dtype=types.FLOAT, output_layout="CHW", **options)


def flip():
    return fn.random.coin_flip(probability=0.5)


@pipeline_def
def crop_flip(arguments):
    """The files' planes CHW; a pixel outside is zero, as padding is."""
    _, pixels = peer.read_batches(arguments.data)
    order = numpy.random.permutation(len(pixels))
    images = fn.external_source(source=lambda at: pixels[order[at.idx_in_epoch % len(order)]], batch=False, layout="CHW")
    start = fn.random.uniform(range=(0, 9), shape=[2], dtype=types.INT32) - 4
    cropped = fn.slice(images, start=start, shape=[32, 32], axes=[1, 2], out_of_bounds_policy="pad")
    return normalised(fn.transpose(cropped, perm=[1, 2, 0], output_layout="HWC"), peer.CIFAR_MEAN, peer.CIFAR_DEVIATION, mirror=flip())


def files(arguments):
    folder = str(peer.pictures_of(arguments.data, arguments.pipeline))
    encoded, _ = fn.readers.file(file_root=folder, random_shuffle=arguments.pipeline != "evaluation", name="pictures")
    return encoded


@pipeline_def
def imagenet(arguments):
    """Only the crop is decoded."""
    images = fn.decoders.image_random_crop(files(arguments), device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
    resized = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
    return normalised(resized, peer.IMAGENET_MEAN, peer.IMAGENET_DEVIATION, mirror=flip())


@pipeline_def
def evaluation(arguments):
    images = fn.decoders.image(files(arguments), device="cpu")
    resized = fn.resize(images, resize_shorter=256, interp_type=types.INTERP_LINEAR, antialias=True)
    return normalised(resized, peer.IMAGENET_MEAN, peer.IMAGENET_DEVIATION, crop=(224, 224))


def batches(pipeline, arguments):
    taken = 0
    while taken < arguments.images:
        (images,) = pipeline.run()
        taken += len(images)
        yield len(images)


def main():
    arguments = peer.arguments_of(__doc__)
    made = {"crop-flip": crop_flip, "imagenet": imagenet, "evaluation": evaluation}[arguments.pipeline]
    pipeline = made(arguments, batch_size=arguments.batch_size, num_threads=1, device_id=None, seed=1)
    pipeline.build()
    peer.measure("DALI, processors alone", batches(pipeline, arguments))


if __name__ == "__main__":
    main()
