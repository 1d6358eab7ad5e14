// Sets the formulas of a walkthrough as MathML, which browsers draw without a library; without scripts they stay text.
"use strict";
const MATHEMATICS = new DOMParser().parseFromString("<math></math>", "text/html").querySelector("math").namespaceURI;
function mathOf(formula) {
  const tokens = formula.match(/\d+|[A-Za-zα-ω가-힣]+(?:[ ][A-Za-z가-힣]{2,})*[′₀-₉ᵀ²]*|[^\s]/gu);
  const make = (name, ...children) => {
    const node = document.createElementNS(MATHEMATICS, name);
    node.append(...children);
    return node;
  };
  let at = 0;
  const next = () => tokens[at++];
  function bracket(text) {
    const node = make("mo", text);
    node.setAttribute("stretchy", "false");
    return node;
  }
  function name(text) { // a weight with its subscript (WQ), and what is raised: Kᵀ, σ², h′
    const [, base, high] = /^(.+?)([ᵀ²′]?)$/u.exec(text), [, letter, sub] = /^([Wb])([QKVO12])$/.exec(base) ?? [];
    const word = letter ? make("msub", make("mi", letter), make("mi", sub)) : make("mi", base);
    return high ? make("msup", word, high === "²" ? make("mn", "2") : make("mo", high === "ᵀ" ? "⊤" : "′")) : word;
  }
  function atom() {
    const token = next();
    if (token === "√") return make("msqrt", tokens[at] === "(" ? bare() : atom());
    if (token === "(" || token === "[") return make("mrow", bracket(token), sum(), bracket(next()));
    if (/^\d/.test(token)) return make("mn", token);
    if (!/^[A-Za-zα-ω가-힣]/u.test(token)) return make("mo", token);
    const word = name(token);
    return tokens[at] === "(" ? make("mrow", word, atom()) : word;
  }
  function bare() { next(); const inside = sum(); next(); return inside; } // without its brackets
  function power() {
    const base = atom();
    if (tokens[at] !== "^") return base;
    next();
    return make("msup", base, tokens[at] === "(" ? bare() : atom());
  }
  function product() {
    let factors = [];
    while (at < tokens.length && !/^[=+−,)\]]$/.test(tokens[at])) {
      if (tokens[at] === "/") {
        next();
        const [only] = factors, isBracket = factors.length === 1 && only.firstChild?.textContent === "(";
        factors = [make("mfrac", isBracket ? make("mrow", ...[...only.childNodes].slice(1, -1)) : make("mrow", ...factors), power())];
      } else {
        if (factors.length && /^[a-z]{2}/.test(factors.at(-1).textContent)) factors.push(make("mtext", "\u2009")); // −ln p
        factors.push(/^[·⊙]$/.test(tokens[at]) ? make("mo", next()) : power());
      }
    }
    return make("mrow", ...factors);
  }
  function sum() {
    const parts = [];
    while (at < tokens.length && !/^[)\]]$/.test(tokens[at])) parts.push(/^[=+−,]$/.test(tokens[at]) ? make("mo", next()) : product());
    return make("mrow", ...parts);
  }
  return make("math", sum());
}
function setFormulas(root) {
  for (const line of root.querySelectorAll(".formula")) { // equations side by side, or below each other on a phone
    let depth = 0;
    const parts = [""];
    for (const letter of line.dataset.formula) {
      depth += (letter === "(") - (letter === ")");
      if (letter === "," && !depth) parts.push(""); else parts[parts.length - 1] += letter;
    }
    line.replaceChildren(...parts.flatMap((part, i) => [...(i ? [", "] : []), mathOf(part)]));
  }
}
