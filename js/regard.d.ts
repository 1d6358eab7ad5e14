/** Options of a search; what is left out is as the model sets it. */
export interface Options {
  /** Hypotheses that are followed at once; 1: greedy. */
  beam?: number;
  /** Hypotheses that are returned, 1 to beam. */
  nbest?: number;
  /** Alpha of ((5 + length) / 6)^alpha. */
  lengthPenalty?: number;
  /** A target has at most this many tokens for each source token … */
  maxRatio?: number;
  /** … plus this many. */
  maxExtra?: number;
  minLength?: number;
  /** Most tokens; −1: no limit of its own. */
  maxLength?: number;
  /** Size of n-grams that may not occur twice; 0: any may. */
  noRepeatNgram?: number;
  /** Most characters of a line. */
  maxLine?: number;
  /** Most tokens of a line of a model that does not know its longest source. */
  maxWhole?: number;
  /** 1: WebAssembly has one thread here. */
  threads?: number;
  /** Which attention is returned, scores and weights. */
  attention?: "none" | "cross" | "all";
  /** Whether word alignments are extracted. */
  alignments?: boolean;
  /** Whether the search is recorded, of one line at a time. */
  trace?: boolean;
  /** Whether each sentence of a line is translated by itself; by default as the lines of the training data were. */
  split?: boolean;
  /** Whether hidden states are recorded; an error for a model of which neither side is recurrent. */
  states?: boolean;
}

/** What a translation begins with: text, which is tokenised by whole words, or token ids. */
export type Prefix = string | number[];

/** Options of `translate`. */
export interface TranslateOptions extends Options {
  /** What every translation of the call begins with. */
  prefix?: Prefix;
  /** The same, one for each line. */
  prefixes?: Prefix[];
  /**
   * Whether placeholders, tags, addresses and the like of a line come back unchanged, and capitals, titles and labels with mnemonics are
   * read in letters that the model knows; true by default. A line with a prefix of text is translated as it is. With `nbest` above 1 or
   * `alignments` one or two spans are kept, by copy tokens, and nothing is tried again; so with `attention`, `states`, `trace` or token
   * ids as prefix, with which the letters and marks of a line stay as they are, too.
   */
  keep?: boolean;
  /** Dialect of strings of programs, such as "c", "icu" or "html", or the flag of a file format; "auto", the default: what each line speaks for. */
  dialect?: string;
  /** Korean particles directly after placeholders: "both", the default, as in `{name}을(를)`, or "as-is", as the model writes them. */
  particles?: "both" | "as-is";
}

export type Role = "encoder" | "cross" | "decoder";

/** Attention of one layer: weights[(head * rows + row) * columns + column], and so the scores. */
export interface Attention {
  name: string;
  role: Role;
  heads: number;
  /** Tokens that attend, the end of the sentence last. */
  rows: number;
  columns: number;
  weights: Float32Array;
  /** What softmax makes the weights of; −Infinity: of what a row does not attend to. */
  scores: Float32Array;
}

/** Hidden states of the highest layers, if `states` asked for them. */
export interface States {
  /** encoder[(token * directions + direction) * encoderSize + i], forwards and then backwards; null: the encoder is not recurrent. */
  encoder: Float32Array | null;
  directions: number;
  encoderSize: number;
  /** decoder[token * decoderSize + i], which each token is predicted from, the end of the sentence last; of a decoder that is not recurrent its features. */
  decoder: Float32Array;
  decoderSize: number;
  /** The decoder's state before the first token; null: it is not recurrent. */
  initial: Float32Array | null;
  /** The decoder attends by the state before, and the context enters the next one. */
  attendsFirst: boolean;
}

export interface Hypothesis {
  text: string;
  /** Log-probability with the length penalty. */
  score: number;
  tokens: string[];
  ids: number[];
  /** Log-probability of each token, after those before it. */
  logProbs: number[];
  /** End of sentence last among its tokens. */
  targetWords: Words;
  /** Links [source word, target word], from 0, of the line as it was given, or with `attention`, `states` or `trace` of `sourceWords`; null: not asked for. */
  alignments: [number, number][] | null;
  /** Empty if not asked for, and of a line that was split into parts. */
  attention: Attention[];
  /** null if not asked for, and of a line that was split into parts. */
  states: States | null;
  /** A text that is repeated over and over, a sign of failure. */
  repetition: { text: string; times: number } | null;
  /** The model has placed its copy tokens itself. */
  isComplete: boolean;
}

/** A sentence of a line, or a part of a long one, with its translation; without letters it is copied, at score 0. */
export interface Part {
  source: string;
  text: string;
  score: number;
  /** It is less sure than nearly all lines of validation, or its source is unlike the text of training. */
  doubtful: boolean;
  /** Probability that the translation is good (chrF of 50 or more); null: the model is not calibrated for this search. */
  quality: number | null;
}

/** Words: their texts, and the word that each token belongs to; −1: end of sentence. */
export interface Words {
  texts: string[];
  ofTokens: number[];
}

/** A token that could come next after one of the open hypotheses of a step. */
export interface Candidate {
  /** Index of the hypothesis among the prefixes of the step. */
  beam: number;
  id: number;
  token: string;
  /** Of the hypothesis with this token. */
  fate: "kept" | "ended" | "pruned";
  /** Log-probability of the token. */
  logProb: number;
  /** Log-probability of the hypothesis with it. */
  total: number;
}

/** A step of a search: the token ids of the open hypotheses, best first, and the candidates, likeliest first. */
export interface Step {
  prefixes: number[][];
  candidates: Candidate[];
}

/** The best hypothesis of a line, and all of them. */
export interface Translation extends Hypothesis {
  /** End of sentence last. */
  sourceTokens: string[];
  sourceWords: Words;
  nbest: Hypothesis[];
  /** Sentences that the line was split into, parts of those that are longer than what the model can read, or the texts between tags. */
  parts: Part[];
  /**
   * The translation is probably wrong: the model has less confidence in one of the parts than in nearly all of the lines that it was
   * validated with, or a part has letters, or more pairs of neighbouring tokens, that training has not seen.
   */
  doubtful: boolean;
  /** That of the worst part. */
  quality: number | null;
  /**
   * The translation breaks code of its line. If only the best text was asked for, and lines were not taken as they are, the line stands,
   * or those of its sentences that would break, unless only numbers, signs or names differ.
   */
  broken: boolean;
  /** What you may want to tell about the line: that it was split, what code it breaks, that a text is repeated. */
  notes: string[];
  /** The search, if `trace` asked for it and the line was not split. */
  steps: Step[];
}

export type Bytes = ArrayBuffer | ArrayBufferView;

/** Open a model. Without `wasm`, the library is regard.wasm in the folder of this module. */
export function load(source: Bytes | { model: Bytes; wasm?: Bytes | WebAssembly.Module }): Promise<Translator>;

export class Translator {
  private constructor();
  /** How and on what the model was trained, its licence, its settings. */
  readonly card: Record<string, unknown>;
  /** Bytes of memory that the library has taken. */
  readonly memory: number;
  readonly layers: { name: string; role: Role; heads: number }[];
  /** Which sides have hidden states. */
  readonly recurrent: { encoder: boolean; decoder: boolean };
  /** The characters of the model's copy tokens; empty if it has none. */
  readonly copies: string[];
  /** The model's own search options. */
  options(): Required<Options>;
  /** Translate a line or several. Throws an Error if a line cannot be translated. */
  translate(text: string | string[], options?: TranslateOptions): Translation[];
  /**
   * Translate as `translate` does, and yield after each step of the decoder how many parts of the lines are not done: a page answers
   * in between. To give the rest up, call `return` of the generator.
   */
  translateInSteps(text: string | string[], options?: TranslateOptions): Generator<number, Translation[], void>;
  /** Yield the translation of a line as it is decoded, greedily, word by word: the first reading, of which nothing is tried again. */
  stream(text: string, options?: Options & { keep?: boolean }): Generator<string, void, void>;
  /** Token ids of a line as the model reads it, end of sentence last. */
  encode(text: string): number[];
  /** Token ids of a text as the beginning of a translation. */
  encodeTarget(text: string): number[];
  /** Free the model. */
  close(): void;
}

/** Pairs of neighbouring source tokens that training has seen, as a Bloom filter in base64, and how many others a line may have. */
export interface Familiar {
  pairs: string;
  most: number;
}

/** Return what is wrong with the parsed card of a runtime file, a sentence for each cause; `load` throws an Error that holds them. */
export function cardFlaws(card: unknown): string[];

/** Return whether token ids have more pairs of neighbours that no line of training has than is allowed; false if nothing is known. Pairs with −1 do not count. */
export function hasUnseen(familiar: Familiar | undefined, ids: number[]): boolean;
