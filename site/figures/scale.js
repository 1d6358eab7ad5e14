// Scores of random vectors of d dimensions, divided by nothing, √d or d: their softmax, and the slope that is left for learning.
import { choice, element, shape, slider, written } from "./parts.js";
import { softmax } from "../../regard/visualisation/assets/steps_compute.js";

const WORDS = {
  en: {
    size: "dimension d", divisor: "Scores divided by", nothing: "nothing", root: "√d", d: "d",
    again: "Other random vectors",
    columns: ["key", "score", "weight", "", "slope w(1−w)"],
    key: (i) => `k${i}`,
    spread: (formula, spread) => `The scores ${formula} have a standard deviation of ${spread} over many draws; the slope is by these scores.`,
    says: {
      nothing: (largest, slope, isFlat) => `Here the largest weight is ${largest}, the largest slope ${slope}${isFlat ? ": training hardly moves the weights" : ""}. The larger d, the more goes to a single key on average, and the closer to 0 are the slopes.`,
      root: (largest) => `Here the largest weight is ${largest}. The spread of the scores does not depend on d, and so the slope stays on average.`,
      d: (largest, slope, isFlat) => `Here the largest weight is ${largest}; of equal weights each would be 1/6 = 0.167. The larger d, the more equal they become, whatever the query asks. By q·k itself the slope is d times smaller, ${slope} at most${isFlat ? ": a change of q·k hardly moves the weights" : ""}.`,
    },
    chart: "mean largest weight of many draws, by d",
  },
  ko: {
    size: "차원 d", divisor: "점수를 무엇으로 나눌까요?", nothing: "안 나눔", root: "√d", d: "d",
    again: "다른 무작위 벡터",
    columns: ["키", "점수", "가중치", "", "기울기 w(1−w)"],
    key: (i) => `k${i}`,
    spread: (formula, spread) => `벡터를 여러 번 뽑으면 점수 ${formula}의 표준편차는 ${spread}입니다. 표의 기울기는 이 점수에 대한 것입니다.`,
    says: {
      nothing: (largest, slope, isFlat) => `여기서 가장 큰 가중치는 ${largest}, 가장 큰 기울기는 ${slope}입니다.${isFlat ? " 학습해도 가중치가 거의 움직이지 않습니다." : ""} 평균적으로 d가 클수록 키 하나에 가중치가 몰리고 기울기는 0에 가까워집니다.`,
      root: (largest) => `여기서 가장 큰 가중치는 ${largest}입니다. 점수가 흩어진 정도가 d와 무관하므로 기울기도 평균적으로 그대로입니다.`,
      d: (largest, slope, isFlat) => `여기서 가장 큰 가중치는 ${largest}입니다. 모두 같다면 1/6 = 0.167입니다. d가 클수록 쿼리가 무엇을 묻든 가중치가 같아집니다. q·k에 대한 기울기는 표의 기울기를 다시 d로 나눈 값이어서 커야 ${slope}입니다.${isFlat ? " q·k가 달라져도 가중치가 거의 움직이지 않습니다." : ""}`,
    },
    chart: "d에 따른 최대 가중치(여러 번 뽑은 평균)",
  },
};
const POWERS = { nothing: 0, root: 0.5, d: 1 };
const PAINTS = { nothing: "s0", root: "s2", d: "s3" };
const FLAT = 0.05; // a slope below it hardly moves a weight
const LEAST = 2, MOST = 512;
const CHART = { width: 340, height: 210, left: 44, right: 60, top: 26, bottom: 32, most: 1 };

/** Return scores, weights and slopes of the first `d` dimensions of a query and keys. */
export function attend([query, ...keys], d, divisor) {
  const scores = keys.map((key) => key.slice(0, d).reduce((sum, x, i) => sum + x * query[i], 0) / d ** POWERS[divisor]);
  const weights = softmax(scores);
  return { scores, weights, slopes: weights.map((w) => w * (1 - w)) };
}

function chart(data, words) {
  const { width, height, left, right, top, bottom, most } = CHART;
  const x = (d) => left + ((width - left - right) * Math.log2(d / LEAST)) / Math.log2(MOST / LEAST);
  const y = (weight) => height - bottom - ((height - top - bottom) * weight) / most;
  const text = (content, at, attributes = {}) => shape("text", { x: at[0], y: at[1], ...attributes }, content);
  const ticks = [2, 8, 32, 128, 512].map((d) => text(String(d), [x(d), height - 12], { "text-anchor": "middle" }));
  const levels = [0, 0.5, 1].flatMap((weight) => [
    shape("line", { x1: left, x2: width - right, y1: y(weight), y2: y(weight), class: "axis" }),
    text(String(weight), [left - 6, y(weight) + 5], { "text-anchor": "end" }),
  ]);
  const lines = Object.entries(data.largest).map(([name, weights]) => {
    const points = weights.map((weight, i) => `${x(data.sizes[i])} ${y(weight)}`).join("L");
    return shape("g", { class: PAINTS[name] }, shape("path", { d: `M${points}` }), text(words[name], [width - right + 6, y(weights.at(-1)) + 5]));
  });
  const rule = shape("line", { y1: top, y2: height - bottom, class: "now" }), dot = shape("circle", { r: 6 });
  const at = (d, name) => { // between the dimensions that were measured, on the line
    const place = Math.min(data.sizes.length - 2, Math.floor(Math.log2(d / data.sizes[0])));
    const share = Math.log2(d / data.sizes[place]);
    const weight = data.largest[name][place] * (1 - share) + data.largest[name][place + 1] * share;
    rule.setAttribute("x1", x(d));
    rule.setAttribute("x2", x(d));
    dot.setAttribute("cx", x(d));
    dot.setAttribute("cy", y(weight));
    dot.setAttribute("class", PAINTS[name]);
  };
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": words.chart }, ...levels, ...ticks, rule, ...lines, dot, text(words.chart, [0, 14]));
  return { svg, at };
}

export function draw(root, data, language, { divisor = "nothing" } = {}) {
  const words = WORDS[language];
  let d = MOST, drawn = 0;

  const count = data.vectors[0].length - 1;
  const rows = Array.from({ length: count }, (_, i) => {
    const bar = element("div", { class: "bar s0" }), score = element("td"), weight = element("td"), slope = element("td");
    return { bar, score, weight, slope, row: element("tr", {}, element("th", { scope: "row" }, words.key(i + 1)), score, weight, element("td", { class: "track" }, element("div", {}, bar)), slope) };
  });
  const head = element("tr", {}, ...words.columns.map((text) => (text ? element("th", { scope: "col" }, text) : element("td"))));
  const table = element("table", { class: "measures" }, element("thead", {}, head), element("tbody", {}, ...rows.map(({ row }) => row)));
  const curve = chart(data, words);
  const note = element("output", { class: "answer" });
  const size = slider(words.size, { least: LEAST, most: MOST, at: (x) => 2 ** x, of: Math.log2 }, d, (value) => { d = value; paint(); }, language);
  const divisors = choice(words.divisor, Object.keys(POWERS).map((name) => [name, words[name]]), divisor, (name) => { divisor = name; paint(); });
  const again = element("button", { type: "button", click: () => { drawn = (drawn + 1) % data.vectors.length; paint(); } }, words.again);

  function paint() {
    const { scores, weights, slopes } = attend(data.vectors[drawn], d, divisor);
    rows.forEach((row, i) => {
      row.score.textContent = written(scores[i], 2);
      row.weight.textContent = written(weights[i]);
      row.slope.textContent = written(slopes[i]);
      row.bar.style.width = `${100 * weights[i]}%`;
    });
    const formula = { nothing: "q·k", root: "q·k / √d", d: "q·k / d" }[divisor];
    const slope = Math.max(...slopes) / (divisor === "d" ? d : 1); // by q·k
    const says = words.says[divisor](written(Math.max(...weights)), written(slope), slope < FLAT);
    note.textContent = `${words.spread(formula, written(d ** (0.5 - POWERS[divisor]), 2))} ${says}`;
    curve.at(d, divisor);
  }

  root.classList.add("scale");
  root.append(element("div", { class: "controls" }, size, divisors, again), element("div", { class: "panes" }, element("div", {}, table), curve.svg), note);
  paint();
}
