// Computes the numbers of a walkthrough again: its equations are the program, read term by term. A tensor has the
// letters of its axes, a shape and its numbers; all but the last two axes are sentences (B) and heads (H).
"use strict";
const MINUS_INFINITY = -Infinity;

function erf(x) { // Abramowitz and Stegun 7.1.26, to 1.5e-7
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}
const silu = x => x / (1 + Math.exp(-x));
const total = row => row.reduce((sum, x) => sum + x, 0);
function softmax(row) { // a row of which nothing may be seen has weights of zero
  const top = Math.max(...row);
  if (top === MINUS_INFINITY) return row.map(() => 0);
  const powers = row.map(x => Math.exp(x - top)), sum = total(powers);
  return powers.map(x => x / sum);
}
function moments(row) {
  const mean = total(row) / row.length;
  return [mean, total(row.map(x => (x - mean) ** 2)) / row.length];
}
const BY_ROW = {
  "softmax →": softmax,
  "ReLU →": row => row.map(x => Math.max(0, x)),
  "GELU →": row => row.map(x => x / 2 * (1 + erf(x / Math.SQRT2))),
  "SiLU →": row => row.map(silu),
  "SwiGLU →": row => row.slice(0, row.length / 2).map((x, i) => silu(x) * row[row.length / 2 + i]),
};
const product = (left, right) => left.map(row => right[0].map((_, c) => row.reduce((sum, x, i) => sum + x * right[i][c], 0)));
function pairwise(left, right, combine) { // a single row or column stands for all
  const at = (rows, r, c) => { const row = rows[rows.length > 1 ? r : 0]; return row[row.length > 1 ? c : 0]; };
  return left.map((row, r) => row.map((x, c) => combine(x, at(right, r, c))));
}

function sizes(tensor) { const [rows, columns] = tensor.shape.slice(-2); return { rows, columns, both: rows * columns }; }
function matrixOf(tensor, at) {
  const { rows, columns, both } = sizes(tensor);
  let place = 0;
  tensor.letters.slice(0, -2).forEach((letter, axis) => { place = place * tensor.shape[axis] + (tensor.shape[axis] > 1 ? at[letter] : 0); });
  return Array.from({ length: rows }, (_, r) => Array.from(tensor.numbers.slice(place * both + r * columns, place * both + (r + 1) * columns)));
}
function fromMatrices(term, matrixAt) {
  const tensor = { letters: term.letters, shape: term.shape, numbers: [] }, axes = term.letters.slice(0, -2);
  const visit = (at, axis) => {
    if (axis === axes.length) { for (const row of matrixAt(at)) for (const x of row) tensor.numbers.push(x); return; }
    for (let i = 0; i < term.shape[axis]; i++) visit({ ...at, [axes[axis]]: i }, axis + 1);
  };
  visit({ B: 0, H: 0 }, 0);
  return tensor;
}
// The same numbers with other axes: transposed, split into heads (B T D → B H T E), or joined from heads.
function rearranged(tensor, term, isTransposed) {
  if (isTransposed) return fromMatrices(term, at => { const m = matrixOf(tensor, at); return m[0].map((_, c) => m.map(row => row[c])); });
  if (term.shape.length === tensor.shape.length) return tensor;
  const width = (tensor.shape.length === 4 ? tensor : term).shape[3];
  if (term.shape.length === 4) return fromMatrices(term, at => matrixOf(tensor, at).map(row => row.slice(at.H * width, (at.H + 1) * width)));
  return fromMatrices(term, at => {
    const heads = Array.from({ length: tensor.shape[1] }, (_, H) => matrixOf(tensor, { ...at, H }));
    return heads[0].map((_, r) => heads.flatMap(matrix => matrix[r]));
  });
}

// Finds out, once, what each term is: numbers that are given, the numbers of an earlier term, or a result.
function readProgram(data) {
  const bytes = Uint8Array.from(atob(data.numbers), letter => letter.charCodeAt(0)), floats = new Float32Array(bytes.buffer);
  const named = {};
  let from = 0;
  const terms = data.terms.map(([name, letters, shape, operator, rule, parameter, isRepeated], index) => {
    const space = rule.indexOf(" "), kind = space < 0 ? rule : rule.slice(0, space);
    const term = { name, letters: letters.split(" "), shape, operator, kind, operand: named[rule.slice(space + 1)], index };
    if (kind === "tokens") return term;
    if (parameter !== null) term.parameter = { letters: term.letters, shape: parameter[0], numbers: parameter[1] };
    const isAgain = isRepeated && !operator.endsWith("=");
    if (isAgain || kind === "as") {
      const isTransposed = kind !== "as" && !(name in named), known = kind === "as" ? term.operand : named[isTransposed ? name.slice(0, -1) : name];
      const before = known.source ? known.places : { letters: known.letters, shape: known.shape, numbers: Array.from({ length: known.shape.reduce((a, b) => a * b) }, (_, i) => i) };
      Object.assign(term, { source: known.source ?? known, places: rearranged(before, term, isTransposed) });
    } else if (!kind && !/[=→]$/.test(operator)) {
      const count = shape.reduce((a, b) => a * b);
      term.numbers = Array.from(floats.subarray(from, from += count));
    }
    if (!isAgain) named[name] = term;
    return term;
  });
  return terms;
}

// Returns a tensor for each term; `pins`: by index of a term, a Map of the numbers in it that were set by hand.
function compute(terms, pins) {
  const values = [];
  let reached = null, begun = null, operands = []; // results so far of the equation, and its first term
  for (const term of terms) {
    if (term.kind === "tokens") { values.push(null); continue; }
    const scaled = matrixAt => term.parameter ? at => pairwise(matrixAt(at), matrixOf(term.parameter, at), (x, y) => x * y) : matrixAt;
    const read = tensor => at => matrixOf(tensor, at), by = (row, before = reached) => at => before(at).map(row);
    let value;
    if (term.source) {
      const { numbers } = values[term.source.index], { letters, shape } = term;
      value = { letters, shape, numbers: term.places.numbers.map(place => numbers[place]) };
      if (term.parameter) value = fromMatrices(term, scaled(read(value)));
    } else if (term.numbers) {
      value = { letters: term.letters, shape: term.shape, numbers: [...term.numbers] };
    } else {
      const earlier = term.operand && read(values[term.operand.index]), own = at => matrixOf(term.parameter, at);
      const rules = {
        moments: () => by(moments),
        normalise: () => { const epsilon = term.parameter.numbers[0]; return by(row => { const [mean, variance] = moments(row); return row.map(x => (x - mean) / Math.sqrt(variance + epsilon)); }, begun); },
        unit: () => scaled(at => earlier(at).map(row => { const length = Math.max(1e-12, Math.hypot(...row)); return row.map(x => x / length); })),
        columns: () => at => earlier(at).map(row => own(at)[0].map(column => row[column])),
        loss: () => at => earlier(at).map((row, r) => { const column = own(at)[r][0], p = column < 0 ? 1 : softmax(row)[column]; return [p, -Math.log(p)]; }),
        total: () => at => { const sum = total(earlier(at).map(row => row[1])); return [[Math.exp(-sum), sum, sum / own(at)[0][0]]]; },
      };
      const additive = at => { const [v, q, k] = operands.map(one => one(at)); return q.map(a => k.map(b => total(a.map((x, i) => v[0][i] * Math.tanh(x + b[i]))))); };
      const result = rules[term.kind] ? rules[term.kind]() : BY_ROW[term.operator] ? by(BY_ROW[term.operator]) : scaled(term.operator === ") =" ? additive : reached);
      value = fromMatrices(term, result);
    }
    for (const [place, number] of pins.get(term.index) ?? []) value.numbers[place] = number;
    values.push(value);
    const right = read(value), left = reached;
    if (term.operator === "· tanh(") operands = [left, right];
    else if (term.operator === "+" && operands.length === 2) operands.push(right);
    else if (term.operator === "·") reached = at => product(left(at), right(at));
    else if (term.operator === "+") reached = at => pairwise(left(at), right(at), (x, y) => x + y);
    else if (term.operator === "⊙") reached = at => pairwise(left(at), right(at), (x, y) => x * y);
    else { reached = right; operands = []; }
    if (!term.operator) begun = right;
  }
  return values;
}
