#!/usr/bin/env python3
"""The other side of test_networks_peer: networks_peer.py FOLDER CASE..

CASE is NAME:MODEL:SIZE:OPTIONS, OPTIONS like se=4,stem=small. For each, FOLDER/NAME.ours has
psring's parameters and statistics, FOLDER/NAME.images images, labels and the logits that psring has
for them in inference. The module of PyTorch, torchvision's where it has one, must take the first by
load_state_dict(strict=True) and have the same logits. Then it gets weights of its own, and
FOLDER/NAME.theirs its state_dict, for psring to take strictly (with OPTIONS half or module: of half
precision, or under DistributedDataParallel's names), FOLDER/NAME.wanted its logits, its loss in
training and its gradients ("gradient/NAME"). Exit status 77: no torch, torchvision or
safetensors."""
import sys

try:
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn
    from torchvision.models import resnet
    from torchvision.ops import SqueezeExcitation
except ImportError as missing:
    print(missing)
    sys.exit(77)
from torch.nn import functional as F

CLASSES = 10


class OptionA(nn.Module):
    """He et al. (2015), section 4.2: subsampling, and zero channels on both sides."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.before = stride, (outputs - inputs) // 2
        self.behind = outputs - inputs - self.before

    def forward(self, x):
        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.before, self.behind))


class CifarBlock(nn.Module):
    def __init__(self, inputs, width, stride, options):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.outputs = width
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != width:
            self.downsample = (
                nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))
                if options.get("shortcut") == "b" else OptionA(inputs, width, stride))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if hasattr(self, "se"):
            y = self.se(y)
        return F.relu(y + self.downsample(x))


class PreactivatedBlock(nn.Module):
    """He et al. (2016): a projection reads the first ReLU, option A the input."""

    def __init__(self, inputs, width, stride, options):
        super().__init__()
        bottleneck = options["depth"] == 164
        self.outputs = 4 * width if bottleneck else width
        shapes = ([(inputs, width, 1, 1), (width, width, 3, stride), (width, self.outputs, 1, 1)] if bottleneck
                  else [(inputs, width, 3, stride), (width, width, 3, 1)])
        for i, (c_in, c_out, kernel, step) in enumerate(shapes, 1):
            setattr(self, f"bn{i}", nn.BatchNorm2d(c_in))
            setattr(self, f"conv{i}", nn.Conv2d(c_in, c_out, kernel, step, kernel // 2, bias=False))
        self.layers, self.option_a = len(shapes), None
        if stride != 1 or inputs != self.outputs:
            if bottleneck or options.get("shortcut") == "b":
                self.downsample = nn.Sequential(nn.Conv2d(inputs, self.outputs, 1, stride, bias=False))
            else:
                self.option_a = OptionA(inputs, width, stride)

    def forward(self, x):
        first = F.relu(self.bn1(x))
        y = self.conv1(first)
        for i in range(2, self.layers + 1):
            y = getattr(self, f"conv{i}")(F.relu(getattr(self, f"bn{i}")(y)))
        if hasattr(self, "se"):
            y = self.se(y)
        if hasattr(self, "downsample"):
            return y + self.downsample(first)
        return y + (x if self.option_a is None else self.option_a(x))


class SmallResNet(nn.Module):
    def __init__(self, block, options):
        super().__init__()
        self.preactivated = block is PreactivatedBlock
        depth = options["depth"]
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        if not self.preactivated:
            self.bn1 = nn.BatchNorm2d(16)
        inputs = 16
        for stage, width in enumerate((16, 32, 64), 1):
            blocks = []
            for i in range((depth - 2) // (9 if depth == 164 else 6)):
                blocks.append(block(inputs, width, 2 if stage > 1 and i == 0 else 1, options))
                inputs = blocks[-1].outputs
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        if self.preactivated:
            self.bn = nn.BatchNorm2d(inputs)
        self.fc = nn.Linear(inputs, CLASSES)

    def forward(self, x):
        x = self.conv1(x)
        if not self.preactivated:
            x = F.relu(self.bn1(x))
        x = self.layer3(self.layer2(self.layer1(x)))
        if self.preactivated:
            x = F.relu(self.bn(x))
        return self.fc(x.mean((2, 3)))


class ResNet9(nn.Module):
    """Page (2018), with the names of cifar10-fast."""

    def __init__(self):
        super().__init__()
        for name, inputs, outputs in (("prep", 3, 64), ("layer1", 64, 128), ("layer1_residual_res1", 128, 128),
                                      ("layer1_residual_res2", 128, 128), ("layer2", 128, 256), ("layer3", 256, 512),
                                      ("layer3_residual_res1", 512, 512), ("layer3_residual_res2", 512, 512)):
            setattr(self, name + "_conv", nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False))
            setattr(self, name + "_bn", nn.BatchNorm2d(outputs))
        self.linear = nn.Linear(512, CLASSES, bias=False)

    def layer(self, x, name):
        return F.relu(getattr(self, name + "_bn")(getattr(self, name + "_conv")(x)))

    def forward(self, x):
        x = self.layer(x, "prep")
        for name in ("layer1", "layer2", "layer3"):
            x = F.max_pool2d(self.layer(x, name), 2)
            if name != "layer2":
                x = x + self.layer(self.layer(x, name + "_residual_res1"), name + "_residual_res2")
        return 0.125 * self.linear(F.max_pool2d(x, 4).flatten(1))


class AirbenchGroup(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Scaled(nn.Module):
    def forward(self, x):
        return x / 9


def airbench94():
    """Jordan (2024), with the names of cifar10-airbench."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 2), nn.GELU(), AirbenchGroup(24, 64), AirbenchGroup(64, 256), AirbenchGroup(256, 256),
        nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, CLASSES, bias=False), Scaled())


def basic_with_se(block, x):
    """torchvision's block, with squeeze and excitation before the addition."""
    y = block.relu(block.bn1(block.conv1(x)))
    y = block.bn2(block.conv2(y))
    if hasattr(block, "conv3"):
        y = block.bn3(block.conv3(block.relu(y)))
    return block.relu(block.se(y) + (x if block.downsample is None else block.downsample(x)))


def build(model, options):
    if model.startswith("preresnet"):
        net = SmallResNet(PreactivatedBlock, dict(options, depth=int(model.removeprefix("preresnet"))))
    elif model == "resnet9":
        net = ResNet9()
    elif model == "airbench94":
        net = airbench94()
    elif model.removeprefix("resnet") in ("20", "32", "44", "56", "110"):
        net = SmallResNet(CifarBlock, dict(options, depth=int(model.removeprefix("resnet"))))
    else:
        net = getattr(resnet, model)(num_classes=CLASSES)
        if options.get("stem") == "small":
            net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
            net.maxpool = nn.Identity()
    if "se" in options:
        for layer in (net.layer1, net.layer2, net.layer3, getattr(net, "layer4", ())):
            for block in layer:
                last = getattr(block, "conv3", block.conv2).out_channels
                block.se = SqueezeExcitation(last, max(1, last // int(options["se"])))
                if isinstance(block, resnet.BasicBlock) or isinstance(block, resnet.Bottleneck):
                    block.forward = basic_with_se.__get__(block)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = float(options.get("bn-momentum", 0.1))
            module.eps = float(options.get("bn-epsilon", 1e-5))
    return net


def near(found, wanted, relative, what):
    off = (found - wanted).norm() / wanted.norm()
    assert off < relative, f"{what}: off by {off:.3g} of its norm"


def check(folder, case):
    name, model, size, text = case.split(":")
    options = dict(word.partition("=")[::2] for word in text.split(",") if word)
    net = build(model, options).eval()
    net.load_state_dict(load_file(f"{folder}/{name}.ours"), strict=True)
    given = load_file(f"{folder}/{name}.images")
    images, labels = given["images"], given["labels"].long()
    with torch.no_grad():
        near(given["logits"], net(images), 1e-4, name)

    torch.manual_seed(7)
    with torch.no_grad():
        for key, tensor in net.state_dict().items():
            if key.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif key.endswith(("running_mean", ".bias")):
                tensor.normal_(0, 0.1)
            elif tensor.dim() == 1:
                tensor.uniform_(0.5, 1.5)
            elif tensor.dim() > 1:
                tensor.normal_(0, (2 / tensor[0].numel()) ** 0.5)
            if "half" in options and tensor.dim() > 0:
                tensor.copy_(tensor.to(torch.bfloat16 if tensor.dim() == 1 else torch.float16))
        wanted = {"logits": net(images)}
    state = {}
    for key, tensor in net.state_dict().items():
        if "half" in options and tensor.dim() > 0:
            tensor = tensor.to(torch.bfloat16 if tensor.dim() == 1 else torch.float16)
        state[("module." if "module" in options else "") + key] = tensor.clone()
    save_file(state, f"{folder}/{name}.theirs")

    net.train()
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    wanted["loss"] = loss.detach().reshape(1)
    for key, parameter in net.named_parameters():
        wanted["gradient/" + key] = parameter.grad
    for key, tensor in net.named_buffers():
        if tensor.dim() > 0:
            wanted["after/" + key] = tensor
    save_file(wanted, f"{folder}/{name}.wanted")


torch.set_num_threads(2)
for word in sys.argv[2:]:
    check(sys.argv[1], word)
