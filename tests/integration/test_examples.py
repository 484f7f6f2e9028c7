#!/usr/bin/env python3
"""test_examples.py mlp|tables|slices|survive EXAMPLES-FOLDER PSRING PROGRAM..: the examples of
manual parallelism on several numbers of ranks. TAP."""
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from psring_run import is_sanitized

case, examples = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
psring = os.path.abspath(sys.argv[3])
programs = {pathlib.Path(p).name: os.path.abspath(p) for p in sys.argv[4:]}
MNIST = pathlib.Path(os.environ["PSR_TEST_DATA"]) / "mnist"
# The example's own loops take long under a sanitizer, which has seen all of them when the first
# loss is told.
STEPS = 20 if case == "mlp" and is_sanitized(psring) else 60
LOSS = re.compile(r"epoch: 1 step: (\d+), loss is (\d+\.\d+)$")


def run(launcher, ranks, *command, **options):
    return run_words(examples / launcher, ranks, *command, **options)


def run_words(*words, status=0, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == status, f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def losses_of(text):
    matches = [LOSS.match(line) for line in text.splitlines()]
    assert all(matches) and [int(m.group(1)) for m in matches] == list(range(20, STEPS + 1, 20)), text
    return [float(m.group(2)) for m in matches]


def expect_falling(losses, from_loss=math.log(10)):
    assert all(before > after for before, after in zip([from_loss] + losses, losses)), losses


def losses_are_equal(one, other):
    assert all(abs(a - b) <= 1e-5 for a, b in zip(one, other, strict=True)), (one, other)


def losses_by_files(folder, ranks):
    """Those of all ranks, each from the file that it printed to."""
    printed = [(folder / "log_output" / "1" / f"rank.{rank}" / "stdout").read_text(encoding="utf-8") for rank in range(ranks)]
    assert len(set(printed)) == 1, printed  # the sum's bits are the same on every rank
    shutil.rmtree(folder / "log_output")
    return losses_of(printed[0])


def losses_by_run_sh(folder, ranks, path):
    run("run.sh", ranks, programs["mlp"], MNIST, STEPS, cwd=folder, env={**os.environ, "PATH": str(path)})
    return losses_by_files(folder, ranks)


def tools_without_mpirun(folder):
    path = folder / "tools"
    path.mkdir()
    for tool in ("sh", "dirname", "mkdir", "mktemp", "rm"):
        (path / tool).symlink_to(shutil.which(tool))
    return path


# What run.sh needs of Open MPI's mpirun: each rank's place in these variables.
PLAYED_MPIRUN = """#!/bin/sh
[ "$1 $3 $4 $5" = "-n --oversubscribe --bind-to none" ] || exit 99
ranks=$2 rank=0 pids=
shift 5
while [ "$rank" -lt "$ranks" ]; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$ranks "$@" &
    pids="$pids $!" rank=$((rank + 1))
done
for pid in $pids; do wait "$pid" || exit 1; done
"""


def the_losses_of_1_2_4_and_8_ranks_are_equal_and_fall_by_every_launcher():
    with tempfile.TemporaryDirectory(prefix="psring-examples-") as name:
        folder = pathlib.Path(name)
        path = tools_without_mpirun(folder)
        alone = losses_by_run_sh(folder, 1, path)
        expect_falling(alone)
        losses_are_equal(alone, losses_by_run_sh(folder, 8, path))

        (path / "mpirun").write_text(PLAYED_MPIRUN, encoding="utf-8")
        (path / "mpirun").chmod(0o700)
        losses_are_equal(alone, losses_by_run_sh(folder, 2, path))

        run_words(psring, "run", "-n", 4, "--output-filename", "log_output", "--", programs["mlp"], MNIST, STEPS, cwd=folder)
        losses_are_equal(alone, losses_by_files(folder, 4))


def ranks_that_cannot_share_the_batch_say_so():
    done = run("run_ranks", 3, programs["mlp"], MNIST, STEPS, status=1)
    assert done.stderr.count("3 ranks cannot share a batch of 32") == 3 and done.stdout == "", done


def files_that_are_not_mnist_are_refused():
    with tempfile.TemporaryDirectory(prefix="psring-examples-") as name:
        images, labels = (pathlib.Path(name) / f"train-{what}-ubyte" for what in ("images-idx3", "labels-idx1"))
        head = lambda *words: b"".join(word.to_bytes(4, "big") for word in words)
        good_images, good_labels = head(0x803, 60000, 28, 28) + bytes(32 * 784), head(0x801, 60000) + bytes(32)
        for bad_images, bad_labels, word in [
                (None, good_labels, "cannot be read"),
                (good_images[:-1], good_labels, "cannot be read"),
                (head(0x803, 60000, 28, 29) + good_images[16:], good_labels, "cannot be read"),
                (head(0x803, 32, 28, 28) + good_images[16:], good_labels, "cannot be read"),
                (good_images, head(0x803, 60000) + good_labels[8:], "cannot be read"),
                (good_images, good_labels[:-1], "cannot be read"),
                (good_images, good_labels[:-1] + b"\n", "image 31 has the label 10")]:
            images.unlink(missing_ok=True)
            if bad_images is not None:
                images.write_bytes(bad_images)
            labels.write_bytes(bad_labels)
            done = run("run_ranks", 1, programs["mlp"], name, 1, status=1)
            assert word in done.stderr, (word, done.stderr)
        images.write_bytes(good_images)
        labels.write_bytes(good_labels)
        run("run_ranks", 1, programs["mlp"], name, 1)


def losses_by_tables(workers, shards, sync):
    words = [programs["parameter_server"], MNIST, sync, shards, STEPS]
    return losses_of(run("run_ranks", workers + shards, *words).stdout)


def in_bsp_the_losses_are_those_of_one_worker_and_their_bits_those_of_one_shard():
    alone = losses_by_tables(1, 1, "bsp")
    expect_falling(alone)
    for workers in (2, 4):
        losses = losses_by_tables(workers, 1, "bsp")
        losses_are_equal(alone, losses)
        assert losses_by_tables(workers, 2, "bsp") == losses


def without_bsp_the_losses_fall_as_well():
    alone = losses_by_tables(1, 1, "bsp")
    for sync in ("async", "ssp:2"):
        losses = losses_by_tables(2, 2, sync)
        expect_falling(losses)
        assert losses[-1] < 1.25 * alone[-1], (alone, losses)


def psring_run_starts_a_program_that_brings_its_own_shards():
    done = run_words(psring, "run", "-n", 3, "--", programs["parameter_server"], MNIST, "bsp", 1, STEPS)
    losses_are_equal(losses_of(done.stdout), losses_by_tables(2, 1, "bsp"))


def a_shard_less_run_says_what_is_missing():
    done = run("run_ranks", 2, programs["parameter_server"], MNIST, "bsp", 0, STEPS, status=1)
    assert done.stderr.count("there are no shards") == 2, done


def slices_are_equal_to_the_whole(program, results):
    for ranks in range(1, 5):
        done = run("run_ranks", ranks, programs[program])
        said = re.findall(r"^(\w+): differs from the unsliced one by at most (\S+)$", done.stdout, flags=re.M)
        assert [name for name, _ in said] == results and all(float(d) <= 1e-5 for _, d in said), (ranks, done.stdout)


def a_pair_of_layers_in_slices_is_equal_to_the_whole_pair_on_1_to_4_ranks():
    slices_are_equal_to_the_whole("tensor_parallel", ["y", "dx", "da", "db"])


def a_convolution_in_slices_is_equal_to_the_whole_one_on_1_to_4_ranks():
    slices_are_equal_to_the_whole("sliced_convolution", ["y", "dx", "dw"])


def more_ranks_than_the_image_can_be_cut_into_are_refused():
    done = run("run_ranks", 7, programs["sliced_convolution"], status=1)
    assert done.stderr.count("at most 6 ranks") == 7, done


def survive(ranks, *words, status=0):
    """Ranks and the step they go on from; losses by step."""
    done = run("run_ranks", ranks, programs["survive"], *words, env={**os.environ, "PSRING_DEADLINE_MS": "100000"}, status=status)
    groups = [tuple(map(int, g)) for g in re.findall(r"^ranks: (\d+), from step (\d+) on$", done.stdout, flags=re.M)]
    losses = [(int(step), float(loss)) for step, loss in re.findall(r"^step: (\d+), loss is (\S+)$", done.stdout, flags=re.M)]
    return groups, losses


def expect_groups(groups, *expected):
    """A rank that dies in a step may take with it what it sent last in the step before: the others
    have not taken that either then."""
    assert len(groups) == len(expected), groups
    for (ranks, step), (expected_ranks, died_in) in zip(groups, expected, strict=True):
        assert ranks == expected_ranks and died_in - 1 <= step <= died_in and step > 0, groups


def ranks_that_are_killed_leave_the_losses_as_they_are():
    groups, alone = survive(1, 100)
    assert groups == [(1, 1)] and [step for step, _ in alone] == [20, 40, 60, 80, 100], (groups, alone)
    assert alone[0][1] > 1 > 1e-3 > alone[-1][1], alone
    # run_ranks tells that two of them were killed
    groups, losses = survive(4, 100, 2, 30, 3, 60, status=1)
    expect_groups(groups, (4, 1), (3, 30), (2, 60))
    assert [step for step, _ in losses] == [step for step, _ in alone], losses
    losses_are_equal([loss for _, loss in alone], [loss for _, loss in losses])


def a_last_rank_goes_on_alone():
    groups, losses = survive(2, 40, 1, 25, status=1)
    expect_groups(groups, (2, 1), (1, 25))
    assert [step for step, _ in losses] == [20, 40], losses


TESTS = {
    "mlp": [the_losses_of_1_2_4_and_8_ranks_are_equal_and_fall_by_every_launcher, ranks_that_cannot_share_the_batch_say_so,
            files_that_are_not_mnist_are_refused],
    "tables": [in_bsp_the_losses_are_those_of_one_worker_and_their_bits_those_of_one_shard, without_bsp_the_losses_fall_as_well,
               psring_run_starts_a_program_that_brings_its_own_shards, a_shard_less_run_says_what_is_missing],
    "slices": [a_pair_of_layers_in_slices_is_equal_to_the_whole_pair_on_1_to_4_ranks,
               a_convolution_in_slices_is_equal_to_the_whole_one_on_1_to_4_ranks,
               more_ranks_than_the_image_can_be_cut_into_are_refused],
    "survive": [ranks_that_are_killed_leave_the_losses_as_they_are, a_last_rank_goes_on_alone],
}[case]

if case in ("mlp", "tables") and not MNIST.is_dir():
    print(f"1..0 # SKIP MNIST is not at {MNIST}")
    sys.exit(0)
print(f"1..{len(TESTS)}", flush=True)
failed = 0
for number, test in enumerate(TESTS, 1):
    try:
        test()
        print(f"ok {number} - {test.__name__}", flush=True)
    except Exception as error:  # each is said, and the next is run
        failed += 1
        print(f"not ok {number} - {test.__name__}", flush=True)
        for line in str(error).splitlines():
            print(f"# {line}", flush=True)
sys.exit(failed > 0)
