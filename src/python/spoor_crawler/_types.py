"""The keys of what the iterators return. Their meanings are in the output of
``spoor schema document`` and ``spoor schema sidecar``; a key without a value is absent or None."""

from __future__ import annotations

from typing import Any, TypedDict

Context = TypedDict(
    "Context",
    {
        "alt": "str",
        "alt_kind": "str",
        "aria_label": "str",
        "caption": "str",
        "class": "str",
        "credit": "str",
        "declared_height": "int",
        "declared_width": "int",
        "document_perplexity": "float",
        "figcaption": "str",
        "file_name": "str",
        "found": "list[dict[str, Any]]",
        "heading": "str",
        "in_main_text": "bool",
        "link_target": "str",
        "page": "str",
        "page_language": "str",
        "page_recognised_language": "str",
        "page_title": "str",
        "parent_distances": "list[int]",
        "parents": "list[str]",
        "rank": "float",
        "scores": "dict[str, Any]",
        "sibling_distances": "list[int]",
        "siblings": "list[str]",
        "terms": "dict[str, Any]",
        "title": "str",
    },
    total=False,
)
"""The words around an image on one page."""

Document = TypedDict(
    "Document",
    {
        "authors": "list[str]",
        "block_kinds": "list[str]",
        "block_offsets": "list[int]",
        "canonical": "str",
        "charset": "str",
        "charset_used": "str",
        "contrast": "float",
        "control": "bool",
        "controls_removed": "int",
        "declared_language": "str",
        "extractor": "str",
        "fetched": "str",
        "fields": "list[dict[str, Any]]",
        "hash": "str",
        "hops": "int",
        "image_blocks": "list[int]",
        "image_urls": "list[str]",
        "language": "str",
        "language_certainty": "float",
        "licences": "list[str]",
        "mime": "str",
        "modified": "str",
        "near_copy_of": "str",
        "on_topic": "float",
        "perplexity": "float",
        "published": "str",
        "replaces": "dict[str, Any]",
        "rule": "str",
        "terms": "dict[str, Any]",
        "text": "str",
        "title": "str",
        "url": "str",
        "via": "str",
        "words": "int",
    },
    total=False,
)
"""A page with its main text."""

Image = TypedDict(
    "Image",
    {
        "animated": "bool",
        "bytes": "int",
        "content_type": "str",
        "contexts": "list[Context]",
        "decoded": "bool",
        "fetched": "str",
        "file": "str",
        "format": "str",
        "height": "int",
        "mislabelled": "dict[str, Any]",
        "path": "str",
        "phash": "str",
        "same_as": "str",
        "sha256": "str",
        "terms": "dict[str, Any]",
        "url": "str",
        "version": "int",
        "width": "int",
    },
    total=False,
)
"""An image; `path` is that of its file."""
