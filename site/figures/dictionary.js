// The dictionary that is looked up softly: a query to drag among keys, the weights of the keys, the answer and its gradient.
import { choice, element, numberField, shape, slider, written } from "./parts.js";

const WORDS = {
  en: {
    rule: "Look up by", equal: "equality", shares: "shares of the sum", softmax: "softmax",
    temperature: "Temperature",
    columns: ["key", "similarity", "weight", "value"],
    answer: "answer",
    drag: (name) => `${name}, the query: drag it, or move it with the arrow keys`,
    noKey: (name) => `No key equals ${name}: a dict raises KeyError, and no small step of the query changes that. Drag the query onto a key.`,
    negative: "A similarity is negative: shares of a sum need similarities of 0 or more. Softmax takes any number.",
    nothing: "No key is similar: all weights are 0, and so is the answer.",
    flat: "Gradient: none. Equality jumps from 0 to 1; a small step of the query changes nothing, so nothing can be learnt.",
    gradient: (x, y) => `Gradient of the answer: (${x}, ${y}), the arrow at the query. A step that way makes the answer larger; so the query can be learnt.`,
    reset: "As in the note",
  },
  ko: {
    rule: "찾는 방법", equal: "같은지", shares: "합에서 차지하는 비율", softmax: "softmax",
    temperature: "온도",
    columns: ["키", "유사도", "가중치", "값"],
    answer: "답",
    drag: (name) => `쿼리 ${name}: 끌거나 화살표 키로 옮기세요`,
    noKey: (name) => `${name}와 같은 키가 없습니다. 파이썬 사전이라면 KeyError가 나고, 쿼리를 조금 옮겨도 마찬가지입니다. 쿼리를 키 위로 끌어 보세요.`,
    negative: "유사도가 음수입니다. 합에서 차지하는 비율은 유사도가 0 이상일 때만 구할 수 있습니다. softmax는 어떤 수든 받습니다.",
    nothing: "비슷한 키가 없습니다. 가중치가 모두 0이므로 답도 0입니다.",
    flat: "기울기: 없음. 같은지 묻는 함수는 0에서 1로 건너뜁니다. 쿼리를 조금 옮겨도 답이 그대로여서 배울 수 없습니다.",
    gradient: (x, y) => `답의 기울기: (${x}, ${y}), 쿼리에 붙은 화살표. 쿼리를 그쪽으로 조금 옮기면 답이 커집니다. 그래서 쿼리를 배울 수 있습니다.`,
    reset: "노트의 값으로",
  },
};
const PAINTS = ["s0", "s2", "s3"];
const EDGE = 1.25, UNIT = 140, SNAP = 0.07, STEP = 0.05; // EDGE: the plane reaches from −EDGE to EDGE; SNAP: distance at which the query falls onto a key
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);

/** Return similarities, weights, answer and gradient of the answer by the query, or the `problem` of the rule. */
export function lookUp({ keys, values }, query, rule, temperature) {
  const products = keys.map((key) => key[0] * query[0] + key[1] * query[1]);
  if (rule === "equal") {
    const equal = keys.map((key) => Number(key[0] === query[0] && key[1] === query[1]));
    return shared(equal, values, total(equal) ? undefined : "noKey");
  }
  if (rule === "shares") {
    if (Math.min(...products) < 0) return { scores: products, problem: "negative" };
    const result = shared(products, values, total(products) ? undefined : "nothing");
    return { ...result, gradient: gradientOf(keys, values, result.answer, keys.map(() => 1 / total(products))) };
  }
  const top = Math.max(...products);
  const result = shared(products.map((x) => Math.exp((x - top) / temperature)), values);
  return { ...result, scores: products, gradient: gradientOf(keys, values, result.answer, result.weights.map((w) => w / temperature)) };
}

function shared(scores, values, problem) {
  const sum = total(scores);
  const weights = scores.map((x) => (sum ? x / sum : 0));
  return { scores, weights, answer: total(weights.map((w, i) => w * values[i])), problem };
}

/** Return the gradient of the answer: for each key, how fast its weight grows with its similarity, times how far its value is from the answer. */
function gradientOf(keys, values, answer, rates) {
  return [0, 1].map((axis) => total(keys.map((key, i) => (Number.isFinite(rates[i]) ? rates[i] * (values[i] - answer) * key[axis] : 0))));
}

export function draw(root, data, language) {
  const words = WORDS[language], { name } = data.query;
  let query = [...data.query.vector], rule = "shares", temperature = 1;

  const place = ([x, y]) => [UNIT * (EDGE + x), UNIT * (EDGE - y)];
  const size = 2 * EDGE * UNIT;
  const line = (from, to, attributes) => shape("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], ...attributes });
  const keys = data.keys.map((key, i) => {
    const [x, y] = place(key);
    const isLow = key[1] < 0, isRight = key[0] > 0.8; // beside the place where the query begins
    return shape("g", { class: PAINTS[i] }, line(place([0, 0]), [x, y], { class: "spoke" }), shape("circle", { cx: x, cy: y, r: 7 }), shape("text", { x: isRight ? x - 8 : x, y: isLow ? y + 26 : y - 14, "text-anchor": isRight ? "end" : "middle" }, `${data.names[i]} (${data.values[i]})`));
  });
  const arrow = shape("path", { class: "gradient" });
  const label = shape("text", { "text-anchor": "middle" }, name);
  const handle = shape("g", { class: "handle", role: "slider", tabindex: "0", "aria-label": words.drag(name), "aria-valuemin": -EDGE, "aria-valuemax": EDGE }, shape("circle", { r: 24, class: "touch" }), shape("circle", { r: 10 }));
  const axes = [[[-EDGE, 0], [EDGE, 0]], [[0, -EDGE], [0, EDGE]]].map(([from, to]) => line(place(from), place(to), { class: "axis" }));
  const plane = shape("svg", { viewBox: `0 0 ${size} ${size}`, class: "plane" }, ...axes, ...keys, arrow, label, handle);

  const rows = data.names.map((key, i) => {
    const bar = element("div", { class: `bar ${PAINTS[i]}` });
    const cells = { similarity: element("td"), weight: element("td") };
    return { bar, ...cells, row: element("tr", {}, element("th", { scope: "row" }, key), cells.similarity, cells.weight, element("td", { class: "track" }, element("div", {}, bar)), element("td", {}, String(data.values[i]))) };
  });
  const head = element("tr", {}, ...words.columns.flatMap((text, i) => [element("th", { scope: "col" }, text), ...(i === 2 ? [element("td")] : [])]));
  const table = element("table", { class: "measures" }, element("thead", {}, head), element("tbody", {}, ...rows.map(({ row }) => row)));
  const answer = element("output", { class: "answer" });
  const gradient = element("p", { class: "gradient-note" });

  const fields = [0, 1].map((axis) => numberField(`${name} ${"xy"[axis]}`, { least: -EDGE, most: EDGE, digits: 2 }, query[axis], (typed) => { query[axis] = typed; paint(); }, language));
  const position = element("div", { class: "position" }, element("span", {}, `${name} = (`), fields[0].field, element("span", {}, ","), fields[1].field, element("span", {}, ")"), fields[0].wrong, fields[1].wrong);
  const logarithm = { least: 0.05, most: 20, digits: 2, step: 0.01, at: (x) => 10 ** x, of: Math.log10 };
  const heat = slider(words.temperature, logarithm, temperature, (value) => { temperature = value; paint(); }, language);
  const rules = choice(words.rule, ["equal", "shares", "softmax"].map((key) => [key, words[key]]), rule, (chosen) => { rule = chosen; paint(); });
  const reset = element("button", { type: "button", click: () => go(data.query.vector) }, words.reset);

  function go(point) {
    query = point.map((x) => Math.min(EDGE, Math.max(-EDGE, x)));
    const near = data.keys.find((key) => Math.hypot(key[0] - query[0], key[1] - query[1]) < SNAP);
    if (near) query = [...near];
    fields.forEach(({ show }, axis) => show(query[axis]));
    paint();
  }

  function paint() {
    const result = lookUp(data, query, rule, temperature);
    const { scores, weights, problem } = result;
    heat.hidden = rule !== "softmax";
    rows.forEach((row, i) => {
      row.similarity.textContent = written(scores[i]);
      row.weight.textContent = weights && problem !== "noKey" ? written(weights[i]) : "–";
      row.bar.style.width = `${100 * (weights?.[i] ?? 0)}%`;
    });
    const terms = weights?.map((weight, i) => `${written(weight)}·${data.values[i]}`).join(" + ");
    answer.textContent = problem ? words[problem] instanceof Function ? words[problem](name) : words[problem] : `${words.answer} = ${terms} = ${written(result.answer, 4)}`;
    answer.classList.toggle("problem", Boolean(problem));
    const [x, y] = result.gradient ?? [0, 0];
    gradient.textContent = problem === "negative" ? "" : result.gradient ? words.gradient(written(x), written(y)) : words.flat;
    root.dataset.answer = problem ?? result.answer;
    paintQuery([x, y]);
  }

  function paintQuery([x, y]) {
    const [left, top] = place(query), steep = Math.hypot(x, y);
    handle.setAttribute("transform", `translate(${left} ${top})`);
    handle.setAttribute("aria-valuenow", query[0].toFixed(2));
    handle.setAttribute("aria-valuetext", `(${written(query[0], 2)}, ${written(query[1], 2)}): ${answer.textContent}`);
    label.setAttribute("x", Math.min(size - 30, left));
    label.setAttribute("y", top > size - 60 ? top - 18 : top + 30);
    const reach = 16 + 55 * (steep / (1 + steep)); // longer for a steeper answer, never beyond the plane
    const [u, v] = [x / steep, -y / steep], tip = [left + (reach + 12) * u, top + (reach + 12) * v];
    const wing = (side) => `${tip[0] - 10 * u + side * 6 * v} ${tip[1] - 10 * v - side * 6 * u}`;
    arrow.setAttribute("d", steep > 1e-9 ? `M${left} ${top}L${tip.join(" ")}M${wing(1)}L${tip.join(" ")}L${wing(-1)}` : "");
  }

  const pointed = (event) => {
    const box = plane.getBoundingClientRect(), scale = (2 * EDGE) / box.width;
    return [(event.clientX - box.left) * scale - EDGE, EDGE - (event.clientY - box.top) * scale].map((x) => Math.round(100 * x) / 100);
  };
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // the page does not scroll with the query
  handle.addEventListener("pointerdown", (event) => { handle.setPointerCapture(event.pointerId); event.preventDefault(); handle.focus({ preventScroll: true }); });
  handle.addEventListener("pointermove", (event) => { if (handle.hasPointerCapture(event.pointerId)) go(pointed(event)); });
  handle.addEventListener("keydown", (event) => {
    const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    query = query.map((x, axis) => Math.min(EDGE, Math.max(-EDGE, Number((x + STEP * by[axis]).toFixed(2)))));
    fields.forEach(({ show }, axis) => show(query[axis]));
    paint();
  });

  root.classList.add("dictionary");
  root.append(element("div", { class: "controls" }, rules, heat), element("div", { class: "panes" }, plane, element("div", { class: "side" }, table, answer, gradient, element("div", { class: "controls" }, position, reset))));
  paint();
}
