// Nested messages (ICU, Fluent, Java's choice) as parts with branches, in linear time; Python's regard/contracts/messages.py.
import { SPACES, lengthOf, quoted, strip } from "./characters.js";
import { PLAIN, STAND_IN, dialectNamed, masked, matched, scan, searched, toAsciiDigits } from "./contract_spans.js";

const ARGUMENT = { kind: "placeholder" };
const SELECTOR = { kind: "selector" };
const QUOTED = { kind: "escape" };
const DOUBLED_QUOTE = { kind: "quote", free: true };
const SPACE = new RegExp(`(?<=[{,:(|])${SPACES}+|${SPACES}+(?=[},:|)])`, "gu");
const END = `${SPACES}*\\}`;
const SHOWN = 20; // characters of a malformed argument that are named

class MalformedMessage extends Error {}

/** Return the parts of a string; one that is malformed is plain text, with its `problem`. */
export function readMessage(given, dialect) {
  const text = toAsciiDigits(given);
  try {
    return new Parser(text, dialect).parse();
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error;
    const plain = dialectNamed(PLAIN);
    return part(text, plain, scan(text, plain), [], error.message);
  }
}

/** Return the syntax of a message in its order, {start, end, divides}; none if it is malformed. What `divides` parts two texts. */
export function syntaxOf(given, dialect) {
  const text = toAsciiDigits(given);
  const parser = new Parser(text, dialect);
  try {
    parser.parse();
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error;
    return [];
  }
  if (text.length === given.length) return parser.syntax;
  const letters = [...given]; // some digits have become shorter
  const indexOf = (index) => letters.slice(0, lengthOf(text.slice(0, index))).join("").length;
  return parser.syntax.map(({ start, end, divides }) => ({ start: indexOf(start), end: indexOf(end), divides }));
}

/** Text of a string, or of a branch, with its spans; its selectors, {head, isCounted, branches, last}, hold further parts. */
const part = (text, dialect, spans, selectors, problem = "") => ({ text, dialect, spans, selectors, problem, prose: masked(text, spans) });

/** Message under construction: the whole string, or the branch `key` of a selector. */
class Frame {
  constructor(selector = null, key = "") {
    Object.assign(this, { selector, key, pieces: [], length: 0, objects: [], selectors: [] });
  }

  addText(text) {
    this.pieces.push(text);
    this.length += text.length;
  }

  addCode(rule, text, key = text) {
    const start = this.length;
    this.addText(STAND_IN);
    this.objects.push({ rule, kind: rule.kind, key, text, start, end: start + 1, name: "" });
  }

  toPart(dialect) {
    const text = this.pieces.join("");
    return part(text, dialect, scan(text, dialect, this.objects), this.selectors);
  }
}

/** Reader of one message, at `position` of its text. Open branches are on a list, so that no nesting is too deep. */
class Parser {
  constructor(text, dialect) {
    Object.assign(this, { text, dialect, grammar: dialect.grammar, position: 0, frames: [new Frame()], syntax: [] });
  }

  get frame() { return this.frames.at(-1); }

  parse() {
    const { text, grammar, dialect } = this;
    while (grammar) {
      const match = searched(grammar.special, text, this.position);
      if (!match) break;
      this.frame.addText(text.slice(this.position, match.index));
      this.position = match.index + match[0].length;
      this.#readToken(match);
    }
    if (this.frames.length > 1) throw new MalformedMessage(`${quoted(this.frame.key)} is not closed`);
    this.frame.addText(text.slice(this.position));
    return this.frame.toPart(dialect);
  }

  #readToken({ 0: token, index }) {
    const { frame, grammar } = this;
    const { selector } = frame;
    const objects = frame.objects.length;
    if (token === "{") {
      this.#readArgument(index);
    } else if (token === "}" && selector) {
      this.#closeBranch();
    } else if (token === "''") {
      frame.addCode(DOUBLED_QUOTE, token);
    } else if (token[0] === "'") {
      frame.addCode(QUOTED, token);
    } else if (token === "#" && selector?.isCounted) {
      frame.addCode(ARGUMENT, token);
    } else if (token !== "#" && selector && !grammar.closed) {
      this.#endBranch();
      this.#openBranch(selector, token === "|" ? this.position : index);
    } else {
      frame.addText(token);
    }
    const divides = this.frame !== frame;
    if (divides || frame.objects.length > objects) this.syntax.push({ start: index, end: this.position, divides });
  }

  #readArgument(start) {
    const { text, grammar, frame } = this;
    const choice = matched(grammar.selector, text, start);
    const argument = choice ? null : matched(grammar.argument, text, start);
    if (choice) {
      const head = choice.slice(1).filter(Boolean).join(", ");
      const selector = { head, isCounted: grammar.counted.includes(choice[2]), branches: [], last: "" };
      frame.selectors.push(selector);
      frame.addCode(SELECTOR, head);
      this.#openBranch(selector, start + choice[0].length);
    } else if (argument) {
      frame.addCode(ARGUMENT, argument[0], argument[0].replace(SPACE, ""));
      this.position = start + argument[0].length;
    } else {
      const beginning = [...text.slice(start, start + 2 * SHOWN)].slice(0, SHOWN).join("");
      throw new MalformedMessage(`${quoted(beginning)} at ${this.#numberOf(start)} begins no argument`);
    }
  }

  #openBranch(selector, start) {
    const { default: last, key } = this.grammar;
    const match = matched(key, this.text, start);
    if (!match) throw new MalformedMessage(`no branch begins at ${this.#numberOf(start)}`);
    if (last && [match[1], strip(match[0])[0]].includes(last)) [, selector.last] = match;
    this.frames.push(new Frame(selector, match[1]));
    this.position = start + match[0].length;
  }

  #endBranch() {
    const frame = this.frames.pop();
    frame.selector.branches.push([frame.key, frame.toPart(this.dialect)]);
    return frame.selector;
  }

  #closeBranch() {
    const { grammar } = this;
    const selector = this.#endBranch();
    const end = grammar.closed ? matched(END, this.text, this.position) : null;
    if (grammar.closed && !end) {
      this.#openBranch(selector, this.position);
      return;
    }
    this.position += end ? end[0].length : 0;
    if (grammar.default && !selector.last) throw new MalformedMessage(`${selector.head} has no branch ${grammar.default}`);
    const keys = selector.branches.map(([key]) => key);
    if (new Set(keys).size < keys.length) throw new MalformedMessage(`${selector.head} has a branch twice`);
    selector.last ||= keys.at(-1);
  }

  /** Return the number of the character at an index, of which some are two units of UTF-16. */
  #numberOf(index) {
    return lengthOf(this.text.slice(0, index));
  }
}
