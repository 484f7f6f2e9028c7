"""What --metrics-port serves: the text format of Prometheus, by a strict reader of ours and by
prometheus_client's where a Python has it (PSR_PYTHON, or python3); figures that are those of
metrics.jsonl; and clients that are slow, many or hostile, beside which a scrape is still answered
and the run goes on to its end.

usage: test_metrics_port.py PSRING"""

import atexit
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from psring_live import Live
from psring_run import PATIENCE_S, Run, Tap, Workspace, is_sanitized

python = os.environ.get("PSR_PYTHON", "python3")
OPTIONS = {"workers": 3, "model": "mlp", "data": "synthetic:count=300,test=30,channels=1,size=8", "batch-size": 4, "lr": 0.0001,
           "threads": 1, "eval-every": 5, "metrics-port": 0}
SLOW = "0:100"  # of runs that go on while clients are waited for: they wait and hardly compute
BETWEEN_S = 0.05  # two scrapes: nobody tells that a step has ended
PEER = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families
print(json.dumps([[s.name, sorted(s.labels.items()), s.value] for f in text_string_to_metric_families(sys.stdin.read()) for s in f.samples]))
"""
SUMS = {"psring_images_total": "images", "psring_compute_seconds_total": "compute_s", "psring_exchange_seconds_total": "exchange_s",
        "psring_wait_seconds_total": "wait_s", "psring_sent_bytes_total": "bytes_sent", "psring_received_bytes_total": "bytes_received"}
NEWEST = {"psring_epoch": "epoch", "psring_loss": "loss", "psring_learning_rate": "lr", "psring_images_per_second": "images_per_s",
          "psring_staleness_steps": "staleness"}
NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r'(%s)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)' % NAME)
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')


def parse(text):
    """{(name, labels): value}. Strict: each name has its HELP and TYPE before its samples, which
    stand together; counters alone end in _total; no sample comes twice."""
    samples, heads, at = {}, {}, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        head = re.fullmatch(r"# (HELP|TYPE) (%s) (.+)" % NAME, line)
        if head and head.group(1) == "HELP":
            assert head.group(2) not in heads, line
            at, heads[head.group(2)] = head.group(2), None
            continue
        if head:
            assert head.group(2) == at and heads[at] is None and head.group(3) in ("counter", "gauge"), line
            assert (head.group(3) == "counter") == at.endswith("_total"), line
            heads[at] = head.group(3)
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample and sample.group(1) == at and heads[at], line
        unescape = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
        labels = tuple(sorted((name, re.sub(r'\\["\\n]', lambda m: unescape[m.group(0)], value))
                              for name, value in LABEL.findall(sample.group(2) or "")))
        assert (at, labels) not in samples, line
        samples[at, labels] = float(sample.group(3).replace("Inf", "inf"))
    return samples


class Served:
    """A run that goes on until it is told to stop."""

    def __init__(self, psring, directory, name, options):
        self.out = os.path.join(directory, name)
        command = [psring, "train", "--out", self.out, "--steps", "1000000", "--slow", SLOW]
        command += ["--%s=%s" % item for item in dict(OPTIONS, **options).items()]
        self.live = Live(command, directory, "live-%d" % len(os.listdir(directory)))
        atexit.register(self.live.kill)  # a check that raises leaves nothing behind
        self.live.wait_line(r"step 20/")
        with open(os.path.join(self.out, "run.json")) as text:
            self.run = json.load(text)
        self.host, self.port = re.fullmatch(r"http://([0-9.]+):([0-9]+)/metrics", self.run["metrics_url"]).groups()

    def connect(self):
        return socket.create_connection((self.host, int(self.port)), timeout=PATIENCE_S)

    def ask(self, method="GET", path="/metrics", body=None):
        connection = http.client.HTTPConnection(self.host, int(self.port), timeout=PATIENCE_S)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def steps(self):
        """Of the rank that is behind most."""
        samples = parse(self.ask()[2])
        return min(value for (name, _), value in samples.items() if name == "psring_steps_total")

    def goes_on(self):
        """Waits for more steps; the evaluations between have ended too, then."""
        before = self.steps()
        end = time.monotonic() + PATIENCE_S
        while self.steps() < before + 10:
            assert time.monotonic() < end and self.live.process.poll() is None, "no more steps"
            time.sleep(BETWEEN_S)
        return True

    def stop(self):
        self.live.process.send_signal(signal.SIGINT)
        return self.live.process.wait(timeout=PATIENCE_S)

    def lines(self):
        with open(os.path.join(self.out, "metrics.jsonl")) as lines:
            return [json.loads(line) for line in lines]


def near(one, other):
    return abs(one - other) <= 1e-6 * max(abs(one), abs(other), 1e-6)


def check_ranks(samples, run, lines):
    """What a scrape said of each rank, beside the lines up to the step that it said."""
    wrong = []
    for rank in range(3):
        labels = (("rank", str(rank)), ("run", run))
        told = {name: value for (name, of), value in samples.items() if of == labels}
        own = [line for line in lines if line["rank"] == rank and line["step"] <= told.get("psring_steps_total", 0)]
        if not own:
            wrong.append("rank %d has no steps" % rank)
            continue
        for name, field in SUMS.items():
            if not near(told[name], sum(line[field] for line in own)):
                wrong.append("rank %d: %s is %r" % (rank, name, told[name]))
        for name, field in NEWEST.items():
            if not near(told[name], own[-1][field]):
                wrong.append("rank %d: %s is %r, not %r" % (rank, name, told[name], own[-1][field]))
    return wrong


def check_figures(tap, psring, directory, mode, name):
    served = Served(psring, directory, name, {"mode": mode})
    status, headers, text = served.ask()
    run = (("run", served.out),)
    samples = parse(text)
    tap.ok(status == 200 and headers.get("Content-Type") == "text/plain; version=0.0.4; charset=utf-8", "%s: a scrape is in format 0.0.4" % mode,
           [str(headers)])
    with_tests = samples
    end = time.monotonic() + PATIENCE_S
    while ("psring_test_step", run) not in with_tests and time.monotonic() < end:
        time.sleep(BETWEEN_S)
        with_tests = parse(served.ask()[2])
    began = samples.get(("process_start_time_seconds", ()), 0)
    stopped = served.stop()
    lines = served.lines()
    wrong = check_ranks(samples, served.out, lines) + check_ranks(with_tests, served.out, lines)
    tap.ok(stopped == 130 and not wrong, "%s: figures of each rank are those of metrics.jsonl" % mode, wrong + served.live.why())
    test = [line for line in lines if line["step"] == with_tests.get(("psring_test_step", run)) and "test_loss" in line]
    tap.ok(test and near(test[0]["test_loss"], with_tests["psring_test_loss", run]) and
           near(test[0]["test_accuracy"], with_tests["psring_test_accuracy_ratio", run]), "%s: the newest evaluation" % mode, served.live.why())
    tap.ok(served.run["config"]["metrics-port"] == "0" and samples["psring_planned_steps", run] == 1000000 and
           0 < lines[0]["unix_s"] - began < PATIENCE_S, "%s: the run itself, when its process began, and run.json" % mode,
           [text, str(served.run["config"].get("metrics-port"))])
    return text


def check_peer(tap, text):
    done = subprocess.run([python, "-c", PEER], input=text, capture_output=True, text=True, timeout=PATIENCE_S)
    if "No module named" in done.stderr:
        tap.skip("prometheus_client reads it", "%s has no prometheus_client; PSR_PYTHON names another Python" % python)
        return
    told = {(name, tuple(map(tuple, labels))): value for name, labels, value in json.loads(done.stdout or "[]")}
    tap.ok(told and told == parse(text), "prometheus_client reads the same names, labels and values", [done.stderr, text])


def listens_at(port):
    with open("/proc/net/tcp") as table:
        return [line.split()[1].split(":")[0] for line in table if line.split()[3] == "0A" and line.split()[1].endswith(":%04X" % int(port))]


def check_clients(tap, psring, directory):
    served = Served(psring, directory, "clients", {"mode": "ps"})
    tap.ok(listens_at(served.port) == ["0100007F"], "it listens on the loopback address alone", [str(listens_at(served.port))])
    tap.ok(served.ask("HEAD")[0] == 200 and served.ask("HEAD")[2] == "", "HEAD is answered without a body")
    tap.ok(served.ask(path="/")[0] == 404 and "/metrics" in served.ask(path="/")[2], "another path is told where the figures are")
    status, headers, _ = served.ask("POST", body="x" * 100000)
    tap.ok(status == 405 and headers.get("Allow") == "GET, HEAD", "POST is refused", [str((status, headers))])
    silent = [served.connect() for _ in range(200)]
    tap.ok(served.ask()[0] == 200 and served.goes_on(), "beside 200 connections that say nothing a scrape is answered, and steps go on")
    for connection in silent:
        connection.close()
    slow = [served.connect() for _ in range(40)]
    for connection in slow:
        for byte in "GET /metrics HTTP/1.1\r\nX":
            try:
                connection.send(byte.encode())
            except OSError:
                break  # it made room
    tap.ok(served.ask()[0] == 200 and served.goes_on(), "so it is beside heads that never end")
    ended = 0
    for connection in slow:
        try:
            ended += connection.recv(1) == b""
        except ConnectionResetError:
            ended += 1
    tap.ok(ended == len(slow), "which are ended after their time")
    unread = []
    for _ in range(40):
        unread.append(served.connect())
        unread[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        try:
            unread[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n" * 50)
        except OSError:
            pass
    tap.ok(served.ask()[0] == 200 and served.goes_on(), "so it is beside clients that do not read")
    for text in (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n", os.urandom(4096), b"\0" * 4096, b"\r\n" * 4096,
                 b"GET /" + b"%" * 4000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
                 b"GET /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n"):
        connection = served.connect()
        got = b""
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                got += part
        except OSError:
            pass
        connection.close()
        tap.ok(not re.match(rb"HTTP/1\.[01] 200", got) and served.ask()[0] == 200, "what is no request gets no figures: %r.." % text[:24],
               [repr(got[:200])])
    tap.ok(served.stop() == 130, "the run ends as if nobody had been there", served.live.why())
    for connection in unread:
        connection.close()


def check_refusals(tap, psring, directory):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    short = {"mode": "local", "steps": 2, **{name: value for name, value in OPTIONS.items() if name != "eval-every"}}
    run = Run(psring, directory, "taken", dict(short, **{"metrics-port": port}))
    tap.ok(run.status == 2 and "--metrics-port: 127.0.0.1:%d" % port in run.stderr and not os.path.exists(run.out),
           "a port that is taken is told before the start", run.why())
    for word in ("70000", "host:9100", "9100/tcp", "[::1", "1.2.3.4:", ":"):
        run = Run(psring, directory, "bad", dict(short, **{"metrics-port": word}))
        tap.ok(run.status == 2 and "--metrics-port: '%s' is no port" % word in run.stderr, "--metrics-port %s is refused" % word, run.why())
    first = Run(psring, directory, "first", dict(short, **{"metrics-port": "127.0.0.2:0"}))
    with open(os.path.join(first.out, "run.json")) as text:
        tap.ok(first.status == 0 and json.load(text)["metrics_url"].startswith("http://127.0.0.2:"), "an address of the user's", first.why())
    again = Run(psring, directory, "again", {"config": os.path.join(first.out, "run.json")})
    with open(os.path.join(again.out, "run.json")) as text:
        tap.ok(again.status == 0 and "metrics_url" not in json.load(text), "no file opens a port", again.why())


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        for mode in () if is_sanitized(psring) else ("ps", "ring"):  # the same code serves each
            check_figures(tap, psring, directory, mode, mode)
        check_peer(tap, check_figures(tap, psring, directory, "local", 'a "quoted\\name"'))
        check_clients(tap, psring, directory)
        check_refusals(tap, psring, directory)
    tap.end()


main(os.path.abspath(sys.argv[1]))  # a live run is elsewhere
