// Strings as Python sees them: code points instead of UTF-16 units, its classes of characters, and its quoting.

export const SPACES = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const SPACE = new RegExp(SPACES, "u");
const NOT_SPACE = new RegExp(SPACES.replace("[", "[^"), "u");
const SPACE_AROUND = new RegExp(`^${SPACES}+|${SPACES}+$`, "gu");
const RUN_OF_SPACE = new RegExp(`${SPACES}+`, "u");
const UPPER = /\p{Uppercase}/u;
const NOT_UPPER = /[\p{Lowercase}\p{Lt}]/u;
const LOWER = /\p{Lowercase}/u;
const LETTER = /\p{L}/u;
const ALNUM = /^[\p{L}\p{N}]+$/u;
const NOT_PRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

export const firstOf = (text) => text.slice(0, text.codePointAt(0) > 0xffff ? 2 : 1);

export function lastOf(text) {
  return [...text.slice(-2)].at(-1) ?? "";
}

/** Return the number of characters, of which some are two units of UTF-16. */
export function lengthOf(text) {
  let length = 0;
  for (const _ of text) length++;
  return length;
}

export const isSpace = (text) => SPACE.test(text);
export const isBlank = (text) => !NOT_SPACE.test(text);
export const isUpper = (text) => UPPER.test(text) && !NOT_UPPER.test(text);
export const isLower = (text) => LOWER.test(text);
export const isCased = (text) => UPPER.test(text) || NOT_UPPER.test(text);
export const isAlnum = (text) => ALNUM.test(text);
export const hasLetters = (text) => LETTER.test(text);
export const strip = (text) => text.replace(SPACE_AROUND, "");

/** Split a text at runs of white space. */
export const wordsOf = (text) => text.split(RUN_OF_SPACE).filter(Boolean);

/** Return a text between quotation marks, as Python's `repr` writes it. */
export function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inner = Array.from(text, (character) => {
    if (character === mark || character === "\\") return `\\${character}`;
    return NOT_PRINTABLE.test(character) ? escaped(character) : character;
  });
  return `${mark}${inner.join("")}${mark}`;
}

function escaped(character) {
  const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
  const code = character.codePointAt(0);
  const hexadecimal = code.toString(16);
  if (named) return named;
  if (code < 0x100) return `\\x${hexadecimal.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hexadecimal.padStart(4, "0")}` : `\\U${hexadecimal.padStart(8, "0")}`;
}
