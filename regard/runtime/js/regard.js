/**
 * Regard's runtime for JavaScript: translates with a runtime file (regard export RUN --to runtime FILE) and the library as
 * WebAssembly, in browsers and under node, without a server. Types: regard.d.ts.
 */
import { hasLetters, lengthOf, wordsOf } from "./characters.js";
import { checkedDialect } from "./contracts.js";
import { checkedParticles } from "./particles.js";
import { CaseReader } from "./letter_case.js";
import { isLow, qualityFlaws, qualityOf, worstQuality } from "./quality.js";
import { COPIES } from "./spans.js";
import { SEARCH_BOUNDS } from "./text_tables.js";
import { firstReading, linePath, translateAlong, withGivenWords } from "./text_path.js";

const OPTIONS = [ // the fields of RegardOptions in regard.h: name, offset, whether it is a double
  ["beam", 0], ["nbest", 4], ["lengthPenalty", 8, true], ["maxRatio", 16, true], ["maxExtra", 24], ["minLength", 28], ["maxLength", 32],
  ["noRepeatNgram", 36], ["maxLine", 40], ["maxWhole", 44], ["threads", 48], ["attention", 52], ["alignments", 56], ["trace", 60], ["split", 64], ["states", 100],
];
const OPTIONS_SIZE = 104, CONSTRAINTS_SIZE = 40, ALIGNED = 64, ERROR_SIZE = 1024, EOS = 3;
const ROLES = ["encoder", "cross", "decoder"];
const ATTENTION = ["none", "cross", "all"];
const FATES = ["pruned", "kept", "ended"], CANDIDATE_SIZE = 32, PART_SIZE = 32;
const NO_MEMORY = "there is not enough memory";
const [ENOSYS, OK] = [52, 0]; // of WASI

/** Open a model: the bytes of a runtime file, or {model, wasm} with the library's bytes or WebAssembly.Module as well. */
export async function load(source) {
  const { model, wasm } = isBytes(source) ? { model: source } : source ?? {};
  if (!isBytes(model)) throw new Error("load: wanted the bytes of a runtime file, as Uint8Array or ArrayBuffer");
  const module = wasm instanceof WebAssembly.Module ? wasm : await WebAssembly.compile(bytesOf(wasm ?? (await libraryBeside())));
  return new Translator(await Library.start(module), bytesOf(model));
}

const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);
const bytesOf = (value) => (value instanceof ArrayBuffer ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength));

async function libraryBeside() { // regard.wasm in the folder of this module
  const url = new URL("./regard.wasm", import.meta.url);
  if (url.protocol === "file:" && globalThis.process?.versions?.node) return (await import("node:fs/promises")).readFile(url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}; build the library, or give it to load as {wasm, model}`);
  return response.arrayBuffer();
}

/** An instance of the library, with a memory of its own. */
class Library {
  static async start(module) {
    const library = new Library();
    const imports = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = () => ENOSYS;
    Object.assign((imports.wasi_snapshot_preview1 ??= {}), {
      environ_get: () => OK,
      environ_sizes_get: (count, size) => { library.view.setUint32(count, 0, true); library.view.setUint32(size, 0, true); return OK; },
      proc_exit: (status) => { throw new Error(`the library ended with status ${status}`); },
    });
    library.exports = (await WebAssembly.instantiate(module, imports)).exports;
    library.exports._initialize();
    return library;
  }

  get view() { return new DataView(this.exports.memory.buffer); } // memory that has grown has a new buffer
  get bytes() { return new Uint8Array(this.exports.memory.buffer); }

  /** Call `run` with a function that allocates memory, and free that memory afterwards. */
  scoped(run) {
    const owned = [];
    try {
      return run((size) => this.allocate(size, owned));
    } finally {
      for (const address of owned) this.exports.free(address);
    }
  }

  allocate(size, owned) {
    const address = this.exports.malloc(Math.max(1, size)) >>> 0;
    if (!address) throw new Error(NO_MEMORY);
    owned.push(address);
    return address;
  }

  number(address) { return this.view.getUint32(address, true); }
  numbers(address, count) { return new Uint32Array(this.exports.memory.buffer, address >>> 0, count).slice(); }
  floats(address, count) { return new Float32Array(this.exports.memory.buffer, address >>> 0, count).slice(); }
  integers(address, count) { return new Int32Array(this.exports.memory.buffer, address, count).slice(); }

  /** Copy arrays of bytes (width 1) or integers (width 4); returns the addresses of their addresses and of their lengths. */
  arrays(rows, allocate, width) {
    const [addresses, lengths] = [allocate(4 * rows.length), allocate(4 * rows.length)];
    rows.forEach((row, i) => {
      const at = allocate(width * row.length), { buffer } = this.exports.memory;
      (width === 1 ? new Uint8Array(buffer, at, row.length) : new Int32Array(buffer, at, row.length)).set(row);
      this.view.setUint32(addresses + 4 * i, at, true);
      this.view.setUint32(lengths + 4 * i, row.length, true);
    });
    return [addresses, lengths];
  }

  /** Return the address of the constraints of targets that begin with these token ids; null: none. */
  constraints(prefixes, allocate) {
    if (!prefixes) return 0;
    const [addresses, lengths] = this.arrays(prefixes, allocate, 4), size = CONSTRAINTS_SIZE * prefixes.length, first = allocate(size);
    this.bytes.fill(0, first, first + size);
    prefixes.forEach((_, i) => {
      this.view.setUint32(first + CONSTRAINTS_SIZE * i, this.number(addresses + 4 * i), true);
      this.view.setUint32(first + CONSTRAINTS_SIZE * i + 4, this.number(lengths + 4 * i), true);
    });
    return first;
  }

  text(address, size) {
    const end = size === undefined ? this.bytes.indexOf(0, address) : address + size;
    return new TextDecoder().decode(this.bytes.subarray(address, end));
  }

  /** Call a function that writes a sentence into `error` if it fails, which it says by returning 0. */
  succeed(allocate, call) {
    const error = allocate(ERROR_SIZE), address = call(error) >>> 0;
    if (!address) throw new Error(this.text(error) || NO_MEMORY);
    return address;
  }
}

const BASE64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/, MOST_BASE64 = 20_000;
const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Return what is wrong with the parsed card of a runtime file, a sentence for each cause, as Python tells it when it opens the file. */
export function cardFlaws(card) {
  if (!isTable(card)) return ["wanted a table"];
  const { search = {}, familiar = {}, languages = ["", ""] } = card, flaws = [], wrong = (name, wanted, value) => flaws.push(`${name}: wanted ${wanted}, got ${String(JSON.stringify(value)).slice(0, 60)}`);
  if (!isTable(search)) wrong("search", "a table", search);
  else for (const [name, value] of Object.entries(search)) {
    const [least, most, isWhole, mayBeNull] = Object.hasOwn(SEARCH_BOUNDS, name) ? SEARCH_BOUNDS[name] : [];
    if (name === "sample" || name === "mbr") { if (typeof value !== "boolean") wrong(`search.${name}`, "true or false", value); }
    else if (name === "split") { if (!["auto", "on", "off"].includes(value)) wrong("search.split", "auto, on or off", value); }
    else if (least === undefined) wrong(`search.${name.slice(0, 50)}`, "a setting of the search", value);
    else if (!(value === null && mayBeNull) && !(typeof value === "number" && least <= value && value <= most && !(isWhole && !Number.isInteger(value)))) {
      wrong(`search.${name}`, `a ${isWhole ? "whole " : ""}number from ${least === Number.MIN_VALUE ? "above 0" : least} to ${most}`, value);
    }
  }
  if (!Array.isArray(languages) || languages.length !== 2 || languages.some((code) => typeof code !== "string")) wrong("languages", "two texts", languages);
  if (!isTable(familiar)) wrong("familiar", "a table", familiar);
  else if (Object.keys(familiar).length) {
    const { pairs, most, ...others } = familiar;
    if (Object.keys(others).length) wrong("familiar", "`pairs` and `most`", Object.keys(familiar));
    if (typeof pairs !== "string" || pairs.length > MOST_BASE64 || !BASE64.test(pairs)) wrong("familiar.pairs", "Base64", pairs);
    if (!Number.isInteger(most) || most < 0) wrong("familiar.most", "a whole number of 0 or more", most);
  }
  const causes = qualityFlaws(card.quality);
  if (causes) wrong("quality", causes, card.quality);
  return flaws;
}

function checkedCard(text) {
  let card;
  try {
    card = JSON.parse(text);
  } catch {
    throw new Error("load: the card of the runtime file is no JSON; export the model again");
  }
  const flaws = cardFlaws(card);
  if (flaws.length) throw new Error(`load: the card of the runtime file, ${flaws.join("; ")}; export the model again`);
  return card;
}

/** A translator, as `load` opens it. */
export class Translator {
  #library;
  #memory = []; // of the model file
  #model;
  #reader;
  #unknown = new Map(); // whether letters are

  constructor(library, file) {
    this.#library = library;
    const start = library.allocate(file.length + ALIGNED, this.#memory), at = Math.ceil(start / ALIGNED) * ALIGNED;
    library.bytes.set(file, at);
    try {
      this.#model = library.scoped((allocate) => library.succeed(allocate, (error) => library.exports.regard_open_memory(at, file.length, error, ERROR_SIZE)));
    } catch (problem) {
      this.close();
      throw problem;
    }
    try {
      this.card = checkedCard(this.#counted((size) => library.exports.regard_card(this.#model, size)));
    } catch (problem) {
      this.close();
      throw problem;
    }
    this.layers = this.#layers();
    const recurrence = library.exports.regard_recurrence(this.#model);
    this.recurrent = { encoder: Boolean(recurrence & 1), decoder: Boolean(recurrence & 2) };
    this.copies = this.#copies();
    this.#reader = new CaseReader(this.card.languages ?? ["", ""], (text) => this.encode(text).slice(0, -1));
  }

  /** Bytes of the memory that the library has taken: it grows, and never shrinks. */
  get memory() { return this.#library.bytes.length; }

  /** Free the model. The translator cannot be used afterwards. */
  close() {
    if (this.#model) this.#library.exports.regard_close(this.#model);
    for (const address of this.#memory) this.#library.exports.free(address);
    this.#model = 0;
    this.#memory = [];
  }

  /** Return the model's own search options. */
  options() {
    return this.#library.scoped((allocate) => {
      const at = allocate(OPTIONS_SIZE), values = {};
      this.#library.exports.regard_options(this.#open(), at);
      for (const [name, offset, isDouble] of OPTIONS) values[name] = this.#library.view[isDouble ? "getFloat64" : "getInt32"](at + offset, true);
      return { ...values, attention: ATTENTION[values.attention], alignments: Boolean(values.alignments), trace: Boolean(values.trace), split: Boolean(values.split), states: Boolean(values.states) };
    });
  }

  /**
   * Translate a line, or an array of lines; returns an array. Throws an Error if a line cannot be translated.
   * The option `prefix`, text or token ids, is what the translation begins with; `prefixes` has one for each line.
   * What is not language comes back unchanged, capitals are read in letters that the model knows, and labels without their
   * mnemonics; a line with a prefix of text is read as it is, and so are all with `keep: false`. With token ids, which come from
   * a hypothesis, and in figures a line has copy tokens alone.
   */
  translate(text, options) {
    const steps = this.translateInSteps(text, options);
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
    }
  }

  /** Return a generator that translates as `translate` does: after each step of the decoder it yields how many parts of the lines are not done. Whoever gives the rest up calls `return`. */
  *translateInSteps(text, { prefix, prefixes, keep = true, dialect = "auto", particles = "both", ...options } = {}) {
    const lines = Array.isArray(text) ? text : [text];
    lines.forEach(encoded); // what is no text is refused
    const given = prefixes ?? (prefix === undefined ? null : lines.map(() => prefix)), beginnings = this.#beginnings(given, lines.length);
    const { nbest = this.options().nbest, alignments, attention = "none", states, trace } = options;
    const isFigure = Boolean(attention !== "none" || states || trace);
    const rules = {
      copies: this.copies, reader: this.#reader, dialect: checkedDialect(dialect), particles: checkedParticles(particles),
      hasLinks: Boolean(alignments) && !isFigure, isFirst: nbest > 1 || Boolean(alignments),
    };
    const paths = lines.map((line, n) => {
      const isBegun = beginnings?.[n].length > 0, isOfText = typeof given?.[n] === "string";
      return linePath(line, { ...rules, isRaw: !keep || (isBegun && isOfText), isShown: isFigure || isBegun });
    });
    const decode = this.#decode.bind(this), hasCrossAttention = this.layers.some(({ role }) => role === "cross");
    return yield* translateAlong(paths, function* translateTexts(texts, owners, links) {
      const chosen = links && hasCrossAttention ? { ...options, alignments: true } : options;
      const translations = yield* decode(texts, beginnings && owners.map((n) => beginnings[n]), chosen, owners);
      return isFigure ? translations : translations.map((translation, i) => withGivenWords(translation, texts[i]));
    });
  }

  /** Translate lines as they are; `owners`: the numbers by which an error names them. */
  *#decode(texts, beginnings, options, owners) {
    const lines = texts.map(encoded), { exports } = this.#library;
    const result = this.#library.scoped((allocate) => {
      const given = [...this.#library.arrays(lines, allocate, 1), lines.length, this.#library.constraints(beginnings, allocate)];
      const chosen = this.#options(options, allocate);
      return this.#succeed(allocate, (error) => exports.regard_begin(this.#open(), ...given, chosen, error, ERROR_SIZE), owners);
    });
    try {
      for (let open; (open = Number(exports.regard_step(result)));) {
        if (open < 0) throw new Error(NO_MEMORY);
        yield open;
        this.#open();
      }
      const own = this.options().lengthPenalty, isComparable = (options.lengthPenalty ?? own) === own;
      const threshold = (isComparable ? this.card.search?.score_threshold : null) ?? -Infinity;
      const quality = isComparable ? this.card.quality : null;
      return lines.map((_, line) => this.#translation(result, line, { threshold, quality }));
    } finally {
      if (this.#model) exports.regard_free(result); // of a model that was closed nothing is there
    }
  }

  #succeed(allocate, call, owners) {
    try {
      return this.#library.succeed(allocate, call);
    } catch (problem) {
      throw new Error(problem.message.replace(/^line (\d+)/, (_, number) => `line ${owners[number - 1] + 1}`));
    }
  }

  /** Yield the translation of a line as it is decoded, greedily, word by word: with its capitals, and its spans by copy tokens; nothing is tried again. */
  *stream(text, { keep = true, ...options } = {}) {
    encoded(text); // what is no text is refused
    const { text: read, restore } = keep ? firstReading(text, { copies: this.copies, reader: this.#reader }) : { text, restore: (words) => words };
    let [raw, yielded] = ["", ""];
    for (const words of this.#streamed(read, options)) {
      raw += words;
      const whole = restore(raw);
      if (!whole.startsWith(yielded)) continue; // a letter or a space depends on what comes next
      yield whole.slice(yielded.length);
      yielded = whole;
    }
    if (restore(raw).length > yielded.length) yield restore(raw).slice(yielded.length);
  }

  *#streamed(text, options) {
    const line = encoded(text), { exports } = this.#library, owned = [], allocate = (size) => this.#library.allocate(size, owned);
    let stream = 0;
    try {
      const at = allocate(line.length), size = allocate(4), chosen = this.#options({ ...options, beam: 1, nbest: 1 }, allocate);
      this.#library.bytes.set(line, at);
      stream = this.#library.succeed(allocate, (error) => exports.regard_stream(this.#open(), at, line.length, 0, chosen, error, ERROR_SIZE));
      for (let next; (next = exports.regard_next(stream, size) >>> 0);) yield this.#library.text(next, this.#library.number(size));
      if (this.#library.number(size)) throw new Error(NO_MEMORY);
    } finally {
      if (stream) exports.regard_stream_free(stream);
      for (const address of owned) exports.free(address);
    }
  }

  /** Return the token ids of a line as the model reads it, end of sentence last. */
  encode(text) { return this.#ids(text, this.#library.exports.regard_encode); }

  /** Return the token ids of a text as the beginning of a translation. */
  encodeTarget(text) { return this.#ids(text, this.#library.exports.regard_encode_target); }

  /** Return whether a sentence has letters, or more pairs of neighbouring tokens, that training has not seen, as `DoubtfulSentences` of Python does. */
  #isStrange(text) {
    const letters = [...new Set(text.match(/\p{L}/gu))], ids = this.encode(text).slice(0, -1), tokens = this.#tokens(ids, false);
    if (letters.some((letter) => this.#isUnknown(letter)) && unknownCharacters(text, tokens)) return true;
    return hasLetters(text) && hasUnseen(this.card.familiar, ids.map((id, i) => (COPIES.includes(tokens[i]) ? -1 : id)));
  }

  #isUnknown(letter) {
    if (!this.#unknown.has(letter)) this.#unknown.set(letter, unknownCharacters(letter, this.#tokens(this.encode(letter).slice(0, -1), false)) > 0);
    return this.#unknown.get(letter);
  }

  #copies() { // the characters of the copy tokens that both sides have
    const { exports } = this.#library, known = (encode, isTarget) => new Set(this.#tokens(this.#ids(COPIES.join(""), encode), isTarget));
    const [source, target] = [known(exports.regard_encode, false), known(exports.regard_encode_target, true)];
    return COPIES.filter((character) => source.has(character) && target.has(character));
  }

  #ids(text, call) {
    const line = encoded(text), capacity = line.length + 8;
    return this.#library.scoped((allocate) => {
      const at = allocate(line.length);
      this.#library.bytes.set(line, at);
      const encode = (room) => {
        const ids = allocate(4 * room), count = Number(call(this.#open(), at, line.length, ids, room));
        if (count < 0) throw new Error(NO_MEMORY);
        return count > room ? encode(count) : [...this.#library.integers(ids, count)];
      };
      return encode(capacity);
    });
  }

  #beginnings(given, count) { // the token ids that each translation begins with; null: any
    if (!given) return null;
    if (!Array.isArray(given) || given.length !== count) throw new Error(`option prefixes: wanted an array of ${count}, one for each line`);
    return given.map((one) => {
      if (typeof one === "string") return this.encodeTarget(one);
      if (Array.isArray(one) && one.every((id) => Number.isInteger(id) && Math.abs(id) < 2 ** 31)) return one;
      throw new Error(`option prefix: wanted text, or an array of token ids, got ${one}`);
    });
  }

  #open() {
    if (!this.#model) throw new Error("this translator was closed");
    return this.#model;
  }

  #counted(call) { // the text of a function that returns its address and stores its size
    return this.#library.scoped((allocate) => {
      const size = allocate(4), address = call(size) >>> 0;
      return address ? this.#library.text(address, this.#library.number(size)) : null;
    });
  }

  #layers() {
    return this.#library.scoped((allocate) => {
      const at = allocate(12), { exports } = this.#library;
      return Array.from({ length: exports.regard_layers(this.#model) }, (_, number) => {
        exports.regard_layer(at, this.#model, number);
        return { name: this.#library.text(this.#library.number(at)), role: ROLES[this.#library.number(at + 4)], heads: this.#library.number(at + 8) };
      });
    });
  }

  #options(given, allocate) {
    const values = this.options();
    for (const [name, value] of Object.entries(given)) {
      if (!(name in values)) throw new Error(`option ${name}: there is none of this name; there are ${Object.keys(values).join(", ")}`);
      if (value !== undefined) values[name] = value;
    }
    const attention = ATTENTION.indexOf(values.attention);
    if (attention < 0) throw new Error(`option attention: wanted one of ${ATTENTION.join(", ")}, got ${values.attention}`);
    const at = allocate(OPTIONS_SIZE), numbers = { ...values, attention, alignments: Number(values.alignments), trace: Number(values.trace), split: Number(values.split), states: Number(values.states) };
    this.#library.bytes.fill(0, at, at + OPTIONS_SIZE);
    for (const [name, offset, isDouble] of OPTIONS) {
      const number = numbers[name];
      if (!(isDouble ? Number.isFinite(number) : Number.isInteger(number) && Math.abs(number) < 2 ** 31)) {
        throw new Error(`option ${name}: wanted a number, got ${number}`);
      }
      this.#library.view[isDouble ? "setFloat64" : "setInt32"](at + offset, number, true);
    }
    return at;
  }

  #translation(result, line, { threshold, quality }) {
    const { exports } = this.#library, [first, note, size, hypotheses, parts] = this.#library.numbers(exports.regard_line(result, line), 5);
    const source = [...this.#library.integers(first, size)];
    const ranked = Array.from({ length: hypotheses }, (_, rank) => this.#hypothesis([result, line, rank], parts));
    const [best] = ranked;
    const inner = this.#parts([result, line, 0], parts).map(({ source, text, score }) => {
      const own = qualityOf(quality, source, text, score);
      return { source, text, score, doubtful: isLow(own, score, threshold) || this.#isStrange(source), quality: own };
    });
    return {
      ...best, sourceTokens: this.#tokens(source, false), sourceWords: this.#words(source, false),
      nbest: ranked, parts: inner, doubtful: inner.some(({ doubtful }) => doubtful), quality: worstQuality(inner), notes: note ? this.#library.text(note).split("\n") : [], steps: this.#steps(result),
    };
  }

  #parts(of, count) { // of a hypothesis; repetition: the text that it repeats over and over, and how often
    const library = this.#library, first = library.number((library.exports.regard_hypothesis(...of) >>> 0) + 24);
    return Array.from({ length: count }, (_, part) => {
      const at = first + PART_SIZE * part, [source, text, repetition, size, textSize, times] = library.numbers(at + 8, 6);
      return {
        source: library.text(source, size), text: library.text(text, textSize), score: library.view.getFloat64(at, true),
        repetition: repetition ? { text: library.text(repetition), times } : null,
      };
    });
  }

  #steps(result) { // of the search, if it was recorded
    const { exports } = this.#library, count = exports.regard_steps(result);
    return Array.from({ length: count }, (_, step) => this.#library.scoped((allocate) => {
      const ids = allocate(4 * step), size = allocate(4);
      const prefixes = Array.from({ length: exports.regard_open_hypotheses(result, step) }, (__, row) => {
        exports.regard_open_tokens(result, step, row, ids);
        return [...this.#library.integers(ids, step)];
      });
      const first = exports.regard_candidates(result, step, size) >>> 0, { view } = this.#library;
      const candidates = Array.from({ length: this.#library.number(size) }, (__, i) => {
        const at = first + CANDIDATE_SIZE * i, [beam, id, fate] = [0, 4, 8].map((offset) => view.getInt32(at + offset, true));
        return { beam, id, fate: FATES[fate], logProb: view.getFloat64(at + 16, true), total: view.getFloat64(at + 24, true) };
      });
      const tokens = this.#tokens(candidates.map(({ id }) => id), true);
      return { prefixes, candidates: candidates.map((candidate, i) => ({ ...candidate, token: tokens[i] })) };
    }));
  }

  #hypothesis(of, parts) {
    const library = this.#library, at = library.exports.regard_hypothesis(...of) >>> 0;
    const [text, tokens, logProbs, links, , textSize, count, linkCount] = library.numbers(at + 8, 8);
    const ids = Array.from(library.integers(tokens, count)), words = links ? library.integers(links, 2 * linkCount) : null;
    return {
      text: library.text(text, textSize), score: library.view.getFloat64(at, true), tokens: this.#tokens(ids, true), ids, logProbs: Array.from(library.floats(logProbs, count)),
      targetWords: this.#words([...ids, EOS], true),
      alignments: words && Array.from({ length: linkCount }, (_, i) => [words[2 * i], words[2 * i + 1]]),
      attention: this.#attention(of), states: this.#states(of), repetition: this.#parts(of, parts).find(({ repetition }) => repetition)?.repetition ?? null,
      isComplete: Boolean(library.number(at + 40)),
    };
  }

  #attention(of) {
    return this.#library.scoped((allocate) => {
      const at = allocate(20);
      return this.layers.flatMap(({ name, role }, number) => {
        this.#library.exports.regard_attention(at, ...of, number);
        const [weights, heads, rows, columns, scores] = [0, 4, 8, 12, 16].map((offset) => this.#library.number(at + offset)), size = heads * rows * columns;
        return weights ? [{ name, role, heads, rows, columns, weights: this.#library.floats(weights, size), scores: this.#library.floats(scores, size) }] : [];
      });
    });
  }

  #states(of) {
    return this.#library.scoped((allocate) => {
      const at = allocate(36);
      this.#library.exports.regard_states(at, ...of);
      const [encoder, decoder, initial, source, directions, encoderSize, target, decoderSize, attendsFirst] = this.#library.integers(at, 9);
      if (!decoder) return null;
      return {
        encoder: encoder ? this.#library.floats(encoder, source * directions * encoderSize) : null, directions, encoderSize,
        decoder: this.#library.floats(decoder, target * decoderSize), decoderSize,
        initial: initial ? this.#library.floats(initial, decoderSize) : null, attendsFirst: Boolean(attendsFirst),
      };
    });
  }

  #tokens(ids, isTarget) {
    return ids.map((id) => this.#counted((size) => this.#library.exports.regard_token(this.#model, Number(isTarget), id, size)));
  }

  #words(ids, isTarget) { // the texts of the words, and the word of each token, −1 for the end of sentence
    if (!ids.length) return { texts: [], ofTokens: [] };
    return this.#library.scoped((allocate) => {
      const { exports } = this.#library, from = allocate(4 * ids.length), to = allocate(4 * ids.length), size = allocate(4);
      const put = (values) => new Int32Array(exports.memory.buffer, from, values.length).set(values);
      put(ids);
      if (exports.regard_words(this.#model, Number(isTarget), from, ids.length, to)) throw new Error(NO_MEMORY);
      const ofTokens = [...this.#library.integers(to, ids.length)], texts = Array.from({ length: Math.max(-1, ...ofTokens) + 1 }, (_, word) => {
        const own = ids.filter((__, i) => ofTokens[i] === word);
        put(own);
        const address = exports.regard_decode(this.#model, Number(isTarget), from, own.length, size) >>> 0;
        if (!address) throw new Error(NO_MEMORY);
        const text = this.#library.text(address, this.#library.number(size));
        exports.regard_free_text(address);
        return text;
      });
      return { texts, ofTokens };
    });
  }
}

function encoded(text) {
  if (typeof text !== "string") throw new Error(`translate: wanted text, or an array of lines of text, got ${typeof text}`);
  return new TextEncoder().encode(text);
}

/** Return how many characters of a text, spaces aside, its tokens do not spell: bytes do not, which are of unseen characters, nor what stands for lost ones. */
function unknownCharacters(text, tokens) {
  const known = tokens.filter((token) => !/^(<0x[0-9A-F]{2}>|<unk>)$/.test(token));
  if (known.length === tokens.length) return 0;
  return Math.max(0, lengthOf(wordsOf(text).join("")) - lengthOf(known.join("").replaceAll("▁", "")));
}

/** Return whether ids have more pairs of neighbours that no line of training has than `familiar` allows, −1 aside, as `SeenTokenPairs` of Python does. */
export function hasUnseen(familiar, ids) {
  const { pairs, most } = familiar ?? {};
  if (typeof pairs !== "string" || !/^[A-Za-z0-9+/]{3,}=*$/.test(pairs)) return false;
  const bytes = Uint8Array.from(atob(pairs), (character) => character.charCodeAt(0)), size = 8 * bytes.length;
  const isSeen = (first, second) => [0, 1, 2, 3].every((number) => {
    let mixed = (Math.imul(first, 0x9e3779b1) + Math.imul(second, 0x85ebca77) + Math.imul(number, 0xc2b2ae3d)) >>> 0;
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> 0;
    const bit = ((mixed ^ (mixed >>> 13)) >>> 0) % size;
    return (bytes[bit >> 3] >> (bit & 7)) & 1;
  });
  return ids.filter((id, i) => i && id >= 0 && ids[i - 1] >= 0 && !isSeen(ids[i - 1], id)).length > most;
}
