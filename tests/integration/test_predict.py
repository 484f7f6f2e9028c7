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


def run_directory(folder, compute_s=0.02, lines=20, step_s=None, **options):
    config = {"model": "resnet20", "batch-size": "16", "mode": "ring", "workers": "2", **options}
    whole = {"config": config, "facts": {"classes": 10, "channels": 3, "height": 32, "width": 32}}
    if step_s is not None:
        hosts = [{"host": "a", "workers": 1, "shards": 0}, {"host": "b", "workers": 1, "shards": 0}]
        together_s, drain_s = 1 + 19 * step_s, 0.9 * step_s
        whole["outcome"] = {"status": "ok", "exit_status": 0, "line": "done", "own_steps": 20, "train_s": together_s + drain_s,
                            "together_s": together_s, "drain_s": drain_s, "warmup_steps": 1, "warmup_s": 1,
                            "placement": {"shards": "beside", "hosts": hosts}}
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps(whole))
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
            whole = json.loads(predict(name, "--hosts", "2", "--json").stdout) if run_directory(folder) is None else None
            run_directory(folder, freeze="all-but:fc")
            told = json.loads(predict(name, "--hosts", "2", "--mode", "ring", "--json").stdout)
            self.assertEqual((told["bytes"], whole["bytes"] > 1e6), (4 * (64 * 10 + 16), True))

    def test_options_of_the_network_change_what_is_exchanged(self):
        def asked(*words):
            # of two hosts in a ring: resnet18's megabytes take seconds to emulate in every mode
            told = json.loads(predict(*QUICK, "--model", "resnet18", "--hosts", "2", "--mode", "ring", *words, "--json").stdout)
            return told["bytes"], min(p["step_s"] for p in told["predictions"])
        plain, small, squeezed, head = asked(), asked("--stem", "small"), asked("--se", "16"), asked("--freeze", "all-but:fc")
        self.assertLess(small[0], plain[0])
        self.assertGreater(squeezed[0], plain[0])
        self.assertLess(head[0], 30000)
        self.assertLess(head[1], plain[1])
        self.refused("has no layer or tensor 'layer9'", "--model", "resnet18", "--compute", "10", "--freeze", "layer9")
        self.refused("--stem", "--compute", "10", "--stem", "tiny")
        self.refused("--freeze * leaves nothing of resnet50 to train", "--compute", "10", "--freeze", "*")

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
                ("--link", "0Mbit", "--link '0Mbit'"), ("--link", "100", "with its unit"), ("--link", "-1Gbit", "--link '-1Gbit'"),
                ("--host-links", "1Gbit,,", "with its unit"), ("--slow", "0.5", "from 1 to 1000"), ("--processors", "-1", "processors"),
                ("--costs", "/nowhere/costs.json", "/nowhere/costs.json"), ("--profile", "/nowhere/profile", "/nowhere/profile"),
                ("--link", "nan", "--link 'nan'"), ("--loss", "0.7", "at most half"), ("--loss", "-1", "--loss -1"),
                ("--compute", "-5", "--compute -5"), ("--compute", "5s", "without a unit"), ("--latency", "inf", "--latency 'inf'"),
                ("--shards", "300", "from 1 to 256"), ("--placement", "moon", "beside, dedicated or both"), ("--by", "magic", "one-link"), ("--mode", "tree", "ps, ring or both"),
                ("--tcp-window", "100", "less than one segment"), ("--workers-per-host", "0", "workers-per-host"),
                ("--model", "resnet51", "resnet51"), ("--compress", "zip", "zip"), ("--copy-ns", "1e99", "--copy-ns 1e99")]:
            with self.subTest(option=option, value=value):
                self.refused(line, *QUICK, f"{option}={value}")
        self.refused("--compute: how long a step computes is not known", "--hosts", "2")
        self.refused("at most 1024", *QUICK, "--hosts", "2000", "--by", "machines")
        self.refused("one run is enough", "a", "b")
        self.refused("--beside: give the directories of runs", "--beside")
        self.refused("/nowhere/a.lab", "--lab", "/nowhere/a.lab")
        self.refused("--processors: the one-link model", *QUICK, "--processors", "2", "--hosts", "100")

    def test_costs_come_from_a_file_and_options_win(self):
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "costs.json"
            costs = {"message_us": 100, "copy_ns": 1, "seal_ns": 2, "fold_ns": 3, "update_ns": 4}
            file.write_text(json.dumps(costs))
            told = json.loads(predict(*QUICK, "--hosts", "2", "--costs", str(file), "--seal-ns", "7", "--json").stdout)
            self.assertEqual({e["option"]: round(e["value"], 9) for e in told["effects"] if e["option"].endswith(("-us", "-ns"))},
                             {"message-us": 100, "copy-ns": 1, "seal-ns": 7, "fold-ns": 3, "update-ns": 4})
            del costs["fold_ns"]
            file.write_text(json.dumps(costs))
            self.refused("it has no fold_ns", *QUICK, "--costs", str(file))

    def test_a_profile_says_when_gradients_are_ready(self):
        with tempfile.TemporaryDirectory() as name:
            sizes = {"fc1.weight": 512 * 784, "fc1.bias": 512, "fc2.weight": 512 * 512, "fc2.bias": 512, "fc3.weight": 10 * 512, "fc3.bias": 10}
            tensors = [{"name": t, "bytes": 4 * count, "forward_s": 0.01, "backward_s": 0.02} for t, count in sizes.items()]
            file = Path(name) / "profile.json"
            file.write_text(json.dumps({"format": "psring profile 1", "network": "mlp", "machine": "m", "batch": 16, "threads": 1, "rest_s": 0, "tensors": tensors}))
            words = ["--model", "mlp", "--image-size", "28", "--channels", "1", "--classes", "10", "--batch-size", "32", "--hosts", "2", "--profile", str(file), "--json"]
            told = json.loads(predict(*words).stdout)
            self.assertAlmostEqual(told["compute_s"], 2 * 0.03 * len(tensors))
            self.refused("profile.json", *QUICK, "--profile", str(file), status=2)

    def test_a_lab_says_what_the_cluster_is(self):
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "a.lab"
            file.write_text("default rate=100Mbit\nhost a\nhost b\nhost c\nhost ps[1-2] shards=1 rate=1Gbit\n")
            told = json.loads(predict(*QUICK, "--lab", str(file), "--json").stdout)
            rows = [(p["hosts"], p["mode"], p.get("shards"), p.get("placement")) for p in told["predictions"]]
            self.assertEqual(rows, [(3, "ring", None, None), (3, "ps", 2, "dedicated")])
            self.assertEqual(told["link_bits_per_s"], 100e6)
            file.write_text("host a\n")
            self.refused("a.lab:1", *QUICK, f"--lab={file}")

    def test_runs_stand_beside_their_predictions_also_on_a_page(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run_directory(folder / "alone", compute_s=0.01, step_s=0.01, exchange="false")
            run_directory(folder / "ring", compute_s=0.03, step_s=0.06)
            run_directory(folder / "wild", compute_s=0.03, step_s=0.06, mode="ps", sync="async")
            runs = [str(folder / run) for run in ("alone", "ring", "wild")]
            done = predict("--beside", *runs, "--link", "1Gbit", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(done.stdout)["beside"]
            self.assertEqual([r.get("not_predicted") for r in rows], ["it exchanges nothing", None, "it is not bulk synchronous"])
            self.assertEqual((rows[1]["mode"], rows[1]["workers"], rows[1]["compute_from"]), ("ring", 2, "a run without exchange"))
            self.assertAlmostEqual(rows[1]["measured_step_s"], 0.06)
            self.assertLess(abs(rows[1]["predicted_step_s"] - 0.02), 0.01)
            table = predict("--beside", *runs, "--link", "1Gbit")
            self.assertIn("of 1: ", table.stdout)
            (folder / "predicted.json").write_text(done.stdout)
            page = self.report(folder, runs[1:])
            self.assertIn("<h2>Measured beside predicted</h2>", page)
            self.assertIn("not predicted: it is not bulk synchronous", page)
            self.assertIn("<td>60 ms", page)
            self.assertNotIn("alone", page)
            self.assertIn("its links carry is not known", predict("--beside", runs[1]).stdout)

    def test_played_passes_take_no_processor(self):
        with tempfile.TemporaryDirectory() as name:
            runs = [str(Path(name) / run) for run in ("alone", "ring")]
            run_directory(Path(runs[0]), compute_s=0.1, step_s=0.1, exchange="false", backend="played:a.json")
            run_directory(Path(runs[1]), compute_s=0.1, step_s=0.2, backend="played:a.json")
            own, shared = (json.loads(predict("--beside", *runs, "--link", "1Gbit", "--processors", n, "--json").stdout)["beside"][1]["predicted_step_s"] for n in "01")
            self.assertAlmostEqual(own, shared, delta=0.01)
            self.assertGreaterEqual(shared, 0.1)

    def report(self, folder, runs, status=0):
        page = folder / "page.html"
        done = subprocess.run([PSRING, "report", *runs, "-o", str(page), "--predicted", str(folder / "predicted.json")], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, status, done.stderr)
        return page.read_text() if status == 0 else done.stderr

    def test_a_page_refuses_what_is_no_prediction_of_its_runs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run_directory(folder / "ring", step_s=0.06)
            for text, line in [("{", "it is not what psring predict"), ('{"format": "psring predicted 1", "beside": []}', "none of these runs"),
                               ('{"format": "psring predicted 1", "beside": [{"run": "x", "measured_step_s": -1}]}', "no times")]:
                (folder / "predicted.json").write_text(text)
                self.assertIn(line, self.report(folder, [str(folder / "ring")], status=2))

    def test_help_has_examples(self):
        done = predict("--help")
        self.assertEqual((done.returncode, said(done)), (0, ""))
        self.assertIn("psring predict runs/resnet50 --hosts 2,4,8 --link 10Gbit", done.stdout)


class Calibrate(unittest.TestCase):
    def test_costs_are_measured_and_can_be_read(self):
        with tempfile.TemporaryDirectory() as name:
            done = predict("--calibrate")
            self.assertEqual(done.returncode, 0, done.stderr)
            costs = json.loads(done.stdout)
            self.assertEqual(sorted(costs), ["copy_ns", "fold_ns", "message_us", "seal_ns", "update_ns"])
            self.assertGreater(min(costs["copy_ns"], costs["seal_ns"], costs["fold_ns"], costs["update_ns"]), 0)
            (Path(name) / "costs.json").write_text(done.stdout)
            done = predict(*QUICK, "--hosts", "2", "--costs", name + "/costs.json")
            self.assertEqual(done.returncode, 0, done.stderr)


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
