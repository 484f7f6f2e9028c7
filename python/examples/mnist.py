#!/usr/bin/env python3
"""Trains a small network on MNIST or Fashion-MNIST with PyTorch, by as many processes as a launcher
starts, and two parameter servers. The five lines with a comment are all that differs from a program
for one process.

    psring run -n 2 --shards 2 -- python3 mnist.py --data DIR
    torchrun --nproc-per-node 2 mnist.py --data DIR
    mpirun -n 2 python3 mnist.py --data DIR

DIR has the files of the data set, such as train-images-idx3-ubyte.gz, packed or not."""

import argparse
import gzip
import pathlib

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

import psring.torch as psring  # 1


def read(folder, name):
    """A tensor of a file in MNIST's format: two zeros, a type, the number of dimensions, their
    lengths, values."""
    path = pathlib.Path(folder, name)
    data = path.read_bytes() if path.exists() else gzip.decompress(pathlib.Path(folder, name + ".gz").read_bytes())
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data[4 + 4 * data[3]:]), dtype=torch.uint8).view(shape)


def dataset(folder, part):
    images = read(folder, part + "-images-idx3-ubyte").unsqueeze(1).float().div_(255)
    return TensorDataset(images, read(folder, part + "-labels-idx1-ubyte").long())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 10, 5), torch.nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = torch.nn.Linear(320, 50), torch.nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="DIR", help="the folder of the data set")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="steps (default 200)")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="of each process (default 64)")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate (default 0.02)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes that load data (default 0)")
    given = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(1)
    psring.init(shards=2)  # 2: joins the others; starts the servers if the launcher has not
    train, test = dataset(given.data, "train"), dataset(given.data, "t10k")
    train = Subset(train, range(psring.rank(), len(train), psring.size()))  # 3: its share
    loader = DataLoader(train, given.batch_size, shuffle=True, num_workers=given.workers)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=given.lr, momentum=0.5)
    psring.broadcast_parameters(model.state_dict())  # 4: all begin with rank 0's weights
    optimizer = psring.DistributedOptimizer(optimizer, mode="ps", sync="bsp")  # 5: or mode="ring"

    step = 0
    while step < given.steps:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print("step %d: loss %.4f" % (step, loss.item()), flush=True)
            if step == given.steps:
                break

    with torch.no_grad():
        images, labels = test.tensors
        print("accuracy %.4f" % (model(images).argmax(1) == labels).float().mean().item())


if __name__ == "__main__":
    main()
