// Escapes of apostrophes and quotation marks in strings of programs, such as isn\'t and isn''t; Python's regard/text/escapes.py.
import { PATTERNS } from "./text_tables.js";

const BACKSLASHED = [["\\'", "'"], ['\\"', '"']];

/**
 * Return a line as a person reads it, and the function that writes marks of a text as they are escaped in the line; null: none is.
 * A mark that stands in the line without an escape, too, is left as it is.
 */
export function readEscapes(line) {
  const backslashed = BACKSLASHED.filter(([escaped, mark]) => line.includes(escaped) && !line.replaceAll(escaped, "").includes(mark));
  const unescaped = backslashed.reduce((text, [escaped, mark]) => text.replaceAll(escaped, mark), line);
  const read = unescaped.replace(PATTERNS.doubledQuote, "'");
  const write = (text) => {
    const written = backslashed.reduce((part, [escaped, mark]) => part.replaceAll(mark, escaped), text);
    return read === unescaped ? written : written.replace(PATTERNS.singleQuote, "''");
  };
  return [read, read === line ? null : write];
}
