"""Prints the on-call manual as Markdown, or as one HTML page that needs nothing else."""

import html
import re
from collections.abc import Iterable, Iterator

from oncall.neutral import neutral
from oncall.playbook.runbook_block import Block

_CODE = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"([\\<>\[\]*])")
_LANGUAGES = {"code": "sh", "query": "promql"}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}pre{background:#f3f3f3;padding:.6rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    "code{font-size:.9em}h2{margin-top:3rem;border-top:2px solid #888}h4{margin-bottom:.3rem}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#262626}a{color:#8ab4f8}}"
    "@media print{body{font-size:10pt;max-width:none;margin:0;color:#000;background:#fff}a{color:#000}"
    "pre{border:1px solid #999;background:#fff}pre,li{break-inside:avoid}h2{break-before:page}"
    "h3,h4,p:has(+pre){break-after:avoid}}"
)


def as_markdown(blocks: Iterable[Block]) -> str:
    """The manual as Markdown; anchors are HTML, which every renderer keeps."""
    return "\n".join(_markdown(blocks)).lstrip("\n") + "\n"


def _markdown(blocks: Iterable[Block]) -> Iterator[str]:
    before = ""
    for block in blocks:
        if block.kind != "item" or before != "item":
            yield ""
        if block.kind == "heading":
            yield f'<a id="{html.escape(block.anchor or "")}"></a>\n'
            yield f"{'#' * block.level} {_plain(block.text)}"
        elif block.kind in _LANGUAGES:
            yield f"```{_LANGUAGES[block.kind]}\n{neutral(block.text)}\n```"
        else:
            link = f" [{_plain(block.label)}](#{block.anchor})" if block.label else ""
            yield f"{'- ' if block.kind == 'item' else ''}{_plain(block.text)}{link}"
        before = block.kind


def _plain(text: str) -> str:
    """Text whose only markup is code in backticks."""
    parts = _CODE.split(neutral(text))
    return "".join(f"`{part}`" if odd % 2 else _MARKUP.sub(r"\\\1", part) for odd, part in enumerate(parts))


def as_html(blocks: Iterable[Block]) -> str:
    """The manual as a page; everything that is not ours is escaped."""
    known = tuple(blocks)
    body = "\n".join(_html(known))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(neutral(known[0].text))}</title><style>{_STYLE}</style></head><body>\n{body}\n"
        "</body></html>\n"
    )


def _html(blocks: Iterable[Block]) -> Iterator[str]:
    before = ""
    for block in blocks:
        if before == "item" and block.kind != "item":
            yield "</ul>"
        if block.kind == "item" and before != "item":
            yield "<ul>"
        yield _element(block)
        before = block.kind
    if before == "item":
        yield "</ul>"


def _element(block: Block) -> str:
    text, anchor = _inline(block.text), html.escape(block.anchor or "")
    if block.kind == "heading":
        return f'<h{block.level} id="{anchor}">{text}</h{block.level}>'
    if block.kind in _LANGUAGES:
        return f"<pre><code>{html.escape(neutral(block.text))}</code></pre>"
    link = f' <a href="#{anchor}">{_inline(block.label)}</a>' if block.label else ""
    tag = "li" if block.kind == "item" else "p"
    return f"<{tag}>{text}{link}</{tag}>"


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(neutral(text)))
