#!/usr/bin/env python3
"""The safety net: digests of what a build makes from fixed inputs.

    python3 tests/python/net.py PROGRAM LABWEB [FOLDER]

LABWEB is the folder with the stored web and its texts (`labweb/`, `train/`). Everything is made
in FOLDER, a temporary one by default: one text per step in FOLDER/out, so that diff can compare
the texts of two builds. The digests are compared with those in tests/python/net.tsv; with
`--write` they replace them. Fields that contain a time are left out.

Needs Python 3.9 and the package zstandard, like the tests of exports.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import zstandard

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1]
GOLDEN = HERE / "net.tsv"

# Fields of rows and documents that contain a time, and those that depend on the order in which a
# replay reads the pages: the link that led to a page, and what was learned before it.
CLOCKS = {"time", "asked", "ms", "id"}
ORDER = {
    "via", "hops", "on_topic", "on_topic_probability", "parts", "score", "bucket", "sources",
    "documents",
}

QUERIES = [
    "moon", "moon landing", '"solar system"', "kernel OR unix", "spacecraft -mars", "telesc*",
    "title:moon", "orbit of the earth", "linus torvalds", "gnu", "galax*", '"black hole"',
    "(mars OR venus) atmosphere", "apollo 11", "distribution debian", "file system",
    "compiler", "light years", "rocket engine", "astronomer",
]

JOB = """
[job]
name = "{name}"
contact = "mailto:net@localhost"
[seeds]
urls = [{seeds}]
[train]
positive = ["{lab}/train/{topic}.txt"]
neutral = ["{lab}/train/neutral.txt"]
[limits]
documents = 100_000
[network]
allow_private = true
concurrency = 1
[images]
enabled = false
"""


def run(*command, folder):
    """Runs the program; returns what it printed."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=environment, capture_output=True
    )
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}")
    return done.stdout.decode("utf-8", "replace")


def lines_of(path):
    """The lines of a file, compressed or not."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        data = reader.read()
    if path.suffix == ".gz":
        import gzip
        data = gzip.decompress(data)
    return data.decode("utf-8", "replace").splitlines()


def rows(paths):
    """Rows of JSON without clocks, in the order of their text."""
    found = []
    for path in sorted(paths):
        for line in lines_of(path):
            row = json.loads(line)
            kept = {key: value for key, value in row.items() if key not in CLOCKS | ORDER}
            found.append(json.dumps(kept, sort_keys=True, ensure_ascii=False))
    return sorted(found)


def plain(text, folder):
    """A printed text without clocks and the folder."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return re.sub(r'"(ms|seconds|cpu_seconds)": ?[\d.e-]+', r'"\1": 0', text)


def archive(lab, urls, path):
    """A WARC file of stored pages, all of one moment."""
    with path.open("wb") as out:
        for number, (url, file) in enumerate(urls):
            body = file.read_bytes()
            block = (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            ) + body
            head = (
                f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: "
                f"<urn:uuid:00000000-0000-4000-8000-{number:012d}>\r\n"
                f"WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Target-URI: {url}\r\n"
                f"Content-Type: application/http; msgtype=response\r\n"
                f"Content-Length: {len(block)}\r\n\r\n"
            )
            out.write(head.encode() + block + b"\r\n\r\n")


def pages(lab, topic, most):
    """The first pages of the web with this label, in the order of their addresses."""
    found = []
    for line in (lab / "labweb/labels_public.tsv").read_text().splitlines()[1:]:
        url, topics = line.split("\t")[:2]
        if topic in topics.split(":")[0] or topic == topics:
            file = lab / "labweb" / url.removeprefix("http://")
            if file.is_file():
                found.append((url, file))
    return sorted(found)[:most]


class Net:
    def __init__(self, program, lab, folder):
        self.program = Path(program).resolve()
        self.lab = lab
        self.folder = folder
        self.out = folder / "out"
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.made = {}

    def run(self, *arguments):
        return run(self.program, *arguments, folder=self.folder)

    def keep(self, step, lines):
        """Writes and records the output of a step."""
        text = "\n".join(lines) + "\n"
        (self.out / f"{step}.txt").write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.made[step] = (digest, str(len(lines)))
        print(f"{step}\t{digest}\t{len(lines)}", flush=True)

    def replays(self):
        """Three archives through two topics: documents, sentences, rows of the log."""
        for name, topic, most in [("space", "space", 300), ("linux", "linux", 200), ("other", "-", 200)]:
            warc = self.folder / f"{name}.warc"
            archive(self.lab, pages(self.lab, topic, most), warc)
            trained = "linux" if topic == "-" else topic
            seeds = ", ".join(f'"{url}"' for url, _ in pages(self.lab, topic, 5))
            job = self.folder / f"{name}.toml"
            job.write_text(JOB.format(name=name, seeds=seeds, lab=self.lab, topic=trained))
            self.run("train", job.name)
            self.run("replay", job.name, "--from", warc.name)
            made = self.folder / f"jobs/{name}-replay"
            self.keep(f"replay-{name}-documents", rows(made.glob("documents/*")))
            self.keep(f"replay-{name}-log", rows(made.glob("logs/crawl.jsonl")))
            sentences = [line for file in sorted(made.glob("sentences/*.txt.gz")) for line in lines_of(file)]
            self.keep(f"replay-{name}-sentences", sorted(sentences))
            keywords = lines_of(self.folder / f"models/{name}/keywords.tsv")
            self.keep(f"replay-{name}-keywords", keywords)

    def experiment(self):
        """Strategies on the stored web, one request after the other."""
        plan = f"""
web = "{self.lab}/labweb"
labels = "{self.lab}/labweb/labels_public.tsv"
out = "experiment"
fetches = 150
seeds = [1]
[[topic]]
name = "space"
positive = ["{self.lab}/train/space.txt"]
neutral = ["{self.lab}/train/neutral.txt"]
begin.warm = "{self.lab}/labweb/seeds/space.txt"
begin.cold = "{self.lab}/labweb/seeds/cold.txt"
[[variant]]
name = "unfocused"
job.strategy.kind = "unfocused"
[[variant]]
name = "link"
job.strategy.kind = "link"
[[variant]]
name = "learn"
job.strategy.kind = "learn"
"""
        (self.folder / "plan.toml").write_text(plan)
        beside = self.program.with_name("spoor-lab")
        printed = run(beside, "experiment", "plan.toml", "--json", folder=self.folder)
        self.keep("experiment", plain(printed, self.folder).splitlines())

    def corpora(self):
        """Three plans over the archives."""
        steps = {
            "plain": "",
            "filtered": '[[step]]\nkind = "language"\nlanguages = ["en"]\n[[step]]\nkind = "quality"\n'
            'rules = ["gopher"]\n[[step]]\nkind = "copies"\nlevel = "document"\nleast = 0.8\n',
            "passages": '[[step]]\nkind = "copies"\nlevel = "paragraph"\n[[step]]\nkind = "mask"\n'
            'what = ["mail", "phone", "ip"]\n[[step]]\nkind = "grammar"\n',
        }
        for name, text in steps.items():
            plan = self.folder / f"{name}-corpus.toml"
            plan.write_text(
                f'[source]\narchives = ["space.warc", "linux.warc", "other.warc"]\n{text}[output]\n'
                'formats = ["tsv", "vertical", "text", "sentences"]\ncompression = "none"\n'
            )
            self.run("corpus", "build", plan.name)
            made = self.folder / f"{name}-corpus"
            found = []
            for file in sorted(made.rglob("*")):
                if file.is_file() and file.suffix in {".tsv", ".vert", ".txt", ".jsonl"}:
                    digest = hashlib.sha256(file.read_bytes()).hexdigest()
                    found.append(f"{file.relative_to(made)}\t{digest}")
            self.keep(f"corpus-{name}", found)
            removed = [f for f in made.glob("removed.jsonl*")]
            self.keep(f"corpus-{name}-removed", rows(removed))

    def searches(self):
        """Twenty searches in the documents of two replays."""
        found = []
        for job in ["space", "linux"]:
            self.run("index", f"jobs/{job}-replay")
            for query in QUERIES:
                printed = self.run("search", f"jobs/{job}-replay", query, "--json", "--limit", "400")
                answer = json.loads(printed)
                # Equally good hits come in the order of the documents, so sort them.
                urls = sorted(hit["url"] for hit in answer["hits"])
                found.append(f"{job}\t{query}\t{answer['total']}\t{' '.join(urls)}")
        self.keep("searches", found)

    def files(self):
        """Rules, and exports of documents."""
        rules = PACKAGE / "config/rules/lighthouses.toml"
        self.keep("rules", plain(self.run("rules", "check", rules), PACKAGE).splitlines())
        for job in ["space", "linux"]:
            self.run("export", f"jobs/{job}-replay/job.toml", "--text", "--format", "jsonl")
            made = self.folder / f"jobs/{job}-replay/exports/text-jsonl"
            self.keep(f"export-{job}", rows(made.glob("documents/*.jsonl")))
            self.keep(f"export-{job}-removed", rows(made.glob("removed.jsonl*")))

    def archives(self):
        """Checks and lists archives."""
        for name in ["space", "other"]:
            printed = self.run("archive", "check", f"{name}.warc", "--json")
            self.keep(f"archive-{name}", plain(printed, self.folder).splitlines())
            printed = self.run("archive", "list", f"{name}.warc", "--cdxj")
            self.keep(f"archive-{name}-list", printed.splitlines())


def main():
    arguments = [part for part in sys.argv[1:] if part != "--write"]
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    program, lab = arguments[:2]
    folder = Path(arguments[2] if len(arguments) == 3 else tempfile.mkdtemp(prefix="net-"))
    folder.mkdir(parents=True, exist_ok=True)
    net = Net(program, Path(lab).resolve(), folder.resolve())
    for step in [net.replays, net.corpora, net.searches, net.files, net.archives, net.experiment]:
        step()
    lines = [f"{step}\t{digest}\t{count}" for step, (digest, count) in sorted(net.made.items())]
    text = "step\tdigest\tlines\n" + "\n".join(lines) + "\n"
    if "--write" in sys.argv:
        GOLDEN.write_text(text)
        return
    expected = GOLDEN.read_text().splitlines()
    other = [line for line in text.splitlines() if line not in expected]
    missing = [line for line in expected if line.split("\t")[0] not in net.made and line[:5] != "step\t"]
    if other or missing:
        sys.exit(f"other than net.tsv; compare {net.out} with that of the build before:\n" + "\n".join(other + missing))
    print("as in net.tsv")


if __name__ == "__main__":
    main()
