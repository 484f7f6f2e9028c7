#!/usr/bin/env python3
"""The other side of test_safetensors_peer: safetensors_peer.py OURS THEIRS

Reads OURS with the safetensors package and checks every value; where torchvision is there too,
resnet18 must take it by load_state_dict(strict=True). Then writes the same tensors to THEIRS,
beside one of another type. Element i of a float32 tensor called NAME is i % 1021 + len(NAME); an
int64 scalar is 12. Exit status 77: no safetensors or numpy.
"""
import sys

try:
    import numpy
    from safetensors.numpy import load_file, save_file
except ImportError as missing:
    print(missing)
    sys.exit(77)

ours, theirs = sys.argv[1:]
tensors = load_file(ours)
for name, tensor in tensors.items():
    if tensor.dtype == numpy.int64:
        assert tensor.shape == () and tensor == 12, name
    else:
        assert tensor.dtype == numpy.float32, name
        wanted = (numpy.arange(tensor.size) % 1021 + len(name)).astype(numpy.float32)
        assert (tensor.ravel() == wanted).all(), name

try:
    from safetensors.torch import load_file as load_torch
    from torchvision.models import resnet18
except ImportError as missing:
    print(f"without torchvision: {missing}")
else:
    resnet18(num_classes=10).load_state_dict(load_torch(ours), strict=True)
    print("torchvision's resnet18 took it, strict")

save_file({**tensors, "of.another.type": numpy.zeros((3,), dtype=numpy.float16)}, theirs, metadata={"note": "theirs"})
