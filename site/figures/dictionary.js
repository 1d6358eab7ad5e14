// The dictionary that is looked up softly: a query to drag among keys, the weights of the keys, the answer and its gradient.
import { choice, element, numberField, shape, slider, written } from "./parts.js";

const WORDS = {
  en: {
    rule: "Look up by", equal: "equality", shares: "shares of the sum", softmax: "softmax",
    likeness: "Similarity", distance: "distance", cosine: "cosine",
    formula: { equal: "similarity: 1 if query and key are the same vector, otherwise 0", distance: "similarity = e^(−distance² / 2): 1 in the same place, nearer 0 the farther away", cosine: "similarity = cosine of the angle between query and key: 1 in the same direction, 0 at a right angle, −1 in the opposite direction" },
    temperature: "Temperature",
    columns: ["key", "similarity", "weight", "value"],
    answer: "answer",
    drag: (name) => `${name}, the query: drag it, or move it with the arrow keys`,
    noKey: (name) => `No key equals ${name}: a dict raises KeyError, and no small step of the query changes that. Drag the query onto a key.`,
    negative: "A similarity is negative: shares of a sum need similarities of 0 or more. Softmax takes any number.",
    nothing: "No key is similar: all weights are 0, and so is the answer.",
    flat: "Gradient: none. Equality is 1 on a key and 0 everywhere else; a small step of the query changes nothing, so nothing can be learnt.",
    level: "Gradient of the answer: nearly (0, 0). Here a small step of the query hardly changes the answer.",
    gradient: (x, y) => `Gradient of the answer: (${x}, ${y}), the arrow at the query. A step that way makes the answer larger; so the query can be learnt.`,
    slopes: (pairs) => `Slope of the answer by each similarity: ${pairs}.`,
    reset: "As in the note",
  },
  ko: {
    rule: "찾는 방법", equal: "같은지", shares: "합에서 차지하는 비율", softmax: "softmax",
    likeness: "유사도", distance: "거리", cosine: "코사인",
    formula: { equal: "유사도: 쿼리와 키가 같은 벡터이면 1, 아니면 0", distance: "유사도 = e^(−거리² / 2): 같은 자리이면 1이고, 멀수록 0에 가깝습니다", cosine: "유사도 = 쿼리와 키가 이루는 각의 코사인: 같은 방향이면 1, 직각이면 0, 반대 방향이면 −1" },
    temperature: "온도",
    columns: ["키", "유사도", "가중치", "값"],
    answer: "답",
    drag: (name) => `쿼리 ${name}: 끌거나 화살표 키로 옮기세요`,
    noKey: (name) => `${name}와 같은 키가 없습니다. Python 사전이라면 KeyError가 나고, 쿼리를 조금 옮겨도 마찬가지입니다. 쿼리를 키 위로 끌어 보세요.`,
    negative: "유사도가 음수입니다. 합에서 차지하는 비율은 유사도가 0 이상일 때만 구할 수 있습니다. softmax는 어떤 수든 받습니다.",
    nothing: "비슷한 키가 없습니다. 가중치가 모두 0이므로 답도 0입니다.",
    flat: "기울기: 없음. 같은지 묻는 함수는 키 위에서만 1이고 나머지는 모두 0입니다. 쿼리를 조금 옮겨도 달라지는 것이 없어 배울 수 없습니다.",
    level: "답의 기울기: 거의 (0, 0). 여기서는 쿼리를 조금 옮겨도 답이 거의 그대로입니다.",
    gradient: (x, y) => `답의 기울기는 (${x}, ${y})이고, 쿼리에서 나온 화살표가 그 방향입니다. 쿼리를 그쪽으로 조금 옮기면 답이 커집니다. 그래서 쿼리를 배울 수 있습니다.`,
    slopes: (pairs) => `유사도별 기울기(∂답/∂유사도): ${pairs}.`,
    reset: "노트의 값으로",
  },
};
const PAINTS = ["s0", "s2", "s3"];
const LOW = [-1.2, -0.85], SPAN = 3.2, UNIT = 110, SNAP = 0.07, STEP = 0.05; // LOW: the corner of the plane; SNAP: distance at which the query falls onto a key
const ROUNDED = 0.008; // distance of a key from its two decimals
const FLAT = 5e-4; // a gradient that is written as 0
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);
const dot = (a, b) => total(a.map((x, i) => x * b[i]));

/** Ways to compare a query and a key: the similarity, and its gradient by the query. */
const LIKENESS = {
  distance(query, key) {
    const between = key.map((x, axis) => x - query[axis]), similarity = Math.exp(-dot(between, between) / 2);
    return { similarity, gradient: between.map((x) => similarity * x) };
  },
  cosine(query, key) {
    const length = Math.hypot(...query), sides = length * Math.hypot(...key), similarity = sides ? dot(query, key) / sides : 0;
    return { similarity, gradient: key.map((x, axis) => (sides ? x / sides - (similarity * query[axis]) / length ** 2 : 0)) };
  },
};

/** Return similarities, weights, answer and gradient of the answer by the query, or the `problem` of the rule. */
export function lookUp({ keys, values }, query, rule, temperature, likeness) {
  if (rule === "equal") {
    const equal = keys.map((key) => Number(key[0] === query[0] && key[1] === query[1]));
    return shared(equal, values, total(equal) ? undefined : "noKey");
  }
  const compared = keys.map((key) => LIKENESS[likeness](query, key)), scores = compared.map(({ similarity }) => similarity);
  const slopes = compared.map(({ gradient }) => gradient);
  if (rule === "shares") {
    if (Math.min(...scores) < 0) return { scores, problem: "negative" };
    const result = shared(scores, values, total(scores) ? undefined : "nothing");
    return { ...result, ...gradients(slopes, values, result.answer, keys.map(() => 1 / total(scores))) };
  }
  const top = Math.max(...scores);
  const result = shared(scores.map((x) => Math.exp((x - top) / temperature)), values);
  return { ...result, scores, ...gradients(slopes, values, result.answer, result.weights.map((w) => w / temperature)) };
}

function shared(scores, values, problem) {
  const sum = total(scores);
  const weights = scores.map((x) => (sum ? x / sum : 0));
  return { scores, weights, answer: total(weights.map((w, i) => w * values[i])), problem };
}

/** Return the gradients of the answer by the similarities (for each key, how fast its weight grows with its similarity, times how far its value is from the answer) and by the query. */
function gradients(slopes, values, answer, rates) {
  const bySimilarity = rates.map((rate, i) => (Number.isFinite(rate) ? rate * (values[i] - answer) : 0));
  return { bySimilarity, gradient: [0, 1].map((axis) => total(slopes.map((slope, i) => bySimilarity[i] * slope[axis]))) };
}

export function draw(root, data, language, { rule = "shares", likeness = "distance", temperature = 1 } = {}) {
  const words = WORDS[language], { name } = data.query;
  let query = [...data.query.vector];
  temperature = Number(temperature);

  const place = ([x, y]) => [UNIT * (x - LOW[0]), UNIT * (LOW[1] + SPAN - y)];
  const within = (x, axis) => Math.min(LOW[axis] + SPAN, Math.max(LOW[axis], x));
  const size = SPAN * UNIT;
  const line = (from, to, attributes) => shape("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], ...attributes });
  const spokes = [], labels = []; // spokes: from the keys to the query, or to the origin if angles count; labels lie above them
  const keys = data.keys.map((key, i) => {
    const [x, y] = place(key);
    const spoke = line([x, y], [x, y], { class: "spoke" });
    spokes.push(spoke);
    labels.push(shape("text", { x, y: key[1] < 0 ? y + 26 : y - 14, "text-anchor": "middle" }, `${data.names[i]} (${data.values[i]})`));
    return shape("g", { class: PAINTS[i] }, spoke, shape("circle", { cx: x, cy: y, r: 7 }));
  });
  const arrow = shape("path", { class: "gradient" });
  const label = shape("text", { "text-anchor": "middle" }, name);
  const handle = shape("g", { class: "handle", role: "slider", tabindex: "0", "aria-label": words.drag(name), "aria-valuemin": LOW[0], "aria-valuemax": LOW[0] + SPAN }, shape("circle", { r: 24, class: "touch" }), shape("circle", { r: 10 }));
  const axes = [[[LOW[0], 0], [LOW[0] + SPAN, 0]], [[0, LOW[1]], [0, LOW[1] + SPAN]]].map(([from, to]) => line(place(from), place(to), { class: "axis" }));
  const [x0, y0] = place([0, 0]), vector = line([x0, y0], [x0, y0], { class: "spoke own" });
  const plane = shape("svg", { viewBox: `0 0 ${size} ${size}`, class: "plane" }, ...axes, ...keys, vector, arrow, ...labels, label, handle);

  const rows = data.names.map((key, i) => {
    const bar = element("div", { class: `bar ${PAINTS[i]}` });
    const cells = { similarity: element("td"), weight: element("td") };
    return { bar, ...cells, row: element("tr", {}, element("th", { scope: "row" }, key), cells.similarity, cells.weight, element("td", { class: "track" }, element("div", {}, bar)), element("td", {}, String(data.values[i]))) };
  });
  const head = element("tr", {}, ...words.columns.flatMap((text, i) => [element("th", { scope: "col" }, text), ...(i === 2 ? [element("td")] : [])]));
  const table = element("table", { class: "measures" }, element("thead", {}, head), element("tbody", {}, ...rows.map(({ row }) => row)));
  const answer = element("output", { class: "answer" });
  const slopes = element("p", { class: "gradient-note slopes" }), gradient = element("p", { class: "gradient-note" }), formula = element("p", { class: "gradient-note" });

  const fields = [0, 1].map((axis) => numberField(`${name} ${"xy"[axis]}`, { least: LOW[axis], most: LOW[axis] + SPAN, digits: 2 }, query[axis], (typed) => { query[axis] = typed; query = snapped(query, ROUNDED); paint(); }, language));
  const position = element("div", { class: "position" }, element("span", {}, `${name} = (`), fields[0].field, element("span", {}, ","), fields[1].field, element("span", {}, ")"), fields[0].wrong, fields[1].wrong);
  const logarithm = { least: 0.05, most: 20, digits: 2, step: 0.01, at: (x) => 10 ** x, of: Math.log10 };
  const heat = slider(words.temperature, logarithm, temperature, (value) => { temperature = value; paint(); }, language);
  const rules = choice(words.rule, ["equal", "shares", "softmax"].map((key) => [key, words[key]]), rule, (chosen) => { rule = chosen; paint(); });
  const likenesses = choice(words.likeness, Object.keys(LIKENESS).map((key) => [key, words[key]]), likeness, (chosen) => { likeness = chosen; paint(); });
  const reset = element("button", { type: "button", click: () => go(data.query.vector) }, words.reset);

  function go(point) {
    query = snapped(point.map(within), SNAP);
    fields.forEach(({ show }, axis) => show(query[axis]));
    paint();
  }

  const snapped = (point, reach) => [...(data.keys.find((key) => Math.hypot(key[0] - point[0], key[1] - point[1]) < reach) ?? point)];

  function paint() {
    const result = lookUp(data, query, rule, temperature, likeness);
    const { scores, weights, problem } = result;
    spokes.forEach((spoke, i) => { spoke.style.display = rule === "equal" && !weights[i] ? "none" : ""; }); // equality knows no distance
    heat.hidden = rule !== "softmax";
    likenesses.hidden = rule === "equal";
    formula.textContent = words.formula[rule === "equal" ? rule : likeness];
    rows.forEach((row, i) => {
      row.similarity.textContent = written(scores[i]);
      row.weight.textContent = weights && problem !== "noKey" ? written(weights[i]) : "–";
      row.bar.style.width = `${100 * (weights?.[i] ?? 0)}%`;
    });
    const terms = weights?.map((weight, i) => `${written(weight)}·${data.values[i]}`).join(" + ");
    answer.textContent = problem ? words[problem] instanceof Function ? words[problem](name) : words[problem] : `${words.answer} = ${terms} = ${written(result.answer, 4)}`;
    answer.classList.toggle("problem", Boolean(problem));
    slopes.textContent = result.bySimilarity ? words.slopes(result.bySimilarity.map((slope, i) => `${data.names[i]} ${written(slope)}`).join(", ")) : "";
    const [x, y] = result.gradient ?? [0, 0];
    const isLevel = Math.hypot(x, y) < FLAT;
    gradient.textContent = problem === "negative" ? "" : !result.gradient ? words.flat : isLevel ? words.level : words.gradient(written(x), written(y));
    root.dataset.answer = problem ?? result.answer;
    paintQuery([x, y], rule !== "equal" && likeness === "cosine");
  }

  function paintQuery([x, y], isAngle) {
    const [left, top] = place(query), steep = Math.hypot(x, y);
    const [endX, endY] = isAngle ? [x0, y0] : [left, top];
    for (const spoke of [...spokes, vector]) {
      spoke.setAttribute("x2", endX);
      spoke.setAttribute("y2", endY);
    }
    handle.setAttribute("transform", `translate(${left} ${top})`);
    handle.setAttribute("aria-valuenow", query[0].toFixed(2));
    handle.setAttribute("aria-valuetext", `(${written(query[0], 2)}, ${written(query[1], 2)}): ${answer.textContent}`);
    vector.setAttribute("x1", left);
    vector.setAttribute("y1", top);
    label.setAttribute("x", Math.min(size - 30, Math.max(30, left)));
    label.setAttribute("y", top < 40 ? top + 30 : top - 18);
    const reach = 16 + 55 * (steep / (1 + steep)); // longer for a steeper answer, never beyond the plane
    const [u, v] = [x / steep, -y / steep], tip = [left + (reach + 12) * u, top + (reach + 12) * v];
    const wing = (side) => `${tip[0] - 10 * u + side * 6 * v} ${tip[1] - 10 * v - side * 6 * u}`;
    arrow.setAttribute("d", steep > 1e-9 ? `M${left} ${top}L${tip.join(" ")}M${wing(1)}L${tip.join(" ")}L${wing(-1)}` : "");
  }

  const pointed = (event) => {
    const box = plane.getBoundingClientRect(), scale = SPAN / box.width;
    return [LOW[0] + (event.clientX - box.left) * scale, LOW[1] + SPAN - (event.clientY - box.top) * scale].map((x) => Math.round(100 * x) / 100);
  };
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // the page does not scroll with the query
  handle.addEventListener("pointerdown", (event) => { handle.setPointerCapture(event.pointerId); event.preventDefault(); handle.focus({ preventScroll: true }); });
  handle.addEventListener("pointermove", (event) => { if (handle.hasPointerCapture(event.pointerId)) go(pointed(event)); });
  handle.addEventListener("keydown", (event) => {
    const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    query = query.map((x, axis) => within(Number((x + STEP * by[axis]).toFixed(2)), axis));
    fields.forEach(({ show }, axis) => show(query[axis]));
    paint();
  });

  root.classList.add("dictionary");
  root.append(element("div", { class: "controls" }, rules, likenesses, heat), element("div", { class: "panes" }, plane, element("div", { class: "side" }, formula, table, answer, slopes, gradient, element("div", { class: "controls" }, position, reset))));
  paint();
}
