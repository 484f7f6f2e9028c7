#!/usr/bin/env python3
"""psring report -o: a page for a browser, which calls no difference that lies inside the spread, is
safe against what stands in a run directory, and fits a wide and a narrow window, light and dark.

usage: test_report_page.py PSRING

Runs are real ones, and copies of them with rates that were recorded. Without chromium the page is
not rendered, which is counted as skipped."""

import html
import json
import os
import re
import shutil
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=480,test=8,channels=1,size=28", "workers": 3, "batch-size": 8, "steps": 6,
           "lr": 0.05, "threads": 1, "seed": 3, "backend": "reference", "trace": "2-4"}
# Images a second of resnet20, two workers, six calls of one program in turns with six of another
# build of the same sources.
RECORDED = [893.0, 922.0, 905.0, 899.0, 903.0, 901.0], [899.0, 910.0, 901.0, 904.0, 897.0, 906.0]
# Widths in CSS pixels, a desk's and the narrowest that chromium opens, and whether it is dark:
# places and colours have nothing to do with each other.
WINDOWS = ((1280, False), (500, True))


def page_of(psring, directory, *outs):
    path = os.path.join(directory, "page.html")
    done = subprocess.run([psring, "report", *outs, "-o", path], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    text = ""
    if os.path.exists(path):
        with open(path) as file:
            text = file.read()
        os.remove(path)
    return done.returncode, text, done.stderr.decode()


def answer(page):
    found = re.search(r"<p class=answer>(.*?)</p>", page, re.S)
    return html.unescape(found.group(1)) if found else ""


def played(run, directory, name, rate, **changes):
    """A copy of a run, as if it had had that rate and those options."""
    out = os.path.join(directory, name)
    os.mkdir(out)
    with open(os.path.join(run.out, "run.json")) as file:
        whole = json.load(file)
    whole["config"].update(changes)
    whole["outcome"].update(images_per_s=rate, together_images_per_s=rate)
    with open(os.path.join(out, "run.json"), "w") as file:
        json.dump(whole, file)
    for name in ("metrics.jsonl", "trace.json"):
        shutil.copy(os.path.join(run.out, name), out)
    return out


def verdicts(tap, psring, directory, run):
    """What is called a difference, and what is not."""
    alike, other = RECORDED
    outs = [played(run, directory, "a-%d" % i, rate, mode="ps") for i, rate in enumerate(alike)]
    same = [played(run, directory, "b-%d" % i, rate, mode="ring") for i, rate in enumerate(other)]
    slow = [played(run, directory, "c-%d" % i, 0.9 * rate, mode="ring") for i, rate in enumerate(other)]
    page = page_of(psring, directory, *outs, *same)[1]
    tap.ok("No configuration can be called the fastest" in answer(page), "equal ones are not called different", [answer(page)])
    page = page_of(psring, directory, *outs, *slow)[1]
    tap.ok("mode ps, shards 1 is the fastest" in answer(page) or "mode ps is the fastest" in answer(page), "one that is a tenth slower is",
           [answer(page)])
    tap.ok("fewer than 6 times" not in page, "and then nothing is said against it")
    page = page_of(psring, directory, *outs[:5], *slow)[1]
    tap.ok("No configuration can be called the fastest" in answer(page) and "fewer than 6 times" in page, "five runs are too few",
           [answer(page)])
    scaled = [played(run, directory, "w-%d" % n, 500.0 * n, workers=str(n)) for n in (1, 2, 4)]
    page = page_of(psring, directory, *scaled)[1]
    tap.ok("<h2>Scaling</h2>" in page and "limit: each worker" in page, "runs with other workers have a curve, with the limit")


def hostile(tap, psring, directory, run):
    bad = '<script>alert("1")</script>\'&amp;'
    out = played(run, directory, "bad<b>name", 1.0, model=bad)
    page = page_of(psring, directory, run.out, out)[1]
    tap.ok("<script" not in page and "<b>name" not in page and bad in html.unescape(page),
           "what stands in a run's files and name is shown and not obeyed", [page[:2000]])
    code, page, said = page_of(psring, os.path.join(directory, "nowhere"), run.out)
    tap.ok(code != 0 and page == "" and "nowhere" in said and said.count("\n") == 1, "a page that cannot be written has one line", [said])
    code, page, said = page_of(psring, directory, run.out, os.path.join(directory, "missing"))
    tap.ok(code == 2 and "unreadable" in page and "missing" in page, "a run that cannot be read is told of in the page", [said])
    code, page, said = page_of(psring, directory, os.path.join(directory, "missing"))
    tap.ok(code == 2 and "No run could be read" in page, "also if there is no other", [said])


def links_and_steps(tap, psring, directory, runs, page):
    """The sections of bytes per link and of one step."""
    for part in ("One step", "Bytes of each link in a step"):
        tap.ok("<h2>%s</h2>" % part in page, "it has the section: %s" % part)
    steps = re.findall("<h3>mode ([a-z]+)", page[page.index("<h2>One step"):page.index("<h2>Bytes that")])
    tap.ok(page.count("<div class=rows>") == 2 and steps == ["ps", "ring"], "it shows one step of each mode, shards first", steps)
    named = re.findall(r"<b>((?:worker|bucket|shard) \d+)</b>", page)
    buckets = len({name for name in named if name.startswith("bucket")})
    tap.ok(named.count("worker 2") == 2 and named.count("shard 0") == 1 and buckets > 1 and named.count("bucket 0") == 2,
           "with a row for each worker, bucket and shard", named)
    with open(os.path.join(runs[0].out, "trace.json")) as file:
        whole = file.read()
    layers = {e["name"] for e in json.loads(whole)["traceEvents"] if e.get("cat") in ("forward", "backward") and e["args"]["step"] == 3}
    tap.ok(len(layers) > 2 and all("<title>%s forward" % name in page or "<title>%s backward" % name in page for name in layers),
           "and every layer of the step in the middle by its name", sorted(layers))
    tap.ok("Step 3 of worker 0" in page and "exposed" in page, "it says which step that is, and what of its exchange is exposed")
    tap.ok(len(re.findall(r"<span class=name>worker \d</span>", page)) == 6 and "<span class=name>shard 0</span>" in page,
           "what each process sends and receives is there, as nothing left the host")
    out = played(runs[0], directory, "damaged", 900.0)
    for text, said in ((whole[:len(whole) // 2], "is no whole trace of psring train"), (whole.replace('"name":"push 0"', '"nome":"push 0"', 1), "it is no event"),
                       (whole.replace('"first_step":2', '"first_step":9'), "does not say which steps"), ("", "is no whole trace")):
        with open(os.path.join(out, "trace.json"), "w") as file:
            file.write(text)
        code, damaged, error = page_of(psring, directory, out)
        tap.ok(code == 0 and error == "" and damaged.count("A trace is not shown: ") == 1 and said in html.unescape(damaged),
               "a damaged trace costs its section: %s" % said, [error, str(re.findall("A trace is not.*", damaged))])
    os.remove(os.path.join(out, "trace.json"))
    tap.ok("None of these runs has a trace." in page_of(psring, directory, out)[1], "without a trace the page says how to get one")
    with open(os.path.join(out, "run.json")) as file:
        run = json.load(file)
    run["outcome"]["links"] = [{"from": a, "to": b, "bytes": 6e6 * (1 + (a == "<i>a"))} for a in ("<i>a", "b") for b in ("<i>a", "b")]
    with open(os.path.join(out, "run.json"), "w") as file:
        json.dump(run, file)
    page = page_of(psring, directory, out)[1]
    tap.ok("&lt;i&gt;a</span>" in page and "2.000, 1.000 MB" in page and "1.000, 2.000 MB" in page and "From host to host" in page and "<i>a" not in page,
           "of a run over two hosts it is the hosts' bytes a step", re.findall("class=value>.*?<", page))


# ---- in a browser ----

PROBE = """<script>addEventListener('load', () => { const root = document.documentElement, wide = [];
for (const e of document.querySelectorAll('body *')) if (!e.closest('.wide, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1)
  wide.push(e.tagName + '.' + e.className);
document.title = JSON.stringify({inner: innerWidth, scroll: root.scrollWidth, wide: wide, lines: document.querySelectorAll('polyline').length,
  rows: document.querySelectorAll('.rows svg').length, layers: document.querySelectorAll('.rows rect').length,
  low: [...document.querySelectorAll('.rows svg')].filter(e => e.getBoundingClientRect().height < 8 || e.getBoundingClientRect().width < 250).length,
  close: [...document.querySelectorAll('.rows .x b + b')].filter(e => e.getBoundingClientRect().left <
    e.previousElementSibling.getBoundingClientRect().right).length,
  links: [...document.querySelectorAll('.two i')].filter(e => e.getBoundingClientRect().width > 0).length,
  bars: [...document.querySelectorAll('.track i')].filter(e => e.getBoundingClientRect().width > 0).length,
  text: getComputedStyle(document.body).color, back: getComputedStyle(document.body).backgroundColor}); });</script>"""


def rendered(browser, directory, page, width, dark):
    path = os.path.join(directory, "probed.html")
    with open(path, "w") as file:
        file.write(page.replace("</body>", PROBE + "</body>"))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + os.path.join(directory, "browser"),
               "--window-size=%d,1200" % width, "--blink-settings=preferredColorScheme=%d" % (0 if dark else 1), "--dump-dom", "file://" + path]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, env=dict(os.environ, HOME=directory))
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout.decode())
    return json.loads(html.unescape(title.group(1))) if title else {"said": done.stderr.decode()[-500:]}


def brightness(colour):
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])


def in_a_browser(tap, directory, page):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    for width, dark in WINDOWS:
        what = "rendered %d pixels wide, %s" % (width, "dark" if dark else "light")
        if browser is None:
            tap.ok(True, "%s # SKIP no chromium here" % what)
            continue
        seen = rendered(browser, directory, page, width, dark)
        tap.ok(seen.get("inner") == width and seen["scroll"] <= width and not seen["wide"], "%s: nothing is cut off" % what, [str(seen)])
        tap.ok(seen.get("lines", 0) >= 4 and seen["bars"] >= 4, "%s: bars and lines are there" % what, [str(seen)])
        tap.ok(seen.get("rows", 0) > 6 and seen["layers"] > 20 and seen["low"] == 0 and seen["close"] == 0 and seen["links"] > 6,
               "%s: so are the steps, high enough, with marks that are apart, and the links" % what, [str(seen)])
        tap.ok("text" in seen and (brightness(seen["text"]) > brightness(seen["back"])) == dark, "%s: in those colours" % what, [str(seen)])


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        runs = [Run(psring, directory, mode, dict(OPTIONS, mode=mode)) for mode in ("ps", "ring")]
        if tap.ok(all(run.status == 0 for run in runs), "two runs", [line for run in runs for line in run.why()]):
            code, page, said = page_of(psring, directory, *[run.out for run in runs])
            tap.ok(code == 0 and said == "" and "<h1>Which of these 2 configurations of mlp" in page, "have a page", [said, page[:500]])
            tap.ok("ended with the same bits" in answer(page), "which says that their bits are the same", [answer(page)])
            tap.ok(all(run.outcome()["hash"] in page for run in runs), "and has their hashes")
            tap.ok(not re.search(r"(?:src|href|url\()\s*=?", page), "it needs nothing but itself")
            in_a_browser(tap, directory, page)
            links_and_steps(tap, psring, directory, runs, page)
            verdicts(tap, psring, directory, runs[0])
            hostile(tap, psring, directory, runs[0])
    tap.end()


main(os.path.abspath(sys.argv[1]))
