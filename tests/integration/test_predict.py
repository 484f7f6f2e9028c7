"""psring predict: what it prints, what it reads, and what it refuses by name.

usage: test_predict.py PSRING"""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PSRING = Path(sys.argv.pop(1))
QUICK = ["--model", "resnet20", "--image-size", "32", "--classes", "10", "--compute", "50"]


def predict(*words):
    return subprocess.run([PSRING, "predict", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)


def run_directory(folder, compute_s=0.02, lines=20):
    config = {"model": "resnet20", "batch-size": "16", "mode": "ring", "workers": "2"}
    facts = {"classes": 10, "channels": 3, "height": 32, "width": 32}
    (folder / "run.json").write_text(json.dumps({"config": config, "facts": facts}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": s, "rank": 0, "compute_s": compute_s}) + "\n" for s in range(lines)) + '{"torn')


def said(done):
    """What it says on stderr, but for the address sanitizer's line about makecontext."""
    return "".join(line for line in done.stderr.splitlines(True) if "ASan doesn't fully support makecontext" not in line)


class Predict(unittest.TestCase):
    def refused(self, line, *words, status=2):
        done = predict(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(line, done.stderr)

    def test_a_table_fits_into_80_columns_and_names_the_best(self):
        done = predict(*QUICK, "--hosts", "2,4,200", "--loss", "0.01%")
        self.assertEqual((done.returncode, said(done)), (0, ""))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertEqual(len(re.findall(r"^\s+\d+ \*", done.stdout, re.M)), 3, done.stdout)
        self.assertIn("limited by", done.stdout)
        self.assertIn("--compute", done.stdout)

    def test_json_has_all_of_it_and_is_the_same_twice(self):
        words = [*QUICK, "--hosts", "2,4", "--shards", "1,2", "--json"]
        done = predict(*words)
        self.assertEqual(predict(*words).stdout, done.stdout)
        told = json.loads(done.stdout)
        rows = [(p["hosts"], p["mode"], p.get("shards"), p.get("placement")) for p in told["predictions"]]
        self.assertEqual(rows[:5], [(2, "ring", None, None), (2, "ps", 1, "beside"), (2, "ps", 1, "dedicated"), (2, "ps", 2, "beside"), (2, "ps", 2, "dedicated")])
        for p in told["predictions"]:
            self.assertEqual(p["by"], "machines")
            self.assertAlmostEqual(p["images_per_s"], p["workers"] * told["batch_size"] / p["step_s"], delta=1e-6 * p["images_per_s"])
        for hosts in (2, 4):
            of = [p for p in told["predictions"] if p["hosts"] == hosts]
            self.assertEqual([p["best"] for p in of].count(True), 1)
            self.assertEqual(min(of, key=lambda p: p["step_s"])["best"], True)
        self.assertIn("link", [e["option"] for e in told["effects"]])

    def test_thousands_of_workers_go_by_the_one_link_model(self):
        told = json.loads(predict("--compute", "300", "--hosts", "4096", "--json").stdout)
        self.assertEqual({p["by"] for p in told["predictions"]}, {"one-link"})

    def test_a_run_says_what_is_trained(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run_directory(folder)
            told = json.loads(predict(name, "--hosts", "2", "--json").stdout)
            self.assertEqual((told["model"], told["batch_size"], told["compute_s"]), ("resnet20", 16, 0.02))
            (folder / "metrics.jsonl").write_text('{"step": 1}\n')
            self.refused("metrics.jsonl: no line has a compute_s above 0", name)
            (folder / "run.json").write_text("{}")
            self.refused("run.json: it has no config", name)
            (folder / "run.json").write_text("{")
            self.refused("run.json: it is no JSON object", name)
            self.refused("none/run.json", str(folder / "none"))

    def test_doctor_says_what_the_cluster_is(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            pairs = [{"from": "a", "to": "b", "bytes_per_s": 12.5e6, "round_trip_ns": 300000}]
            file.write(json.dumps({"hosts": [{}, {}, {}], "pairs": pairs}))
            file.flush()
            told = json.loads(predict(*QUICK, "--doctor", file.name, "--json").stdout)
            self.assertEqual((told["link_bits_per_s"], told["predictions"][0]["hosts"]), (100e6, 3))
            self.assertAlmostEqual(told["latency_s"], 110e-6)
            file.seek(0)
            file.truncate()
            file.write('{"hosts": [], "pairs": []}')
            file.flush()
            self.refused("it has no way between two hosts that was measured", *QUICK, "--doctor", file.name)

    def test_numbers_that_make_no_sense_are_refused_by_name(self):
        for option, value, line in [
                ("--hosts", "0", "give numbers from 1 to 65536"), ("--hosts", "4,2", "ascending order"), ("--hosts", "2,x", "--hosts '2,x'"),
                ("--link", "0Mbit", "--link 0Mbit"), ("--link", "100", "with its unit"), ("--link", "-1Gbit", "--link -1Gbit"),
                ("--link", "nan", "--link 'nan'"), ("--loss", "0.7", "at most half"), ("--loss", "-1", "--loss -1"),
                ("--compute", "-5", "--compute -5"), ("--compute", "5s", "without a unit"), ("--latency", "inf", "--latency 'inf'"),
                ("--shards", "300", "from 1 to 256"), ("--placement", "moon", "beside, dedicated or both"), ("--by", "magic", "one-link"), ("--mode", "tree", "ps, ring or both"),
                ("--tcp-window", "100", "less than one segment"), ("--workers-per-host", "0", "workers-per-host"),
                ("--model", "resnet51", "resnet51"), ("--compress", "zip", "zip"), ("--copy-ns", "1e99", "--copy-ns 1e99")]:
            with self.subTest(option=option, value=value):
                self.refused(line, *QUICK, f"{option}={value}")
        self.refused("--compute: how long a step computes is not known", "--hosts", "2")
        self.refused("at most 1024", *QUICK, "--hosts", "2000", "--by", "machines")
        self.refused("one run directory is enough", "a", "b")

    def test_help_has_examples(self):
        done = predict("--help")
        self.assertEqual((done.returncode, said(done)), (0, ""))
        self.assertIn("psring predict runs/resnet50 --hosts 2,4,8 --link 10Gbit", done.stdout)


class Thousand(unittest.TestCase):
    def test_a_thousand_workers_of_resnet50_fit_into_a_gigabyte(self):
        words = ["predict", "--compute", "300", "--hosts", "1000", "--shards", "8", "--slice-size", "1M", "--placement", "dedicated", "--link", "10Gbit",
                 "--by", "machines", "--mode", "ps", "--json"]
        code = "import resource, subprocess, sys; d = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); print(d.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        done = subprocess.run([sys.executable, "-c", code, PSRING, *words], capture_output=True, text=True, timeout=900, check=True)
        status, kilobytes = map(int, done.stdout.split())
        self.assertEqual(status, 0, done.stderr)
        self.assertLess(kilobytes, 1 << 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
