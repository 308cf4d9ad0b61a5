"""Prints the on-call manual as Markdown, or as one HTML page that needs nothing else."""

import html
import re
from collections.abc import Iterable, Iterator

from oncall.neutral import neutral
from oncall.playbook.runbook import Block

_CODE = re.compile(r"`([^`]+)`")
_LANGUAGES = {"code": "sh", "query": "promql"}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}pre{background:#f3f3f3;padding:.6rem;overflow-x:auto}code{font-size:.9em}h2{margin-top:3rem;"
    "border-top:2px solid #888}h4{margin-bottom:.3rem}nav ul{columns:2}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#262626}a{color:#8ab4f8}}"
)


def as_markdown(blocks: Iterable[Block]) -> str:
    """The manual as Markdown; anchors are HTML, which every renderer keeps."""
    return "\n".join(_markdown(blocks)) + "\n"


def _markdown(blocks: Iterable[Block]) -> Iterator[str]:
    before = ""
    for block in blocks:
        text = neutral(block.text)
        if block.kind != "item" or before != "item":
            yield ""
        if block.kind == "heading":
            yield f'<a id="{block.anchor}"></a>'
            yield f"{'#' * block.level} {text}"
        elif block.kind in _LANGUAGES:
            yield f"```{_LANGUAGES[block.kind]}\n{text}\n```"
        elif block.kind == "item":
            yield f"- [{text}](#{block.anchor})" if block.anchor else f"- {text}"
        else:
            yield text
        before = block.kind


def as_html(blocks: Iterable[Block]) -> str:
    """The manual as a page with a table of contents; everything that is not ours is escaped."""
    known = tuple(blocks)
    title = html.escape(known[0].text)
    contents = "".join(
        f'<li><a href="#{html.escape(b.anchor or "")}">{_inline(b.text)}</a></li>' for b in known if b.level == 2
    )
    body = "\n".join(_html(known))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n<nav><ul>{contents}</ul></nav>\n{body}\n</body></html>\n"
    )


def _html(blocks: Iterable[Block]) -> Iterator[str]:
    before = ""
    for block in blocks:
        if before == "item" and block.kind != "item":
            yield "</ul>"
        if block.kind == "item" and before != "item":
            yield "<ul>"
        text = _inline(block.text)
        if block.kind == "heading":
            yield f'<h{block.level} id="{html.escape(block.anchor or "")}">{text}</h{block.level}>'
        elif block.kind in _LANGUAGES:
            yield f"<pre><code>{html.escape(neutral(block.text))}</code></pre>"
        elif block.kind == "item":
            yield f'<li><a href="#{html.escape(block.anchor)}">{text}</a></li>' if block.anchor else f"<li>{text}</li>"
        else:
            yield f"<p>{text}</p>"
        before = block.kind
    if before == "item":
        yield "</ul>"


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(neutral(text)))
