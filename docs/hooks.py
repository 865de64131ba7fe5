"""Make MathML of formulas, and list the versions of a site.

Browsers show MathML without a script, so a page needs nothing from the network and can be read
offline.
"""

from __future__ import annotations

import html
import os
import re


def on_config(config):
    if os.environ.get("RIEMDP_DOCS_VERSIONED"):  # tools/docs_version.py: there is a list beside it
        config["extra"]["version"] = {"provider": "mike"}  # the form of versions.json
    return config


_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


# A lemma of a proof page can be linked: proofs/composition.html#lemma-4.
_LEMMA = re.compile(r"^\*\*(Lemma|Theorem) (\d+)\b", re.MULTILINE)


def on_page_markdown(markdown, page, config, files):
    return _LEMMA.sub(lambda m: f'<a id="{m[1].lower()}-{m[2]}"></a>{m[0]}', markdown)


# Markdown takes a `*` or `_` of a formula in plain text for emphasis.
_EATEN = re.compile(r"<em>((?:(?!</em>).)+)</em>", re.DOTALL)


_BAR = re.compile(r"<mo[^>]*>&#x(?:0007C|02016|02223);</mo>")
_FUNCTION = r"<mi>(?:arccos|arcsin|cos|cot|exp|ln|log|max|min|sin|tan)</mi>"
_INDEX = "(?:<mi>.</mi>|<mrow>.*?</mrow>)"
_NAMED = rf"(?:(?<!<msub>)(?<!<msup>){_FUNCTION}|<msub>{_FUNCTION}{_INDEX}</msub>)"
_OPERAND = r"(?=<m(?:i|n|sub|sup|frac)>)"


def on_page_content(content, page, config, files):
    for eaten in _EATEN.findall(content):
        text = html.unescape(re.sub(r"<[^>]+>", "", eaten))
        if re.search(r"[=^]|<=", text):
            raise ValueError(f"{page.file.src_uri}: put a formula into $ or code: {text}")

    def made(found):
        latex = html.unescape(found[3]).strip()
        try:
            return _mathml(latex, "block" if found[2] == "[" else "inline")
        except Exception as error:
            raise ValueError(f"{page.file.src_uri}: {latex} is no formula: {error}") from error

    return _FORMULA.sub(made, content)


def _mathml(latex: str, display: str) -> str:
    """A formula as MathML, with the spaces about bars and function names that TeX would leave."""
    from latex2mathml.converter import convert

    text = convert(latex, display=display)
    if "\\" in text:  # a command that the converter does not know stays as it is
        raise ValueError("it holds a command that is not known")
    named = iter(re.findall(r"\\(lvert|rvert|lVert|rVert|mid)(?![A-Za-z])", latex))
    forms = {"l": "prefix", "r": "postfix"}

    def bar(found):
        name = next(named)
        if name == "mid":
            return found[0]
        sign = "|" if name[1] == "v" else "\N{DOUBLE VERTICAL LINE}"
        form = forms[name[0]]
        return f'<mo form="{form}" stretchy="false" lspace="0em" rspace="0em">{sign}</mo>'

    text = _BAR.sub(bar, text)
    # A prime is a raised character by itself; as an exponent it would be raised and shrunk again.
    prime = r'<mrow>\1<mo lspace="0em" rspace="0em">&#x02032;</mo></mrow>'
    text = re.sub(r"<msup>(<mi>.</mi>)<mi>&#x02032;</mi></msup>", prime, text)
    text = text.replace("<mo>&#x0002F;</mo>", '<mo lspace="0em" rspace="0em">/</mo>')
    thin = '<mspace width="0.167em"/>'
    text = re.sub(rf"({_NAMED}){_OPERAND}", rf"\1{thin}", text)
    text = re.sub(rf"(</m(?:i|n|sub|sup|frac|sqrt)>)(?={_FUNCTION})", rf"\1{thin}", text)
    return text.replace("<math ", f'<math alttext="{html.escape(latex)}" ', 1)
