#!/usr/bin/env python3
"""psring data: what it gets is whole or not there; a pack is the data set that it was made of, to
the same bits in every mode; what is damaged is named.

usage: test_data.py PSRING get|pack|cifar|large"""

import hashlib
import http.server
import io
import lzma
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import threading

from psring_run import PATIENCE_S, Run, Tap, Workspace, is_sanitized
from test_data_content import write_set

SPLITS = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


class Server:
    """Serves a folder on a port of 127.0.0.1 that the kernel gives. How: of a file's name, "whole"
    (also if it is not there), "cut" (the connection ends in the middle), or "held" (it stays open
    in the middle, and `held` is set, until the client goes). `asked` has each request: the file's
    name and its Range. ranges: whether it heeds that."""

    def __init__(self, folder, how=(), ranges=True):
        self.held, self.gone = threading.Event(), threading.Event()
        self.asked = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name, kind = self.path.strip("/"), dict(how).get(self.path.strip("/"), "whole")
                server.asked.append((name, self.headers.get("Range")))
                if not os.path.exists(os.path.join(folder, name)):
                    self.send_error(404)
                    return
                with open(os.path.join(folder, name), "rb") as file:
                    body = file.read()
                if ranges and self.headers.get("Range"):
                    first = int(self.headers["Range"][len("bytes="):].rstrip("-"))
                    if first >= len(body):
                        self.send_error(416)
                        return
                    self.send_response(206)
                    self.send_header("Content-Range", "bytes %d-%d/%d" % (first, len(body) - 1, len(body)))
                    body = body[first:]
                else:
                    self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if kind == "whole" else body[:len(body) // 2])
                self.wfile.flush()
                if kind == "held":
                    server.held.set()
                    self.connection.settimeout(PATIENCE_S)
                    if not self.connection.recv(1):
                        server.gone.set()
                self.close_connection = True

            def log_message(self, *unused):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.url = "http://127.0.0.1:%d" % self.http.server_address[1]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


class Data:
    """`psring data` with a home of its own."""

    def __init__(self, psring, directory):
        self.psring, self.home = psring, os.path.join(directory, "home")
        self.env = dict(os.environ, XDG_DATA_HOME=self.home, XDG_CACHE_HOME=self.home + "-cache")

    def start(self, *words, **more):
        return subprocess.Popen([self.psring, "data", *words], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **more)

    def __call__(self, *words, **more):
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def there(self):
        """Every path below the folder of data sets."""
        return sorted(os.path.relpath(os.path.join(root, name), self.home)
                      for root, folders, files in os.walk(self.home) for name in folders + files if root != self.home or name != "psring")


def write_checksums(folder, path):
    with open(path, "w") as file:
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as content:
                file.write("%s  %s\n" % (hashlib.sha256(content.read()).hexdigest(), name))
    return path


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


def little_memory(mib):
    """For preexec_fn: memory that a process may write, its threads' stacks among it."""
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))


def refused(tap, data, name, words, status, *parts, **more):
    """The command fails so, with one line that has the parts, and leaves nothing."""
    got, out, err = data(*words, **more)
    line = err.strip().splitlines()[-1] if err.strip() else ""
    tap.ok(got == status and all(part in line for part in parts), name + ": status %d, and one line says why" % status, [str(got), out, err])
    tap.ok(data.there() == [], name + ": nothing is left", data.there())


def kept(tap, data, name, words, status, files, *parts):
    """The command fails so, says that it keeps what has come, and does: files are in its hidden
    folder."""
    got, out, err = data(*words)
    line = err.strip().splitlines()[-1] if err.strip() else ""
    tap.ok(got == status and all(part in line for part in (*parts, "the same command continues")),
           name + ": status %d, and one line says why and what is kept" % status, [str(got), out, err])
    there = ["psring/.mnist.part"] + ["psring/.mnist.part/" + file for file in files]
    tap.ok(data.there() == sorted(there), name + ": what has come is kept, under no final name", data.there())


def continuing(tap, data, directory):
    """A broken download goes on where it ended."""
    site = write_set(os.path.join(directory, "site-of-ranges"), ending=".gz")
    get = ("get", "mnist", "--checksums", write_checksums(site, os.path.join(directory, "sums-of-ranges")))
    part = os.path.join(data.home, "psring", ".mnist.part", SPLITS[1] + ".part")
    size = os.path.getsize(os.path.join(site, SPLITS[1]))
    whole = sorted(["psring/mnist"] + ["psring/mnist/" + name for name in SPLITS])
    ends = []

    def broken(name):
        with Server(site, {SPLITS[1]: "cut"}) as server:
            kept(tap, data, name, (*get, "--url", server.url), 1, (SPLITS[0], SPLITS[1] + ".part"), SPLITS[1])

    def goes_on(name, asked, said, **how):
        with Server(site, **how) as server:
            status, out, err = data(*get, "--url", server.url)
        tap.ok(status == 0 and data.there() == whole and all(word in err for word in said), name, [out, err] + data.there())
        tap.ok(server.asked == asked + [(file, None) for file in SPLITS[2:]], name + ": that is what it asks for", server.asked)
        ends.append({file: open(os.path.join(data.home, "psring", "mnist", file), "rb").read() for file in SPLITS})
        shutil.rmtree(data.home)

    rest, all_of_it = (SPLITS[1], "bytes=%d-" % (size // 2)), (SPLITS[1], None)
    broken("a connection that is cut")
    with Server(os.path.join(directory, "home-of-nobody")) as server:
        kept(tap, data, "a server that has lost the file", (*get, "--url", server.url), 1, (SPLITS[0], SPLITS[1] + ".part"), "404")
    goes_on("a broken download continues with the bytes that are missing", [rest], ["continued after"])
    broken("cut again")
    goes_on("a server that does not know ranges: the file begins anew", [rest, all_of_it], [], ranges=False)
    broken("cut, and then spoilt")
    change_byte(part, 3)
    goes_on("a part that is not the file's: the checksum tells, and the file begins anew", [rest, all_of_it], ["begins anew"])
    broken("cut, and the part is the whole file")
    shutil.copyfile(os.path.join(site, SPLITS[1]), part)
    goes_on("a part that lacks nothing is taken", [(SPLITS[1], "bytes=%d-" % size)], ["continued after"])
    broken("cut, and the part is longer than the file")
    shutil.copyfile(os.path.join(site, SPLITS[0]), part)
    goes_on("a part that is too long begins anew", [(SPLITS[1], "bytes=%d-" % os.path.getsize(os.path.join(site, SPLITS[0]))), all_of_it], ["begins anew"])
    broken("cut, and what was whole is spoilt")
    change_byte(os.path.join(os.path.dirname(part), SPLITS[0]), 3)
    goes_on("a whole file that is spoilt is fetched again", [(SPLITS[0], None), rest], ["continued after"])
    site_files = {file: open(os.path.join(site, file), "rb").read() for file in SPLITS}
    tap.ok(all(end == site_files for end in ends) and len(ends) == 6, "each of them ends with the server's bytes")

    broken("cut, and then --from")
    status, out, err = data(*get, "--from", site)
    tap.ok(status == 0 and data.there() == whole, "--from clears what a download left", [out, err] + data.there())
    shutil.rmtree(data.home)


def getting(tap, data, directory):
    site = write_set(os.path.join(directory, "site"), ending=".gz")
    sums = write_checksums(site, os.path.join(directory, "sums"))
    get = ("get", "mnist", "--checksums", sums)

    with Server(os.path.join(directory, "home-of-nobody")) as server:
        refused(tap, data, "a file that the server has not", (*get, "--url", server.url), 1, SPLITS[0], "404")
        url = server.url
    refused(tap, data, "a server that is not there", (*get, "--url", url), 1, url)
    with Server(site) as server:
        refused(tap, data, "another file than the authors'", ("get", "mnist", "--url", server.url), 1, "SHA-256", "440fcabf73cc546f")
        refused(tap, data, "a file that may not be written", (*get, "--url", server.url), 1, "cannot be written", preexec_fn=small_files)
        refused(tap, data, "a data set of no known name", ("get", "mnits", "--url", server.url), 2, "mnits", "fashion-mnist")

    with Server(site, {SPLITS[2]: "held"}) as server:
        process = data.start(*get, "--url", server.url)
        held = server.held.wait(PATIENCE_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        tap.ok(held and process.returncode == 130 and server.gone.wait(PATIENCE_S), "Ctrl-C ends a download with status 130", [out, err])
        tap.ok("psring/.mnist.part/%s.part" % SPLITS[2] in data.there(), "Ctrl-C: what has come is kept", data.there())

        server.held.clear()
        process = data.start(*get, "--url", server.url)
        held = server.held.wait(PATIENCE_S)
        second = data(*get, "--url", server.url)
        tap.ok(held and second[0] == 1 and "another psring data get" in second[2], "two at the same time: the second is refused", second[1:])
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        tap.ok(not any("psring/mnist" in path for path in data.there()), "killed: nothing is under the final name", data.there())

    with Server(site) as server:
        status, out, err = data(*get, "--url", server.url + "/")
        rest = "bytes=%d-" % (os.path.getsize(os.path.join(site, SPLITS[2])) // 2)
        tap.ok(server.asked == [(SPLITS[2], rest), (SPLITS[3], None)], "killed: the next one continues", server.asked)
        whole = sorted(["psring/mnist"] + ["psring/mnist/" + name for name in SPLITS])
        tap.ok(status == 0 and data.there() == whole, "what is right is there as a whole", [out, err] + data.there())
        status, out, err = data(*get, "--url", server.url)
        tap.ok(status == 0 and "already" in out, "what is there is not fetched again", [out, err])
        status, out, err = data("get", "mnist", "--url", server.url)
        tap.ok(status == 2 and "its samples are not those of mnist" in err, "what is there and is not MNIST is said to be so", [out, err])

    status, out, err = data("ls")
    tap.ok(status == 0 and "psring/mnist, 120 + 30 pictures of 1x8x8, 10 classes" in out and "psring data get cifar100" in out,
           "ls tells what is where, and how to get the rest", [out, err])
    status, out, err = data("check", "mnist")
    tap.ok(status == 0 and "train: 120 pictures of 1 channel, 8x8" in out and "classes 10, of 12 to 12" in out, "check counts classes", [out, err])
    shutil.rmtree(data.home)

    status, out, err = data("get", "mnist", "--from", site)
    tap.ok(status == 1 and "SHA-256" in err and data.there() == [], "--from: other files than the authors' are refused", [out, err] + data.there())
    status, out, err = data(*get, "--from", site, "--to", os.path.join(data.home, "else"))
    tap.ok(status == 0 and os.path.isfile(os.path.join(data.home, "else", "mnist", SPLITS[3])), "--from and --to take files that are here", [out, err])
    shutil.rmtree(data.home)


def archives(tap, data, directory):
    """CIFAR-100 of black pictures in an archive as the author's."""
    site = os.path.join(directory, "archives")
    os.mkdir(site)
    with tarfile.open(os.path.join(site, "cifar-100-binary.tar.gz"), "w:gz", compresslevel=1) as archive:
        for name, count in (("train.bin", 50000), ("test.bin", 10000)):
            packed = lzma.compress(bytes(3074 * count), preset=0)
            entry = tarfile.TarInfo("cifar-100-binary/%s.xz" % name)
            entry.size = len(packed)
            archive.addfile(entry, io.BytesIO(packed))
    sums = write_checksums(site, os.path.join(directory, "sums-of-archives"))
    with Server(site) as server:
        status, out, err = data("get", "cifar100", "--url", server.url, "--checksums", sums)
    tap.ok(status == 0 and data.there() == ["psring/cifar100", "psring/cifar100/test.bin.xz", "psring/cifar100/train.bin.xz"],
           "an archive is unpacked, and not kept", [out, err] + data.there())


def change_byte(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))


def packing(tap, psring, data, directory):
    plain = write_set(os.path.join(directory, "plain"), ending=".xz")
    pack = os.path.join(directory, "made.pack")
    status, out, err = data("pack", plain, "-o", pack)
    tap.ok(status == 0 and "120 + 30 pictures" in out, "a data set is packed", [out, err])
    if is_sanitized(psring):
        tap.skip("without memory for all the threads that it was told, fewer read it", "a sanitizer reserves terabytes of address space")
    else:
        few, many = (data("check", plain, "--threads", threads, **more)
                     for threads, more in (("1", {}), ("64", {"preexec_fn": little_memory(128)})))
        tap.ok(few[0] == 0 and few == many, "without memory for all the threads that it was told, fewer read it", [str(few), str(many)])

    options = {"model": "mlp", "workers": 3, "batch-size": 8, "steps": 9, "threads": 1, "seed": 4, "hash": True, "eval-every": 9,
               "augment": "crop-flip"}
    modes = {"ps": {"mode": "ps", "shards": 2}, "ring": {"mode": "ring", "loader-threads": 3}, "local": {"mode": "local"}}
    right = Run(psring, directory, "of-files", dict(options, data=plain, mode="ring", **{"loader-threads": 1}))
    tap.ok(right.status == 0, "a run with the plain files ends with status 0", right.why())
    for name, mode in modes.items():
        run = Run(psring, directory, name, dict(options, data=pack, **{"checkpoint-every": 3}, **mode))
        if tap.ok(run.status == 0, name + ": a run with the pack ends with status 0", run.why()):
            tap.ok(run.hashes() == right.hashes(), name + " has the same bits with the pack", run.why())
    # An epoch has five steps: this is in its middle.
    checkpoint = os.path.join(directory, "ps", "checkpoints", "step-3")
    run = Run(psring, directory, "resumed", dict(options, data=pack, resume=checkpoint, mode="ring"))
    tap.ok(run.status == 0 and run.hashes() == {s: h for s, h in right.hashes().items() if s > 3},
           "a run that is resumed in the middle of an epoch goes on with the same bits", run.why())

    change_byte(pack, 512 + 8 * 8 * 7 + 3)
    status, out, err = data("check", pack)
    tap.ok(status == 1 and "made.pack: train picture 7 is damaged" in err and "broken 1" in out, "check names a damaged picture, with status 1",
           [str(status), out, err])
    run = Run(psring, directory, "damaged", dict(options, data=pack, mode="ring"))
    tap.ok(run.status == 2 and "made.pack: train picture 7 is damaged" in run.stderr, "a damaged picture ends a run, and is named", run.why())
    with open(pack, "r+b") as file:
        file.truncate(os.path.getsize(pack) - 1)
    run = Run(psring, directory, "cut", dict(options, data=pack, mode="ring"))
    tap.ok(run.status == 2 and "made.pack: truncated" in run.stderr, "a pack that was cut is refused by its name", run.why())
    status, out, err = data("pack", plain, "-o", os.path.join(directory, "plain.pack"), preexec_fn=small_files)
    tap.ok(status == 1 and "plain.pack: cannot be written" in err and not [f for f in os.listdir(directory) if "plain.pack" in f],
           "a pack that cannot be written is not there", [str(status), out, err])


LARGE_COUNT, LARGE_SIDE, LARGE_LIMIT = 1056, 1024, 900 << 20


def write_large(folder):
    """An IDX set whose training pixels, 1.03 GiB, are more than a process may have: sparse, and
    every eighth picture has bytes."""
    os.mkdir(folder)
    every_byte = bytes(range(256)) * (64 * LARGE_SIDE // 256 + 2)
    for split, count in (("train", LARGE_COUNT), ("t10k", 8)):
        with open(os.path.join(folder, split + "-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, LARGE_SIDE, LARGE_SIDE))
            for i in range(0, count, 8):
                file.seek(16 + i * LARGE_SIDE ** 2)
                file.write(every_byte[i % 256:][:64 * LARGE_SIDE])
            file.truncate(16 + count * LARGE_SIDE ** 2)
        with open(os.path.join(folder, split + "-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 4 for i in range(count)))
    return folder


def larger_than_memory(tap, psring, data, directory):
    """Every process of these runs may have less memory than the data has pixels: pages of mapped
    files are not counted there, as the kernel can drop them."""
    large, pack = write_large(os.path.join(directory, "large")), os.path.join(directory, "large.pack")
    resource.setrlimit(resource.RLIMIT_DATA, (LARGE_LIMIT, LARGE_LIMIT))
    with open(os.path.join(large, "train-images-idx3-ubyte"), "rb") as file:
        try:
            file.read()
            tap.ok(False, "the limit is in force: this process cannot read the file")
        except MemoryError:
            tap.ok(True, "the limit is in force: this process cannot read the file")
    options = {"model": "mlp", "augment": "resize:28", "workers": 2, "batch-size": 8, "steps": 6, "threads": 1, "seed": 4, "hash": True,
               "data": large}
    modes = {"ps": {"mode": "ps", "shards": 2}, "local": {"mode": "local"}, "ring": {"mode": "ring"}}
    hashes = {}
    for name, mode in modes.items():
        run = Run(psring, directory, name.replace(" ", "-"), dict(options, **mode))
        tap.ok(run.status == 0, "IDX files larger than memory train in " + name, run.why())
        hashes[name] = run.hashes() if run.status == 0 else None
    tap.ok(hashes["ring"] and all(h == hashes["ring"] for h in hashes.values()), "with one hash", [str(hashes)])
    status, out, err = data("pack", large, "-o", pack)
    tap.ok(status == 0, "they are packed", [out, err])
    run = Run(psring, directory, "packed", dict(options, data=pack, mode="ring"))
    tap.ok(run.status == 0 and run.hashes() == hashes["ring"], "and the pack trains to the same hash", run.why())
    images = os.path.join(large, "train-images-idx3-ubyte")
    subprocess.run(["gzip", "-1", images], check=True)
    run = Run(psring, directory, "gzip", dict(options, mode="ring"))
    tap.ok(run.status != 0 and "train-images-idx3-ubyte.gz" in run.stderr, "packed by gzip they are too large, and are named", run.why())


def cifar(tap, data, directory):
    """The pack of CIFAR-10 is CIFAR-10, made in memory for its pixels, 176 MiB, and for one file of
    them to be unpacked beside these."""
    files = os.path.join(os.environ.get("PSR_TEST_DATA", ""), "cifar-10-batches-bin")
    if not os.path.isdir(files):
        tap.skip("the pack of CIFAR-10 is CIFAR-10", "no " + files)
        return
    pack = os.path.join(directory, "cifar10.pack")
    packed, checked, plain = data("pack", files, "-o", pack, preexec_fn=little_memory(256)), data("check", pack), data("check", files)
    tap.ok(packed[0] == 0 and checked[0] == 0 and plain[0] == 0 and checked[1].splitlines()[1:] == plain[1].splitlines()[1:]
           and checked[1].split("content ")[1] == plain[1].split("content ")[1], "the pack of CIFAR-10 is CIFAR-10", [checked[1], plain[1]])


def main():
    psring, part = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        data = Data(psring, directory)
        if part == "get":
            getting(tap, data, directory)
            continuing(tap, data, directory)
            archives(tap, data, directory)
        elif part == "pack":
            packing(tap, psring, data, directory)
        elif part == "large":
            larger_than_memory(tap, psring, data, directory)
        else:
            cifar(tap, data, directory)
    tap.end()


if __name__ == "__main__":
    main()
