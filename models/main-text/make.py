#!/usr/bin/env python3
"""Makes blocks.trees, the model of a page's main text, of the development pages of WCXB.

    git clone https://github.com/Murrough-Foley/web-content-extraction-benchmark wcxb
    pip install -r models/main-text/requirements.txt
    python3 models/main-text/make.py wcxb/dev              # writes models/main-text/blocks.trees
    python3 models/main-text/make.py wcxb/dev --validate   # prints F1 in five folds by domain

The features of the pages' blocks come from the program that will use the model:
`cargo run --release -p spoor-web --example main_text`. The bytes are the same each time on the
same machine.
"""

import argparse
import gzip
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter

import lightgbm
import numpy as np
from rapidfuzz.distance import LCSseq

HERE = pathlib.Path(__file__).parent
# The SHA-256 of the names and bytes of all pages and labels of version 1.0.
SHA256 = "39688484671b114f81e1f829de83c19b49a04ef9d5d30547f9a9963524d913d1"
TREES = 80
PARAMETERS = {
    "objective": "cross_entropy",
    # With 100 trees of 31 leaves, each up to 12 deep, F1 is no higher, and a page costs more.
    "num_leaves": 16,
    "max_depth": 4,
    "learning_rate": 0.2,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.6,
    "bagging_freq": 1,
    "lambda_l2": 5,
    "max_bin": 63,
    "min_sum_hessian_in_leaf": 1e-3,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 0,
    "num_threads": 1,
    "verbosity": -1,
}
WORD = re.compile(r"\w+")


def words(text):
    return WORD.findall(text.lower())


class Pages:
    """The pages of a set with their blocks, features and labels."""

    def __init__(self, folder):
        self.labels = {
            path.stem: json.loads(path.read_text())
            for path in sorted((folder / "ground-truth").glob("*.json"))
        }
        self.names, rows, features = seen(folder / "html")
        self.features = features
        self.page = np.array([row["page"] for row in rows])
        self.text = [row["text"] for row in rows]
        self.words = np.maximum(np.array([row["words"] for row in rows], np.float32), 1)
        self.may_repeat = np.array([row["may_repeat"] for row in rows])
        self.is_heading = np.array([row["is_heading"] for row in rows])
        self.unit = np.array([-1 if row["unit"] is None else row["unit"] for row in rows])
        self.ids, first = np.unique(self.page, return_index=True)
        self.bounds = list(zip(first, list(first[1:]) + [len(rows)]))
        self.label = np.concatenate(
            [
                label([words(text) for text in self.text[a:b]], words(self.gold(page)))
                for page, (a, b) in zip(self.ids, self.bounds)
            ]
        )

    def gold(self, page):
        return self.labels[page]["ground_truth"].get("main_content") or ""

    def kind(self, page):
        kind = self.labels[page]["_internal"]["page_type"]
        kind = kind.get("primary") if isinstance(kind, dict) else kind
        return "collection" if kind == "category" else kind or "article"

    def fold(self, page):
        host = re.sub(r"^https?://", "", self.labels[page].get("url") or "").split("/")[0]
        domain = ".".join(host.split(".")[-2:])
        return int(hashlib.sha256(domain.encode()).hexdigest(), 16) % 5

    def weights(self):
        """Each page weighs the same, and a long block more than a short one, but not by its words.
        Pages without any labelled block weigh nothing: their labels are wrong."""
        weights = np.minimum(self.words, 200) ** 0.75
        for a, b in self.bounds:
            has_text = (self.label[a:b] >= 0.5).any()
            weights[a:b] *= (100 if has_text else 0) / weights[a:b].sum()
        return weights


def seen(folder):
    """The names of the features, the blocks, and the features of each."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "blocks"
        command = "cargo run --release --quiet -p spoor-web --example main_text -- features"
        subprocess.run([*command.split(), folder, out], check=True, cwd=HERE)
        with open(f"{out}.jsonl") as lines:
            names = json.loads(next(lines))["names"]
            rows = [json.loads(line) for line in lines]
        features = np.fromfile(f"{out}.f32", np.float32).reshape(-1, len(names))
    return names, rows, features


def label(blocks, gold):
    """The share of each block's words that the main text has, in its order.

    The words are aligned by their longest common subsequence. Blocks of which most is there take
    their words away, and the others are aligned once more, as parts may have moved."""
    share = np.zeros(len(blocks), np.float32)
    numbers = {}
    number = lambda word: numbers.setdefault(word, len(numbers))
    gold = [number(word) for word in gold]
    live = [(at, [number(word) for word in block]) for at, block in enumerate(blocks)]
    for _ in range(3):
        known = set(gold)
        page, owner = [], []
        for at, block in live:
            if any(word in known for word in block):
                page += block
                owner += [at] * len(block)
        pairs = {}
        for step in LCSseq.opcodes(page[:60_000], gold):
            if step.tag == "equal":
                pairs.update(zip(range(step.src_start, step.src_end), range(step.dest_start, step.dest_end)))
        alone, runs = Counter(), Counter()
        for i, j in pairs.items():
            alone[owner[i]] += 1
            runs[owner[i]] += pairs.get(i - 1) == j - 1 or pairs.get(i + 1) == j + 1
        good = set()
        for at, block in live:
            # A word on its own may match by chance.
            of = runs[at] / len(block) if len(block) > 1 else (1.0 if runs[at] else 0.4 * bool(alone[at]))
            if of >= 0.3:
                share[at] = max(share[at], of)
            if of >= 0.5:
                good.add(at)
        used = {j for i, j in pairs.items() if owner[i] in good}
        size = len(gold)
        gold = [word for j, word in enumerate(gold) if j not in used]
        live = [(at, block) for at, block in live if at not in good and len(block) >= 4]
        if not good or len(gold) < max(8, 0.02 * size):
            break
    return share


def train(pages, columns, chosen):
    weights = pages.weights()
    rows = chosen & (weights > 0)
    data = lightgbm.Dataset(pages.features[rows][:, columns], pages.label[rows], weight=weights[rows])
    return lightgbm.train(PARAMETERS, data, TREES)


def packed(model, names):
    """The file of trees; main_text/trees.rs says what stands where."""
    out = bytearray(f"spoor trees 1\n{' '.join(names)}\n".encode())

    def nodes(node):
        if "leaf_value" in node:
            return [(0, 0, node["leaf_value"])]
        below, above = nodes(node["left_child"]), nodes(node["right_child"])
        return [(node["split_feature"] + 1, 1 + len(below), node["threshold"]), *below, *above]

    for tree in model.dump_model()["tree_info"]:
        tree = nodes(tree["tree_structure"])
        for at, (feature, above, value) in enumerate(tree):
            value32 = np.float32(value)
            if feature and value32 > value:
                # All values are f32: the largest that is not above the bound bounds them alike.
                value32 = np.nextafter(value32, np.float32(-np.inf))
            out += struct.pack("<HHf", feature, above if feature else len(tree) - at, value32)
    return bytes(out)


def chosen(probability, words, unit, is_heading):
    """As main_text/choice.rs chooses by probability alone, but for formulas and for tables
    beside text."""
    of_unit = unit >= 0
    _, number = np.unique(unit[of_unit], return_inverse=True)
    sums = [np.bincount(number, values[of_unit]) for values in (probability * words, words)]
    probability = probability.copy()
    probability[of_unit] = (sums[0] / sums[1])[number]
    for end in range(len(probability) - 1, 0, -1):
        if is_heading[end - 1]:
            probability[end - 1] = max(probability[end - 1], probability[end])
    order = np.argsort(-probability, kind="stable")
    right = np.cumsum((probability * words)[order])
    expected = 2 * right / (np.cumsum(words[order]) + right[-1])
    return probability >= probability[order[expected.argmax()]]


def f1(found, gold):
    shared = sum((Counter(found) & Counter(gold)).values())
    return 2 * shared / (len(found) + len(gold)) if found or gold else 1.0


def validate(pages, columns):
    fold = np.array([pages.fold(page) for page in pages.ids])
    of_block = np.repeat(fold, [b - a for a, b in pages.bounds])
    probability = np.zeros(len(of_block))
    for at in range(5):
        model = train(pages, columns, of_block != at)
        probability[of_block == at] = model.predict(pages.features[of_block == at][:, columns])
    score = {}
    for page in pages.labels:
        score[page] = f1([], words(pages.gold(page)))
    for page, (a, b) in zip(pages.ids, pages.bounds):
        found, before = [], set()
        for at in np.flatnonzero(chosen(probability[a:b], pages.words[a:b], pages.unit[a:b], pages.is_heading[a:b])) + a:
            if pages.may_repeat[at] or pages.text[at] not in before:
                before.add(pages.text[at])
                found += words(pages.text[at])
        score[page] = f1(found, words(pages.gold(page)))
    kinds = {page: pages.kind(page) for page in score}
    for kind in ["all", *sorted(set(kinds.values()))]:
        of = np.array([score[page] for page in score if kind in ("all", kinds[page])])
        print(f"{kind:14} {len(of):5} pages  F1 {of.mean():.4f} ± {of.std() / len(of) ** 0.5:.4f}")


def digest(folder):
    sum = hashlib.sha256()
    for path in sorted(folder.rglob("*.*")):
        sum.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return sum.hexdigest()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("pages", type=pathlib.Path, help="the folder dev of WCXB")
    arguments.add_argument("--validate", action="store_true", help="print F1 and write nothing")
    arguments = arguments.parse_args()
    folder = arguments.pages.resolve()
    found = digest(folder)
    if found != SHA256:
        sys.exit(f"{folder}: has the SHA-256 {found}, not {SHA256}")
    pages = Pages(folder)
    columns = list(range(len(pages.names)))
    if arguments.validate:
        validate(pages, columns)
        return
    model = train(pages, columns, np.ones(len(pages.page), bool))
    (HERE / "blocks.trees").write_bytes(packed(model, [pages.names[at] for at in columns]))


if __name__ == "__main__":
    main()
