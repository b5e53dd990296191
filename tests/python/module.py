"""Reads a job and a corpus with the module of the wheel.

    module.py JOB CORPUS FILE PAGES IMAGES

PAGES and IMAGES are how many the job has; CORPUS and FILE have as many documents as PAGES.
"""

import json
import os
import subprocess
import sys
import typing

import spoor_crawler
from spoor_crawler import Context, Document, Image, SpoorError


def keys_of(kind):
    return set(typing.get_type_hints(kind))


def main(job, corpus, file, pages, images):
    documents = list(spoor_crawler.documents(job))
    assert len(documents) == pages, len(documents)
    assert len({document["url"] for document in documents}) == pages
    assert all(isinstance(document["text"], str) for document in documents)
    schema = subprocess.check_output([spoor_crawler.program(), "schema", "document"])
    assert keys_of(Document) == set(json.loads(schema)["properties"])

    pictures = list(spoor_crawler.images(job))
    assert len(pictures) == images, len(pictures)
    for picture in pictures:
        assert os.path.getsize(picture["path"]) == picture["bytes"]
        assert picture["contexts"][0]["page"]
    schema = json.loads(subprocess.check_output([spoor_crawler.program(), "schema", "sidecar"]))
    assert keys_of(Image) == set(schema["properties"]) | {"path"}
    assert keys_of(Context) == set(schema["$defs"]["ImageContext"]["properties"])

    for path in [corpus, file]:
        read = list(spoor_crawler.read(path))
        assert [row["text"] for row in read] == [document["text"] for document in documents]

    # An iterator that is left ends the program.
    begun = spoor_crawler.documents(job)
    next(begun)
    begun.close()

    for call in [
        lambda: list(spoor_crawler.documents(job + ".missing")),
        lambda: list(spoor_crawler.images(file)),
        lambda: spoor_crawler.run("config", "check", job + ".missing"),
    ]:
        try:
            call()
        except SpoorError as error:
            assert str(error), error
        else:
            raise AssertionError("no SpoorError")

    code = [sys.executable, "-m", "spoor_crawler", "--version"]
    assert subprocess.check_output(code, text=True).startswith("spoor ")

    try:
        import datasets
    except ImportError:
        return
    rows = ({key: document.get(key) for key in ("url", "title", "text")} for document in documents)
    assert datasets.Dataset.from_list(list(rows)).num_rows == pages


main(*sys.argv[1:4], *map(int, sys.argv[4:]))
