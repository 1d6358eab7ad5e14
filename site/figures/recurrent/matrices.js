// Matrices that know their gradients: each operation computes numbers at once, and keeps on a tape how its gradient is passed back.

/** Rows × columns of numbers, with the gradient of the loss by each of them. */
export class Matrix {
  constructor(rows, columns, numbers = new Float64Array(rows * columns), gradient = new Float64Array(rows * columns)) {
    Object.assign(this, { rows, columns, numbers, gradient });
  }

  /** Return the same numbers, and the same gradient, in another shape. */
  shaped(rows, columns) {
    return new Matrix(rows, columns, this.numbers, this.gradient);
  }
}

/** Pass gradients back through all operations of a tape, the last first. */
export function passBack(tape) {
  for (let i = tape.length - 1; i >= 0; i -= 1) tape[i]();
}

/** Return the matrix product. */
export function product(tape, left, right) {
  const result = new Matrix(left.rows, right.columns), { columns } = right;
  const each = (visit) => {
    for (let r = 0; r < left.rows; r += 1) for (let i = 0; i < left.columns; i += 1) visit(r * left.columns + i, i * columns, r * columns);
  };
  each((a, b, out) => {
    for (let c = 0; c < columns; c += 1) result.numbers[out + c] += left.numbers[a] * right.numbers[b + c];
  });
  tape.push(() => each((a, b, out) => {
    let sum = 0;
    for (let c = 0; c < columns; c += 1) {
      const slope = result.gradient[out + c];
      sum += slope * right.numbers[b + c];
      right.gradient[b + c] += slope * left.numbers[a];
    }
    left.gradient[a] += sum;
  }));
  return result;
}

/** Return the sum; a single row is added to each row. */
export function sum(tape, left, right) {
  const result = new Matrix(left.rows, left.columns), size = right.numbers.length;
  result.numbers.forEach((_, i) => { result.numbers[i] = left.numbers[i] + right.numbers[i % size]; });
  tape.push(() => result.gradient.forEach((slope, i) => {
    left.gradient[i] += slope;
    right.gradient[i % size] += slope;
  }));
  return result;
}

/** Return tanh of each number; its slope is 1 − tanh². */
export function tanh(tape, matrix) {
  const result = new Matrix(matrix.rows, matrix.columns, matrix.numbers.map(Math.tanh));
  tape.push(() => result.gradient.forEach((slope, i) => { matrix.gradient[i] += slope * (1 - result.numbers[i] ** 2); }));
  return result;
}

/** Return the softmax of all numbers; the slope of each is its weight times its gradient less their weighted mean. */
export function softmax(tape, matrix) {
  const largest = Math.max(...matrix.numbers), powers = matrix.numbers.map((x) => Math.exp(x - largest));
  const total = powers.reduce((all, x) => all + x, 0), weights = powers.map((x) => x / total);
  const result = new Matrix(matrix.rows, matrix.columns, weights);
  tape.push(() => {
    const mean = weights.reduce((all, weight, i) => all + weight * result.gradient[i], 0);
    weights.forEach((weight, i) => { matrix.gradient[i] += weight * (result.gradient[i] - mean); });
  });
  return result;
}

/** Return a row of a matrix, such as the embedding of a word. */
export function row(tape, matrix, index) {
  const { columns } = matrix, from = index * columns;
  const result = new Matrix(1, columns, matrix.numbers.slice(from, from + columns));
  tape.push(() => result.gradient.forEach((slope, i) => { matrix.gradient[from + i] += slope; }));
  return result;
}

/** Return single rows as one row, one behind the other. */
export function joined(tape, ...rows) {
  const result = new Matrix(1, rows.reduce((columns, one) => columns + one.columns, 0));
  let end = 0;
  const starts = rows.map((one) => (end += one.columns) - one.columns);
  rows.forEach((one, i) => result.numbers.set(one.numbers, starts[i]));
  tape.push(() => rows.forEach((one, i) => one.gradient.forEach((_, c) => { one.gradient[c] += result.gradient[starts[i] + c]; })));
  return result;
}
