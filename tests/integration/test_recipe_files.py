#!/usr/bin/env python3
"""psring train --recipe: files with options, of the user's own and installed ones.

usage: test_recipe_files.py PSRING files|installed FOLDER
  files      what a file may say, and that the command line wins
  installed  FOLDER's recipes are those that --recipe list has, and all of their options exist"""

import json
import os
import subprocess
import sys

from psring_run import PATIENCE_S, Tap, Workspace

GOOD = """# A small run
# with a comment

--model mlp
--data=synthetic:count=96,test=16,channels=1,size=8
  --workers 2
--batch-size\t8
--lr 0.25
--nesterov
--no-eval
--steps 4
"""

# [what the file says, what must be in the refusal]
REFUSED = [
    ("--model mlp\n--lr 0.1\n--lr 0.2\n", ", line 3: --lr stands there twice"),
    ("\nmodel mlp\n", ", line 2: 'model mlp' is no option; options begin with --"),
    ("--learning-rat 0.1\n", ", line 1: "),
    ("--lr fast\n", ", line 1: --lr: 'fast' is not a number"),
    ("--lr\n", ", line 1: --lr: its value is missing; give --lr"),
    ("--nesterov yes\n", ", line 1: --nesterov takes no value"),
    ("--out /tmp/here\n", ", line 1: --out is taken from the command line alone"),
    ("--no-encrypt trusted-network\n", ", line 1: --no-encrypt is taken from the command line alone"),
    ("--fault-point worker:0:forward:1\n", ", line 1: --fault-point is taken from the command line alone"),
    ("--model mlp\n\0", "not a text"),
]


def train(psring, *words):
    return subprocess.run([psring, "train", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S)


def tells(done):
    return [" ".join(done.args), str(done.returncode), done.stdout, done.stderr]


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def config_of(out):
    """As texts, whether run.json has texts or numbers and booleans."""
    with open(os.path.join(out, "run.json")) as file:
        config = json.load(file)["config"]
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in config.items()}


def files(tap, psring, directory, folder):
    recipe, out = write(directory, "small.recipe", GOOD), os.path.join(directory, "run")
    done = train(psring, "--recipe", recipe, "--out", out, "--lr", "0.5", "--epochs", "1", "--mode", "ring")
    if tap.ok(done.returncode == 0, "a recipe of the user's own runs", tells(done)):
        config = config_of(out)
        wanted = {"model": "mlp", "workers": "2", "batch-size": "8", "nesterov": "true", "eval": "false", "mode": "ring"}
        tap.ok({name: config[name] for name in wanted} == wanted, "run.json has its options and the command line's", [str(config)])
        tap.ok(config["lr"] == "0.5" and config["steps"] == "0" and config["epochs"] == "1",
               "the command line wins, also with what excludes an option of the recipe", [str(config)])
        told = done.stdout.splitlines()
        tap.ok("recipe " + recipe in told and "  --model mlp" in told and "  --lr 0.25, on the command line 0.5" in told,
               "the recipe is printed, and what the command line changed", told)
    for i, (text, refusal) in enumerate(REFUSED):
        done = train(psring, "--recipe", write(directory, "bad", text), "--out", os.path.join(directory, "bad-%d" % i))
        tap.ok(done.returncode == 2 and refusal in done.stderr and done.stderr.count("\n") == 1,
               "refused: " + refusal.removeprefix(", "), tells(done))
    done = train(psring, "--recipe", os.path.join(directory, "none.recipe"))
    tap.ok(done.returncode != 0 and "none.recipe" in done.stderr, "a file that is not there is named", tells(done))
    done = train(psring, "--recipe", "convnet-mnis")
    tap.ok(done.returncode == 2 and "(convnet-mnist?); give a file" in done.stderr and "or one of airbench94-cifar10, convnet-mnist, " in done.stderr,
           "a name that is not there is refused with the nearest and all names", tells(done))
    for other in ("--config", "--resume"):
        done = train(psring, "--recipe", recipe, other, out)
        tap.ok(done.returncode == 2 and "--recipe and " + other in done.stderr, "refused beside " + other, tells(done))


def installed(tap, psring, directory, folder):
    names = sorted(name.removesuffix(".recipe") for name in os.listdir(folder) if name.endswith(".recipe"))
    done = train(psring, "--recipe", "list")
    listed = sorted(line.split(" ", 1)[0] for line in done.stdout.splitlines())
    tap.ok(done.returncode == 0 and listed == names and len(names) > 6, "--recipe list has them all", tells(done))
    tap.ok(all(len(line.split(" ", 1)[1].strip()) > 10 for line in done.stdout.splitlines()), "and says what each is", tells(done))
    # What is checked last before a start is --out: a refusal of it says that all else is right.
    for name in names:
        done = train(psring, "--recipe", name, "--out", directory)
        tap.ok(done.returncode == 2 and "--out %s exists already" % directory in done.stderr,
               name + ": every option exists and fits the others", tells(done))


def main():
    psring, case, folder = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        {"files": files, "installed": installed}[case](tap, psring, directory, folder)
    return tap.end()


sys.exit(main())
