#!/usr/bin/env python3
"""Makes the tables of built-in neutral words, LANGUAGE.gz beside this script.

    pip download --no-deps wordfreq==3.1.1
    python3 make.py wordfreq-3.1.1-py3-none-any.whl

A table has the 20,000 most frequent words of a language: a line for each step of a
twentieth of a power of ten, with the exponent in hundredths, a tab and the words. So
`270<TAB>also back` says that about one word in 10^2.70 is "also". Only the words and these rounded
frequencies are taken. Words are cut as spoor cuts them: letters and marks, in lower case.

The same source gives the same bytes. It needs msgpack (`pip install msgpack`).
"""

import gzip
import hashlib
import io
import math
import pathlib
import re
import sys
import unicodedata
import zipfile
from collections import defaultdict

import msgpack

SHA256 = "4b1c6ecffc6198be3396d5cf871c4423ca71c907c231348d352dd54d62b97473"
WORDS = 20_000
STEP = 5
# spoor's codes, and those of the source where they differ. Left out: languages whose
# words spoor cuts otherwise than the source (Chinese, Japanese, Korean).
LANGUAGES = {
    code: code
    for code in "ar bg bn ca cs da de el en es fa fi fr he hi hu id it lt lv mk nb nl pl pt "
    "ro ru sk sl sv ta tr uk ur vi".split()
} | {"hr": "sh", "tl": "fil"}


def tokens(word):
    """The tokens of a word, as src/lm/tokens.rs cuts them."""
    out, token = [], ""
    # The source folds case, which leaves letters apart from their marks and turns the last
    # sigma of a Greek word into the one that stands within words.
    word = unicodedata.normalize("NFC", word.lower())
    word = re.sub("σ(?![^\\W\\d_])", "ς", word)
    for c in word:
        category = unicodedata.category(c)
        if category[0] == "L" or (category[0] == "M" and token):
            token += c
        elif category in ("Nd", "Cf"):
            continue
        else:
            out.append(token)
            token = ""
    out.append(token)
    return [token for token in out if token]


def table(source):
    """The words of a language, as text."""
    header, *steps = msgpack.load(source, raw=False)
    assert header == {"format": "cB", "version": 1}, header
    frequency = defaultdict(float)
    for centibels, words in enumerate(steps):
        for word in words:
            for token in tokens(word):
                frequency[token] += 10 ** (-centibels / 100)
    best = sorted(frequency.items(), key=lambda row: (-row[1], row[0]))[:WORDS]
    rows = defaultdict(list)
    for token, share in best:
        rows[round(-100 * math.log10(share) / STEP) * STEP].append(token)
    lines = (f"{step}\t{' '.join(sorted(rows[step]))}\n" for step in sorted(rows))
    return "".join(lines)


def main(wheel):
    digest = hashlib.sha256(pathlib.Path(wheel).read_bytes()).hexdigest()
    assert digest == SHA256, f"{wheel} is not the pinned one: {digest}"
    here = pathlib.Path(__file__).parent
    with zipfile.ZipFile(wheel) as files:
        for code, theirs in LANGUAGES.items():
            packed = files.read(f"wordfreq/data/small_{theirs}.msgpack.gz")
            text = table(gzip.open(io.BytesIO(packed)))
            with open(here / f"{code}.gz", "wb") as raw:
                with gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
                    out.write(text.encode())


main(sys.argv[1])
