"""Two nodes on this machine, n1 and n2: each with network, host name and /etc/hosts of its own,
joined by a cable. with Nodes(directory) as nodes: they go with the block, or with the test, however
that ends. Needs root; Nodes.missing says what else is not there."""

import os
import shutil
import subprocess

from psring_run import outlived

PATIENCE_S = 60
ENTER = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'


class Nodes:
    names = ("n1", "n2")
    addresses = ("10.79.0.1", "10.79.0.2")

    def __init__(self, directory, hosts=tuple(zip(names, addresses))):
        """hosts: (name, address) of what /etc/hosts has."""
        self.spaces = ["%s%s-%d" % (outlived.name(), name, id(self) % 10000) for name in self.names]
        self.hosts = os.path.join(directory, "etc_hosts-%d" % (id(self) % 10000))
        self.made = []
        with open(self.hosts, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines("%s %s\n" % (address, name) for name, address in hosts)

    @staticmethod
    def missing():
        if os.geteuid() != 0:
            return "nodes with networks of their own need root"
        absent = [tool for tool in ("ip", "nsenter", "unshare") if shutil.which(tool) is None]
        if absent:
            return "%s is not installed" % absent[0]
        made = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, text=True, timeout=PATIENCE_S)
        return made.stderr.strip() if made.returncode != 0 else None

    def __enter__(self):
        try:
            for space in self.spaces:
                self.ip("netns", "add", space)
                self.made.append(space)
                self.ip("-n", space, "link", "set", "lo", "up")
            self.ip("-n", self.spaces[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.spaces[1])
            for space, address in zip(self.spaces, self.addresses):
                self.ip("-n", space, "addr", "add", address + "/24", "dev", "eth0")
                self.ip("-n", space, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for space in self.made:
            self.ip("netns", "del", space)
        os.unlink(self.hosts)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, timeout=PATIENCE_S)

    def on(self, node, command):
        """The words that run command on the node: 0 or 1. Not ip netns exec, which mounts a /sys
        without control groups: slurmd wants those."""
        return ["nsenter", "--net=/run/netns/" + self.spaces[node], "unshare", "--mount", "--uts", "sh", "-c", ENTER, "sh", self.names[node], self.hosts, *command]
