"""Write strings.jsonl: a thousand strings of programs over all dialects, with their spans.

    python benchmarks/strings/make_strings.py

Each line has `dialect`, `text` and `spans`, what has to occur in a translation as often as in the
text; a span that begins with `~` counts by its digits. The first lines are those of
handwritten.jsonl, which have a right translation into German (`de`) and Korean (`ko`). The others
are drawn with a seed: sentences of daily life, with the codes of a dialect in their gaps.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LINES = 1000
SEED = 2026

SENTENCES = {
    1: """
        @ is slicing bread in the kitchen.|A neighbour gave @ a basket of plums.
        The cat is asleep on @ again.|We met @ at the harbour yesterday.
        Two boys are building a tower out of @.|The doctor asked @ to wait outside.
        Grandmother keeps @ in the old cupboard.|Nobody has seen @ since the storm.
        A postman is carrying @ up the stairs.|The soup tastes better with @.
        Please bring @ to the garden party.|My sister painted @ on the fence.
        The children are singing about @.|After lunch they walked to @.
        It rained all night, and @ got wet.|Who left @ on the bench?
    """,
    2: """
        @ and @ are sharing an umbrella.|@ is teaching @ how to swim.
        A farmer sold @ to @ this morning.|Between @ and @ there is a small bridge.
        The girl with @ is waving at @.|First wash @, then dry @ in the sun.
        @ left before @ came home.|An old man compares @ with @ at the market.
        Take @ out of the oven. Put @ on the table.|The dog chased @. The cat watched @.
    """,
    3: """
        @, @ and @ are playing cards on the porch.|@ walked with @ from the station to @.
        The cook mixed @ with @. Later he added @.|On Sunday @ lent @ a ladder for @.
    """,
}
WRAPPED = """
    The ^old bridge^ is made of stone.|A woman is wearing ^a green scarf^ today.
    Please ^close the window^ before you leave.|The baby laughed ^very loudly^ in the bath.
    ^Fresh eggs^ are on the table.|They planted ^three trees^ behind the school.
    Our teacher is ^never late^ for lunch.|He put the ^warm bread^ into a bag with @.
    @ found ^a grey kitten^ under the stairs.|The ^little train^ brings @ to the sea.
"""
PLAIN_SENTENCES = """
    A boy is peeling an orange.|The lamp is too bright.|Two nurses are drinking tea.
    Her bicycle has a flat tyre.|The bakery is closed on Mondays.|Snow is lying on the roof.
"""

CODES: dict[str, list[list[str]]] = {
    "c": [["%s"], ["%d"], ["%s", "%s"], ["%s", "%d"], ["%1$s", "%2$s"], ["%2$s", "%1$d"],
          ["%lu", "%s"], ["%-10s", "%.2f"], ["%s", "%d", "%x"], ["%1$s", "%2$s", "%3$d"], ["%c"]],
    "objc": [["%@"], ["%ld"], ["%@", "%@"], ["%1$@", "%2$@"], ["%#@cups@"], ["%@", "%lu", "%@"]],
    "java": [["%s"], ["%,d"], ["%1$s", "%2$s"], ["%1$tB"], ["%2$,.2f", "%1$s"], ["%s", "%d", "%s"]],
    "php": [["%s"], [":name"], [":name", ":place"], ["%1$s", "%2$d"], ["%'.10d"],
            [":one", ":two", ":three"], ['[photo id="7"]']],
    "python-percent": [["%(name)s"], ["%(name)s", "%(count)d"], ["%(weight).1f"], ["%s"],
                       ["%s", "%r"], ["%(a)s", "%(b)s", "%(c)s"]],
    "python-brace": [["{}"], ["{name}"], ["{0}", "{1}"], ["{user.name}", "{items[0]}"], ["{n:,}"],
                     ["{price:.2f}", "{name!r}"], ["{a}", "{b}", "{c}"], ["{}", "{}"]],
    "icu": [["{name}"], ["{n, number}"], ["{name}", "{when, time, short}"],
            ["{count, number, integer}", "{name}"], ["{a}", "{b}", "{c}"], ["{0}", "{1}"]],
    "messageformat": [["{0}"], ["{0}", "{1}"], ["{0,number,#.##}"], ["{1,date,short}", "{0}"],
                      ["{0}", "{1}", "{2}"], ["{0,time}"]],
    "fluent": [["{ $name }"], ["{ -brand-name }"], ["{ $name }", "{ $place }"],
               ['{ NUMBER($n, style: "percent") }'],
               ['{ DATETIME($day, month: "long") }', "{ $a }"],
               ["{ $a }", "{ $b }", "{ -shop-name }"]],
    "i18next": [["{{name}}"], ["{{count}}", "{{name}}"], ["$t(food.cake)"], ["{{when, date}}"],
                ["{{- raw}}"], ["{{a}}", "{{b}}", "$t(common.home)"]],
    "react": [["<0/>"], ["{name}"], ["{name}", "<1/>"], ["{{name}}"], ["{a}", "{b}", "<icon/>"]],
    "vue": [["{name}"], ["@:shop.title"], ["{name}", "@:common.home"], ["@.lower:shop.title"],
            ["{0}", "{1}", "{2}"], ["{'@'}"]],
    "angular": [["{{ name }}"], ["{{ cups.length }}"], ["{{ name }}", "{{ day | date }}"],
                ["{{ price | currency }}"], ["{{ a }}", "{{ b }}", "{{ c }}"]],
    "qt": [["%1"], ["%n"], ["%1", "%2"], ["%L1"], ["%n", "%1"], ["%1", "%2", "%3"]],
    "dotnet": [["{0}"], ["{0}", "{1}"], ["{0:N2}"], ["{1,8}", "{0}"], ["{name}"],
               ["{day:yyyy-MM-dd}"], ["{0}", "{1}", "{2:P0}"]],
    "android": [["%1$s"], ["%1$s", "%2$s"], ["%1$d", "%2$s"], ["@string/shop_name"], ["%s"],
                ["%1$s", "%2$d", "%3$s"]],
    "ruby": [["%{name}"], ["%{name}", "%{place}"], ["#{user.name}"], ["%<count>d"],
             ["%<weight>.1f", "%{name}"], ["%{a}", "%{b}", "%{c}"]],
    "mustache": [["{{name}}"], ["{{{html}}}"], ["{{ name|upper }}", "{{place}}"], ["{{> cake}}"],
                 ["{{a.b}}", "{{c}}", "{{d}}"], ["{{#if guest}}", "{{/if}}"],
                 ["{% for cup in cups %}", "{% endfor %}"]],
    "renpy": [["[player]"], ["[player]", "[friend.name]"], ["{w=0.5}"], ["{p}"],
              ["[a]", "[b]", "[c]"]],
    "bbcode": [["%player%"], ["[hr]"], ["{name}"], ["{a}", "{b}"]],
    "minecraft": [["%player_name%"], ["§c"], ["§l", "§r"], ["%s"], ["{0}", "§6"]],
    "unity": [["{0}"], ["<sprite=3>"], ["{0}", "{1}"], ["{price:N0}"], ["{0}", "<br>", "{1}"]],
    "ass": [["\\N"], ["{\\k20}"], ["\\h"]],
    "srt": [["♪"], ["♪", "♪"], ["<br>"]],
    "webextension": [["$1"], ["$NAME$"], ["$1", "$2"], ["$COUNT$", "$place$"],
                     ["$1", "$2", "$3"]],
    "markdown": [["`rye`"], ["[^1]", "[^2]"], ["[^2]"], ["<https://example.org/x>"],
                 ["`a`", "`b`"]],
    "wiki": [["{{cite|12}}"], ["{{harbour}}"], ["{{a}}", "{{b}}"]],
    "rst": [["|house|"], [":kbd:`Enter`"], ["``rye``"], ["|a|", "|b|"]],
    "latex": [["$x_1$"], ["\\ref{fig:tree}"], ["$a+b$", "\\cite{oak}"], ["\\LaTeX{}"],
              ["20\\%", "\\&"]],
    "html": [["&copy;"], ['<img src="plum.png">'], ["{{name}}", "<br>"], ["&lt;", "&gt;"]],
    "xml": [['<ph id="1"/>'], ["&amp;"], ['<ph id="1"/>', '<ph id="2"/>'], ["%s"]],
    "shell": [["$USER"], ["${NAME:-nobody}"], ["$USER", "$HOME"], ["%PATH%"], ["$1"]],
    "plain": [["https://example.org/a?b=1"], ["anna@example.org"], ["/etc/bread.conf"], ["~3,500"],
              ["localhost:8000"], ["2026-12-24"], ["~17", "~25"], ["#bread", "@lea_m"], ["🍞"],
              ["+82 2 555 0199"], ["C:\\Bread\\rye.txt"], ["%name%"], ["{name}", "%s"],
              ["10.0.2.15"], ["getBread()"], ["1d9f7d3e-12ab-4c56-8e90-0123456789ab"]],
}  # fmt: skip
PAIRS: dict[str, list[tuple[str, str]]] = {
    "react": [("<0>", "</0>"), ("<link>", "</link>")],
    "android": [("<b>", "</b>"), ('<xliff:g id="x">', "</xliff:g>")],
    "renpy": [("{b}", "{/b}"), ("{color=#0f0}", "{/color}"), ("{size=30}", "{/size}")],
    "bbcode": [("[b]", "[/b]"), ("[i]", "[/i]"), ("[color=red]", "[/color]"),
               ("[url=https://example.org/c]", "[/url]")],
    "minecraft": [("§a", "§r"), ("§l", "§r")],
    "unity": [("<color=#ff8800>", "</color>"), ("<b>", "</b>"), ("<size=120%>", "</size>")],
    "ass": [("{\\i1}", "{\\i0}"), ("{\\b1}", "{\\b0}")],
    "srt": [("<i>", "</i>"), ("<b>", "</b>"), ('<font color="red">', "</font>")],
    "markdown": [("**", "**"), ("*", "*"), ("[", "](https://example.org/d)"), ("~~", "~~"),
                 ("![", "](img/plum.png)")],
    "wiki": [("'''", "'''"), ("[[Bread|", "]]")],
    "rst": [("**", "**"), ("*", "*")],
    "latex": [("\\emph{", "}"), ("\\textbf{", "}"), ("{\\em ", "}")],
    "html": [("<b>", "</b>"), ('<a href="/e">', "</a>"), ("<em>", "</em>"), ("<span>", "</span>")],
    "xml": [("<g:name>", "</g:name>"), ('<mrk id="2">', "</mrk>")],
    "fluent": [('<a data-l10n-name="x">', "</a>")],
    "i18next": [("<strong>", "</strong>")],
    "qt": [("<b>", "</b>")],
}  # fmt: skip
"""Opening and closing codes; an opening that is a bare bracket is no span."""
NESTED: dict[str, list[tuple[str, list[str]]]] = {
    "icu": [
        ("{n, plural, one {# plum is ripe.} other {# plums are ripe.}}", ["#", "#"]),
        ("{n, plural, =0 {No guests came.} one {One guest came.} other {# guests came.}}", ["#"]),
        ("{n, plural, offset:1 one {{a} and # friend sing.} other {{a} and # friends sing.}}",
         ["{a}", "#", "{a}", "#"]),
        ("{g, select, girl {She feeds the hen.} other {They feed the hen.}}", []),
        ("{n, selectordinal, one {#st} two {#nd} few {#rd} other {#th}} house on the left",
         ["#", "#", "#", "#"]),
        ("{g, select, girl {{n, plural, one {She has # hat.} other {She has # hats.}}} "
         "other {{n, plural, one {They have # hat.} other {They have # hats.}}}}",
         ["#", "#", "#", "#"]),
    ],
    "messageformat": [
        ("{0,choice,0#No cups are clean|1#One cup is clean|1<{0} cups are clean}", ["{0}"]),
        ("{1} has {0,choice,0#no plums|1#one plum|1<{0} plums} in the bag.", ["{1}", "{0}"]),
        ("It isn''t raining in {0}.", ["{0}"]),
    ],
    "fluent": [
        ("{ $n -> [one] A goose is here. *[other] { $n } geese are here. }", ["{ $n }"]),
        ("{ $who -> [girl] She reads to { $name }. *[other] They read to { $name }. }",
         ["{ $name }", "{ $name }"]),
    ],
    "angular": [("{n, plural, =0 {No rain} =1 {One drop} other {{{n}} drops}} today", ["{{n}}"])],
    "i18next": [('$t(cups, {"count": {{n}} }) are on the shelf.', ['$t(cups, {"count": {{n}} })'])],
    "c": [("100%% wool, washed at %d degrees.\\n", ["~100", "%%", "%d", "\\n"])],
    "qt": [("&Wash the dishes", ["&"]), ("Feed the &hens", ["&"])],
    "android": [("It isn\\'t %1$s\\'s coat.", ["%1$s"])],
    "dotnet": [("Write {{bread}} on {0}.", ["{{", "}}", "{0}"])],
    "python-brace": [("Write {{bread}} on {name}.", ["{{", "}}", "{name}"])],
    "markdown": [("- [ ] Water the roses", ["- [ ] "]), ("# Bread and butter", ["# "]),
                 ("> The sea was calm.", ["> "])],
    "ass": [("{\\an8}The kettle is boiling.", ["{\\an8}"])],
}  # fmt: skip


def draw(random_source: random.Random, dialect: str) -> dict[str, Any]:
    """Return one string of a dialect."""
    whole = NESTED.get(dialect, [])
    if whole and random_source.random() < 0.3:
        text, spans = random_source.choice(whole)
        lead = random_source.choice(["", *split(PLAIN_SENTENCES)])
        text = f"{lead} {text}" if lead and not spans_at_start(spans, text) else text
        return {"dialect": dialect, "text": text, "spans": spans}
    codes = random_source.choice(CODES[dialect])
    if dialect in PAIRS and random_source.random() < 0.6:
        sentence = random_source.choice(split(WRAPPED))
        pair = random_source.choice(PAIRS[dialect])
    else:
        sentence = random_source.choice(split(SENTENCES[len(codes)]))
        pair = ()
    if random_source.random() < 0.2:
        sentence += " " + random_source.choice(split(PLAIN_SENTENCES))
    return fill(dialect, sentence, codes, pair)


def split(block: str) -> list[str]:
    """Return the sentences of a block."""
    lines = "|".join(line.strip() for line in block.strip().splitlines())
    return lines.split("|")


def spans_at_start(spans: list[str], text: str) -> bool:
    """Return whether a text begins with a mark that has to stand there, or with a mnemonic."""
    return text.startswith("&") or (bool(spans) and spans[0][0] in "#->{" and
                                    text.startswith(spans[0]))  # fmt: skip


def fill(
    dialect: str, sentence: str, codes: list[str], pair: tuple[str, ...]
) -> dict[str, Any]:
    """Return a string with codes for the `@` of a sentence, and a pair for its `^`."""
    text, spans = "", []
    rest_of_codes, rest_of_pair = list(codes), list(pair)
    for letter in sentence:
        code = letter
        if letter == "@":
            code = rest_of_codes.pop(0)
            spans.append(code)
        elif letter == "^":
            code = rest_of_pair.pop(0)
            spans.append(code)
        text += code[1:] if code[1:2].isdigit() and code[0] == "~" else code
    spans = [span for span in spans if span != "["]
    return {"dialect": dialect, "text": text, "spans": spans}


def make(count: int = LINES, seed: int = SEED) -> list[dict[str, Any]]:
    """Return lines without repetition, the dialects in turns; fewer if no more are drawn."""
    path = HERE / "handwritten.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    texts = {line["text"] for line in lines}
    random_source = random.Random(seed)
    tries = 0
    while len(lines) < count and tries < 20 * count:
        for dialect in CODES:
            tries += 1
            line = draw(random_source, dialect)
            if line["text"] not in texts and len(lines) < count:
                texts.add(line["text"])
                lines.append(line)
    return lines


def main() -> None:
    """Write the file."""
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in make())
    (HERE / "strings.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
