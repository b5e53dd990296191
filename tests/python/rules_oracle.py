"""Compares the results of the selectors in src/rules/tests/oracle with those of lxml and cssselect.

    python tests/python/rules_oracle.py OUT

OUT is the output of the test `rules::oracle`: each page as XML, and the texts that each expression
found on it, XPath first, then CSS. Needs lxml and cssselect.
"""

import collections
import json
import pathlib
import sys
import time

from lxml import etree
from lxml.cssselect import CSSSelector

out = pathlib.Path(sys.argv[1])
here = pathlib.Path(__file__).parent.parent.parent / "src/rules/tests/oracle"
xpaths = (here / "xpath.txt").read_text().splitlines()
css = (here / "css.txt").read_text().splitlines()
selectors = [CSSSelector(line, translator="html") for line in css]
parser = etree.XMLParser(huge_tree=True)


def text(node):
    if isinstance(node, str):
        return str(node)
    if node.tag is etree.Comment:
        return node.text or ""
    return "".join(t for t in node.xpath(".//text()"))


def value(found):
    if isinstance(found, bool):
        return ["true" if found else "false"]
    if isinstance(found, float):
        return [str(int(found)) if found == found and found.is_integer() else "NaN" if found != found else repr(found)]
    if isinstance(found, str):
        return [str(found)]
    return [text(node) for node in found]


pages = equal = 0
differ = collections.Counter()
spent = 0.0
for path in sorted(out.glob("*.json")):
    page = json.loads(path.read_text())
    tree = etree.fromstring(path.with_suffix(".xml").read_bytes(), parser).getroottree()
    pages += 1
    for name, own, run in zip(
        xpaths + css,
        page["found"],
        [lambda e=e: value(tree.xpath(e)) for e in xpaths] + [lambda s=s: value(s(tree)) for s in selectors],
    ):
        begun = time.process_time()
        found = run()
        spent += time.process_time() - begun
        if found == own:
            equal += 1
        else:
            differ[name] += 1
            if differ[name] == 1:
                print("differs:", name, page["page"], len(own), len(found))
                for a, b in zip(own, found):
                    if a != b:
                        print("   own ", a[:100].encode())
                        print("   lxml", b[:100].encode())
                        break
print(f"{pages} pages, {len(xpaths)} XPath and {len(css)} CSS: {equal} of {pages * (len(xpaths) + len(css))} equal")
for name, n in differ.most_common():
    print(n, name)
sys.exit(bool(differ))
