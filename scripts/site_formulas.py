"""Formulas in the prose of a page, written in Unicode for whoever reads the file, set as formulas on the site.

`set_formulas(markdown)` finds runs such as ‖x − m‖² ≤ r² in paragraphs and tables and wraps them for KaTeX; indented blocks
become lines of formulas. The Unicode stays in the text, TeX goes into `data-tex`, which Markdown does not touch: `formulas.js`
sets it, and leaves the text where KaTeX does not take it. Code, links, headings and displayed formulas stay as they are.
"""

from __future__ import annotations

import html
import re
import unicodedata

NAMES = (
    "alpha beta gamma delta varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau varphi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega varsigma"
)
GREEK = dict(zip("αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΠΣΦΨΩς", NAMES.split()))
SIGNS = {
    "‖": r"\Vert ", "·": r"\cdot ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≽": r"\succeq ", "∈": r"\in ",
    "×": r"\times ", "±": r"\pm ", "→": r"\to ", "←": r"\gets ", "↦": r"\mapsto ", "∇": r"\nabla ", "∂": r"\partial ",
    "∞": r"\infty ", "⟨": r"\langle ", "⟩": r"\rangle ", "∘": r"\circ ", "⊗": r"\otimes ", "−": "-", "ℓ": r"\ell ",
    "…": r"\dots ", "∫": r"\int ", "∏": r"\prod ", "½": r"\tfrac12 ", "¼": r"\tfrac14 ", "%": r"\%", "∎": r"\blacksquare ",
    "~": r"\sim ", "∪": r"\cup ", "ᵀ": r"^{\top}", "′": "'", "√": r"\surd ", "⌈": r"\lceil ", "⌉": r"\rceil ", "₊": "_{+}",
    "⪰": r"\succeq ", "ℝ": r"\mathbb{R}", "ᵖ": "^{p}", "∼": r"\sim ", "ᵈ": "^{d}", "∝": r"\propto ",
}  # fmt: skip
ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0307": "dot"}
RAISED, LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "₀₁₂₃₄₅₆₇₈₉"
TELLING = "".join(GREEK) + "".join(sign for sign in SIGNS if sign not in "%…~′−") + RAISED + LOWERED
MATH = re.compile(f"[{TELLING}]|\\w[_^][\\w({{]")
OPERATOR = re.compile(r"^[=≤≥<>+−\-·∈≈≠/×±→←↦≽⊗∘~]$")
BEGINNING = re.compile(r"[(\[]*(?:[A-Za-z]|log|exp|max|min)(?:\(\w+)?[²³]?|\d[\d.,]*")  # of a formula, if an operator follows
SUM = re.compile(r"[Σ∏](_\S+)?$")
KEPT = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\)|<!--.*?-->|<[^>]+>|\*\*|\$\$.*?\$\$)")
KNOWN = {"min", "max", "log", "exp", "ln", "sup", "inf", "det", "arg"}
FUNCTIONS = KNOWN | {"tr", "sign", "clip", "diag", "mod", "prox", "abs"}


def set_formulas(markdown: str) -> str:
    """The page with its formulas wrapped."""
    found, fenced, displayed, block = [], False, False, []
    for line in [*markdown.split("\n"), ""]:
        fenced ^= line.startswith("```")
        displayed ^= line.strip() == "$$"
        if line.startswith("    ") and not fenced and not displayed:
            block.append(line.strip())
            continue
        if block:
            found.append('<div class="formulas">' + "".join(f"<div>{_row(row)}</div>" for row in block) + "</div>\n")
            block = []
        plain = fenced or displayed or line.startswith(("```", "$$", "#", "Code:", "Tests:", "|--", "    "))
        found.append(line if plain else _prose(line))
    return "\n".join(found[:-1])


def _row(line: str) -> str:
    """A line of an indented block: parts with wide gaps between them, each a formula or words with formulas."""
    parts = re.split(r"\s{3,}", line)
    plain = [html.escape(part, quote=False) for part in parts]
    return "<span class='gap'></span>".join(_prose(part) if _words(part) else _wrapped(part) for part in plain)


def _words(text: str) -> bool:
    text = re.sub(r"[_^]\{[^}]*\}", "", text)  # what stands in an index is part of its formula
    return any(word.lower() not in FUNCTIONS for word in re.findall(r"(?<![\w_^])(?:[A-Za-z]{3,}|is|at)(?![\w_(])", text))


def _prose(line: str) -> str:
    parts = KEPT.split(line)
    cells = [part if place % 2 else _cells(part) for place, part in enumerate(parts)]
    return "".join(cells)


def _cells(text: str) -> str:
    """A bar ends a cell of a table: no formula goes over it, unless it was escaped."""
    return "|".join(_runs(cell) for cell in re.split(r"(?<!\\)\|", text))


def _runs(text: str) -> str:
    pieces = re.split(r"(\s+)", text)
    tokens, found, place = pieces[0::2], [], 0
    gaps = [*pieces[1::2], ""]
    while place < len(tokens):
        end = _end(tokens, place)
        if end == place:
            found.append(tokens[place] + gaps[place])
            place += 1
            continue
        run = "".join(token + gap for token, gap in zip(tokens[place:end], gaps[place:end]))
        gap = gaps[end - 1]
        run = run[: len(run) - len(gap)] if gap else run
        found.append(_trimmed(run) + gap)
        place = end
    return "".join(found)


def _end(tokens: list[str], start: int) -> int:
    """One past the last token of the formula that begins here; `start` where none does."""
    first = tokens[start]
    if re.search(r"[a-z]{3,}_[a-z]{3,}", first):  # the name of a file or of a table
        return start
    ahead = start + 2 < len(tokens) and OPERATOR.match(tokens[start + 1])
    ahead = ahead and (tokens[start + 1] not in "-−/<>" or MATH.search(tokens[start + 2]))
    if not (MATH.search(first) or (ahead and BEGINNING.fullmatch(first))) or _words(first):
        return start
    end = start + 1
    while end < len(tokens):
        run = " ".join(tokens[start:end])
        open_ = _unbalanced(run) > 0 or run.count("‖") % 2 == 1
        token, before = tokens[end], tokens[end - 1]
        joined = OPERATOR.match(before) or OPERATOR.match(token) or "…" in (before, token) or open_ or SUM.search(before)
        ended = re.search(r"[.;:,]$", before) and not open_
        if ended or not joined or _words(token) or token in ("", "|"):
            break
        after = tokens[end + 1] if end + 1 < len(tokens) else ""
        if OPERATOR.match(token) and (_words(after) or after in ("", "|")):
            break
        end += 1
    return end


def _trimmed(run: str) -> str:
    """Punctuation at the end, and brackets that were opened or closed elsewhere, stay outside."""
    head, tail = "", ""
    while run and ((run[-1] in ".;:,?*" and not run.endswith("\\*")) or (run[-1] in ")]" and _unbalanced(run) < 0)):
        run, tail = run[:-1], run[-1] + tail
    while run and (run[0] in "*" or (run[0] in "([" and _unbalanced(run) > 0)):
        head, run = head + run[0], run[1:]
    return head + (_wrapped(run) if MATH.search(run) or "=" in run else run) + tail


def _unbalanced(text: str) -> int:
    return sum((mark in "([{⟨") - (mark in ")]}⟩") for mark in text)


def _wrapped(plain: str) -> str:
    tex = to_tex(html.unescape(plain).replace("\\|", "|")).replace("|", r"\vert ")  # a bar would end the cell of a table
    return f'<span class="formula" data-tex="{html.escape(tex, quote=True)}">{plain}</span>'


def to_tex(text: str) -> str:
    """TeX of a formula in Unicode.

    >>> to_tex("‖x − m₁‖² ≤ √(2r)·e^(ε/2)")
    '\\\\Vert x - m_{1}\\\\Vert ^{2} \\\\le  \\\\sqrt{2r}\\\\cdot e^{\\\\varepsilon /2}'
    """
    text = "".join(unicodedata.normalize("NFD", mark) if mark.isalpha() else mark for mark in text)
    text = text.replace("\\*'", "^(*')").replace("\\*", "^*").replace("″", "''")
    text = re.sub("(.)([\u0302\u0303\u0304\u0307])", lambda found: f"\\{ACCENTS[found[2]]} {found[1]}", text)
    text = text.replace("{", "\\{").replace("}", "\\}") if not re.search(r"[_^]\{", text) else text
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "{,}", text)
    found, place = [], 0
    while place < len(text):
        mark = text[place]
        if mark == "√":
            inner, place = _argument(text, place + 1)
            found.append(f"\\sqrt{{{to_tex(inner)}}}")
        elif mark in "_^" and place + 1 < len(text) and text[place + 1] != "{":
            inner, place = _argument(text, place + 1)
            found.append(f"{mark}{{{to_tex(inner)}}}")
        elif mark in RAISED or mark in LOWERED:
            kind = RAISED if mark in RAISED else LOWERED
            run = re.match(f"[{kind}]+", text[place:])[0]  # type: ignore[index]
            digits = "".join("-" if one == "⁻" else str(kind.index(one)) for one in run)
            found.append(f"{'^' if kind is RAISED else '_'}{{{digits}}}")
            place += len(run)
        elif mark == "Σ":
            found.append("\\sum ")
            place += 1
        elif mark in GREEK:
            found.append(f"\\{GREEK[mark]} ")
            place += 1
        elif word := re.match(r"(?<!\\)[A-Za-z]{2,}", text[place:]):
            name = word[0]
            product = name.isupper() and name not in ("DP", "GDP", "RDP")  # CWR is C times W times R
            named = (len(name) > 2 and not product) or name in FUNCTIONS or name.lower() in ("in", "or", "if")
            found.append(f"\\{name} " if name in KNOWN else f"\\mathrm{{{name}}}" if named else name)
            place += len(name)
        elif mark == "\\" and (command := re.match(r"\\(hat|tilde|bar|dot) |\\[{}]", text[place:])):
            found.append(command[0])
            place += len(command[0])
        else:
            found.append(SIGNS.get(mark, mark))
            place += 1
    return "".join(found)


def _argument(text: str, place: int) -> tuple[str, int]:
    """What a root, a power or an index holds: a bracket without its signs, or one name or number with its own index."""
    if place < len(text) and text[place] == "(":
        depth = 0
        for end in range(place, len(text)):
            depth += (text[end] == "(") - (text[end] == ")")
            if depth == 0:
                return text[place + 1 : end], end + 1
        return text[place + 1 :], len(text)
    single = re.match(
        r"Σ[^\s=≤≥+−)/]*|\\(?:hat|tilde|bar|dot) \w|[A-Za-z](?=[A-Za-z]_)|"
        rf"-?[A-Za-z]+[{LOWERED}]*|[Α-ωℓ][{LOWERED}]*|[−-]?\d[\d.]*|.",
        text[place:],
    )
    whole = single[0] if single else ""
    return whole, place + len(whole)
