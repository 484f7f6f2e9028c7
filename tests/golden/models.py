"""psring's networks in PyTorch, under the same parameter names: torchvision's own for the ImageNet
family, the others written after their papers. Dropout is left out, so that runs can be compared
number by number."""
from torch import nn
from torch.nn import functional as F
from torchvision.models import resnet


class Mlp(nn.Module):
    def __init__(self, classes, channels, size):
        super().__init__()
        self.fc1 = nn.Linear(channels * size * size, 512)
        self.fc2 = nn.Linear(512, 512)
        self.fc3 = nn.Linear(512, classes)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class ConvNet(nn.Module):
    def __init__(self, classes, channels, size):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        side = ((size - 4) // 2 - 4) // 2
        self.fc1 = nn.Linear(20 * side * side, 50)
        self.fc2 = nn.Linear(50, classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class CifarBlock(nn.Module):
    """He et al. (2015), section 4.2, with the shortcut of option A: subsampling, and zero channels
    on both sides."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.extra = stride, outputs - inputs

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        before = self.extra // 2
        x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, before, self.extra - before))
        return F.relu(y + x)


class CifarResNet(nn.Module):
    def __init__(self, depth, classes, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inputs = 16
        for stage, width in enumerate((16, 32, 64), 1):
            blocks = []
            for block in range((depth - 2) // 6):
                blocks.append(CifarBlock(inputs, width, 2 if stage > 1 and block == 0 else 1))
                inputs = width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def build(name, classes, channels, size):
    if name == "mlp":
        return Mlp(classes, channels, size)
    if name == "convnet":
        return ConvNet(classes, channels, size)
    depth = int(name.removeprefix("resnet"))
    if depth in (20, 32, 44, 56, 110):
        return CifarResNet(depth, classes, channels)
    model = getattr(resnet, name)(num_classes=classes)
    if channels != 3:
        model.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
    return model
