"""Loads exports with the packages they are made for, as their users would.

    load.py FORMAT FOLDER [FORMAT FOLDER]...

Prints one line of JSON for each way of loading, with the number of the export and the samples in
order: rank, text, caption, parents, time of the fetch, digest of the file, and format and size of
the decoded picture. For an export of text, whose format begins with "text-", a sample is address,
text, words, authors, probability and time of the fetch.

Importing the packages takes seconds, so one process loads all exports of a test. There is no
network access.
"""

import glob
import hashlib
import io
import json
import os
import sys
import tempfile

for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
    os.environ[name] = "1"
cache = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = cache.name

import datasets  # noqa: E402
import duckdb  # noqa: E402
import pandas  # noqa: E402
import PIL.Image  # noqa: E402
import pyarrow.parquet  # noqa: E402
import webdataset  # noqa: E402

datasets.disable_progress_bars()
IMAGES = ("image", "jpg", "png", "gif", "webp", "bmp", "tif", "ico")


def given(value):
    """The value, or None for null and for the NaN that pandas makes of it."""
    return None if value is None or value is pandas.NA or value != value else value


def moment(value):
    return None if value is None else pandas.Timestamp(value).strftime("%Y-%m-%dT%H:%M:%S")


def sample(row, data=None, picture=None):
    """A sample of a row, the bytes of its file, and the picture as the package decoded it. If the
    package did not, the picture is decoded from the bytes."""
    if picture is None and data is not None:
        picture = PIL.Image.open(io.BytesIO(data))
    if picture is not None:
        picture.load()
    return {
        "rank": int(row["rank"]),
        "url": row["url"],
        "text": given(row["text"]),
        "caption": given(row["caption"]),
        "parents": list(row["parents"]),
        "fetched": moment(row["fetched"]),
        "sha256": data and hashlib.sha256(data).hexdigest(),
        "size": picture and list(picture.size),
    }


def of_dataset(loaded):
    """The samples of a data set of `datasets`: first decoded, then the bytes."""
    columns = [n for n in IMAGES if n in loaded.column_names]
    raw = loaded
    for name in columns:
        assert isinstance(loaded.features[name], datasets.Image), loaded.features
        raw = raw.cast_column(name, datasets.Image(decode=False))
    for decoded, stored in zip(loaded, raw, strict=True):
        row = stored.get("json") or stored
        there = [n for n in columns if stored[n] is not None]
        if not there:
            yield sample(row)
            continue
        (name,) = there
        data = stored[name]["bytes"]
        if data is None:
            with open(stored[name]["path"], "rb") as file:
                data = file.read()
        if "txt" in stored:
            assert stored["txt"] == (row["text"] or "")
        yield sample(row, data, decoded[name])


def of_files(table, folder):
    for _, row in table.iterrows():
        if "file_name" in row:
            with open(os.path.join(folder, row["file_name"]), "rb") as file:
                yield sample(row, file.read())
        else:
            yield sample(row)


def of_shards(shards):
    stored = webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)
    decoded = webdataset.WebDataset(shards, shardshuffle=False).decode("pil")
    for raw, seen in zip(stored, decoded, strict=True):
        assert raw["__key__"] == seen["__key__"] and "." not in raw["__key__"]
        there = [n for n in IMAGES if n in raw]
        assert seen["txt"] == (seen["json"]["text"] or "")
        data = raw[there[0]] if there else None
        picture = seen[there[0]] if there else None
        # webdataset decodes fewer formats than PIL, and leaves the others as bytes.
        yield sample(seen["json"], data, None if isinstance(picture, bytes) else picture)


def of_table(table):
    for _, row in table.iterrows():
        yield sample(row, row["image"]["bytes"] if "image" in row else None)


def document(row):
    return {
        "url": row["url"],
        "title": given(row["title"]),
        "text": row["text"],
        "words": int(row["words"]),
        "authors": list(row["authors"]),
        "on_topic": given(row["on_topic"]),
        "published": given(row["published"]),
        "fetched": moment(row["fetched"]),
        "noai": bool(row["noai"]),
    }


def of_documents(table):
    return [document(row) for _, row in table.iterrows()]


def of_duckdb(pattern):
    """The rows of all files, ordered by file name."""
    duckdb.sql("SET TimeZone = 'UTC'")
    return of_documents(duckdb.sql(f"SELECT * FROM '{pattern}'").df())


def text_ways(form, folder):
    """Each way of loading documents, by name."""
    loaded = datasets.load_dataset(folder, split="train")
    yield "datasets", [document(row) for row in loaded]
    if form == "text-txt":
        return
    if form == "text-parquet":
        data = os.path.join(folder, "parquet")
        yield "pandas", of_documents(pandas.read_parquet(data))
        yield "pyarrow", of_documents(pyarrow.parquet.read_table(data).to_pandas())
        yield "duckdb", of_duckdb(os.path.join(data, "*.parquet"))
    elif form == "text-jsonl":
        data = os.path.join(folder, "documents")
        files = sorted(glob.glob(os.path.join(data, "*.jsonl*")))
        tables = [pandas.read_json(file, lines=True, dtype=False) for file in files]
        yield "pandas", of_documents(pandas.concat(tables))
        ending = "*.jsonl.gz" if files[0].endswith(".gz") else "*.jsonl"
        yield "duckdb", of_duckdb(os.path.join(data, ending))
    else:
        sys.exit(f"{form}: no format of an export")


def ways(form, folder):
    """Each way of loading, by name."""
    if form.startswith("text-"):
        yield from text_ways(form, folder)
        return
    # Uses the front matter of the data card.
    yield "datasets", of_dataset(datasets.load_dataset(folder, split="train"))
    if form == "imagefolder":
        loaded = datasets.load_dataset("imagefolder", data_dir=folder, split="train")
        yield "imagefolder", of_dataset(loaded)
    elif form == "webdataset":
        shards = sorted(glob.glob(os.path.join(folder, "*.tar")))
        yield "webdataset", of_shards(shards)
    elif form == "parquet":
        data = os.path.join(folder, "data")
        yield "pandas", of_table(pandas.read_parquet(data))
        yield "pyarrow", of_table(pyarrow.parquet.read_table(data).to_pandas())
        loaded = datasets.load_dataset("parquet", data_dir=folder, split="train")
        yield "parquet", of_dataset(loaded)
    elif form == "jsonl":
        file = os.path.join(folder, "data.jsonl")
        table = pandas.read_json(file, lines=True, dtype=False)
        yield "pandas", of_files(table, folder)
    else:
        sys.exit(f"{form}: no format of an export")


for number, (form, folder) in enumerate(zip(sys.argv[1::2], sys.argv[2::2], strict=True)):
    for way, samples in ways(form, folder):
        print(json.dumps({"export": number, "way": way, "samples": list(samples)}))
