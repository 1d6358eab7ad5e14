// A recurrent translator of whole words with attention (Bahdanau et al., 2015, with plain recurrent cells), and its training.
import { Matrix, joined, passBack, product, row, softmax, sum, tanh } from "./matrices.js";

const EMBEDDING = 16, STATE = 32, RATE = 0.005;
export const BATCH = 16; // sentences of an update
const DECAY = [0.9, 0.999], TINY = 1e-8; // of Adam
const END = 0; // the token that ends a sentence, and begins what the decoder reads

/** Return a function that draws numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomly(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Return random weights, within ±1/√rows. */
export function begin(sourceWords, targetWords, random) {
  const shapes = {
    source: [sourceWords, EMBEDDING], target: [targetWords, EMBEDDING],
    encoder: [EMBEDDING + STATE, STATE], encoderBias: [1, STATE],
    query: [STATE, STATE], key: [STATE, STATE], score: [STATE, 1],
    decoder: [EMBEDDING + 2 * STATE, STATE], decoderBias: [1, STATE],
    output: [2 * STATE, targetWords], outputBias: [1, targetWords],
  };
  return Object.fromEntries(Object.entries(shapes).map(([name, [rows, columns]]) => {
    const bound = name === "source" || name === "target" ? 1 : 1 / Math.sqrt(rows);
    return [name, new Matrix(rows, columns, Float64Array.from({ length: rows * columns }, () => bound * (2 * random() - 1)))];
  }));
}

/** Read a sentence: return its states and their keys. */
function encode(tape, weights, source) {
  let state = new Matrix(1, STATE);
  const states = source.map((word) => {
    const input = joined(tape, row(tape, weights.source, word), state);
    state = tanh(tape, sum(tape, product(tape, input, weights.encoder), weights.encoderBias));
    return state;
  });
  const memory = joined(tape, ...states).shaped(states.length, STATE);
  return { memory, keys: product(tape, memory, weights.key) };
}

/** Write one word after `word`, from a state: return attention, the next state and the probabilities of all words. */
function step(tape, weights, { memory, keys }, state, word) {
  const query = product(tape, state, weights.query);
  const scores = product(tape, tanh(tape, sum(tape, keys, query)), weights.score);
  const attention = softmax(tape, scores.shaped(1, memory.rows));
  const context = product(tape, attention, memory);
  const input = joined(tape, row(tape, weights.target, word), context, state);
  const next = tanh(tape, sum(tape, product(tape, input, weights.decoder), weights.decoderBias));
  const logits = sum(tape, product(tape, joined(tape, next, context), weights.output), weights.outputBias);
  return { attention: [...attention.numbers], probabilities: softmax(tape, logits), state: next };
}

/** Read the reference word by word (teacher forcing): return the attention and the probability of each of its words, and the mean loss; with a `share`, pass back the gradient of its sum. */
export function read(weights, { source, target }, share = 0) {
  const tape = [], encoded = encode(tape, weights, source), attention = [], probabilities = [];
  let before = END, state = new Matrix(1, STATE);
  for (const word of [...target, END]) {
    const made = step(tape, weights, encoded, state, before);
    const probability = made.probabilities.numbers[word];
    made.probabilities.gradient[word] = -share / probability;
    attention.push(made.attention);
    probabilities.push(probability);
    before = word;
    state = made.state;
  }
  if (share) passBack(tape);
  return { attention, probabilities, loss: probabilities.reduce((all, p) => all - Math.log(p), 0) / probabilities.length };
}

/** Translate: the likeliest word at each step, until the end or `most` words. */
export function translate(weights, source, most) {
  const encoded = encode([], weights, source), words = [];
  let word = END, state = new Matrix(1, STATE);
  while (words.length < most) {
    const made = step([], weights, encoded, state, word);
    const { numbers } = made.probabilities;
    word = numbers.indexOf(Math.max(...numbers));
    if (word === END) break;
    words.push(word);
    state = made.state;
  }
  return words;
}

/** Return a training: `update(pairs)` moves the weights a little against the gradient (Adam) and returns the mean loss. */
export function training(weights) {
  const parts = Object.values(weights).map((matrix) => ({ ...matrix, mean: matrix.numbers.map(() => 0), square: matrix.numbers.map(() => 0) }));
  let updates = 0;
  return (pairs) => {
    for (const { gradient } of parts) gradient.fill(0);
    const words = pairs.reduce((all, { target }) => all + target.length + 1, 0);
    const loss = pairs.reduce((all, pair) => all + read(weights, pair, 1 / words).loss * (pair.target.length + 1), 0) / words;
    updates += 1;
    const [grownMean, grownSquare] = DECAY.map((decay) => 1 - decay ** updates);
    for (const { numbers, gradient, mean, square } of parts) {
      for (let i = 0; i < numbers.length; i += 1) {
        mean[i] += (1 - DECAY[0]) * (gradient[i] - mean[i]);
        square[i] += (1 - DECAY[1]) * (gradient[i] ** 2 - square[i]);
        numbers[i] -= (RATE * mean[i]) / grownMean / (Math.sqrt(square[i] / grownSquare) + TINY);
      }
    }
    return loss;
  };
}
