"""Writes and reads archives with packages that other people use.

    warc.py write FOLDER    writes files with warcio and fastwarc to FOLDER
    warc.py read FILE...    prints a line of JSON per file: what each package reads
"""

import io
import json
import pathlib
import sys

from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecord, WarcRecordType
from fastwarc.stream_io import GzipWriter, ZstdWriter, zstd_train_dictionary_from_samples
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter


def body(n):
    return ("<p>Page %d.</p>\n" % n * (50 + n)).encode()


def by_warcio(path, gzip, version):
    with open(path, "wb") as out:
        writer = WARCWriter(out, gzip=gzip, warc_version=version)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "warcio"}))
        for n in range(20):
            url = "http://a.test/%d" % n
            head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
            record = writer.create_warc_record(url, "response", payload=io.BytesIO(body(n)), http_headers=head)
            writer.write_record(record)
            digest = record.rec_headers.get_header("WARC-Payload-Digest")
            date = record.rec_headers.get_header("WARC-Date")
            request = StatusAndHeaders("GET /%d HTTP/1.1" % n, [("Host", "a.test")], is_http_request=True)
            writer.write_record(writer.create_warc_record(url, "request", http_headers=request))
            writer.write_record(writer.create_revisit_record(url, digest, url, date, http_headers=head))


def by_fastwarc(path, open_stream):
    # With a file name instead of a file, fastwarc's ZstdWriter takes no dictionary.
    with open(path, "wb") as out:
        stream = open_stream(out)
        for n in range(20):
            record = WarcRecord()
            record.init_headers(WarcRecordType.response)
            record.headers["WARC-Target-URI"] = "http://a.test/%d" % n
            record.set_bytes_content(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body(n))
            record.is_http = True
            record.write(stream, checksum_data=True)
            stream.finish()
        stream.close()


def write(folder):
    folder = pathlib.Path(folder)
    by_warcio(folder / "warcio.warc.gz", True, "WARC/1.1")
    by_warcio(folder / "warcio.warc", False, "WARC/1.0")
    by_fastwarc(folder / "fastwarc.warc.gz", GzipWriter)
    by_fastwarc(folder / "fastwarc.warc.zst", ZstdWriter)
    trained = zstd_train_dictionary_from_samples([body(n) for n in range(200)], 4096)
    with_dictionary = lambda out: ZstdWriter(out, dictionary=trained)
    by_fastwarc(folder / "dictionary.warc.zst", with_dictionary)
    packed = lambda out: ZstdWriter(out, dictionary=trained, compress_dictionary_frame=True)
    by_fastwarc(folder / "packed.warc.zst", packed)


def read_by_warcio(path):
    records, wrong, stopped = 0, 0, False
    try:
        with open(path, "rb") as file:
            for record in ArchiveIterator(file, check_digests=True):
                record.content_stream().read()
                records += 1
                wrong += record.digest_checker.passed is False
    except Exception:
        stopped = True
    return {"records": records, "wrong": wrong, "stopped": stopped}


def read_by_fastwarc(path):
    records, wrong, stopped = 0, 0, False
    try:
        with open(path, "rb") as file:
            for record in FastIterator(file, parse_http=False):
                right = record.verify_block_digest()
                record.reader.read()
                records += 1
                wrong += "WARC-Block-Digest" in record.headers and not right
    except Exception:
        stopped = True
    return {"records": records, "wrong": wrong, "stopped": stopped}


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    for path in sys.argv[2:]:
        print(json.dumps({"warcio": read_by_warcio(path), "fastwarc": read_by_fastwarc(path)}))
