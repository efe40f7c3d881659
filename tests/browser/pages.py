"""What is in a page: elements, words, and the numbers of its scatter plot."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
from api import fit_html
from browser.reports import case


class Elements(HTMLParser):
    """Every element with its attributes, the texts, and the contents of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.found, self.words, self.code = [], [], {"script": [], "style": []}
        self.inside = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag in self.code:
            self.inside = tag
            self.code[tag].append("")

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        if self.inside:
            self.code[self.inside][-1] += data
        else:
            self.words.append(data)

    def tags(self, name):
        return [attributes for tag, attributes in self.found if tag == name]


def page_of(name):
    return fit_html(*case(name))


def data_of(page):
    """The numbers of the scatter plot."""
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])


def decoded(words, kind):
    return np.frombuffer(base64.b64decode(words), kind)


def plain(page):
    return " ".join(" ".join(Elements(page).words).split())
