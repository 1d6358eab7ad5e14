// A small decoder from its tokens to the loss: the diagram, the numbers of each step, and switches.
import { choice, element, shape, toggle, written } from "./parts.js";
import { compute } from "../../regard/visualisation/assets/steps_compute.js";
import { mathOf } from "../../regard/visualisation/assets/steps_formulas.js";
import { stepThrough } from "../../regard/visualisation/assets/steps.js";

const WORDS = {
  en: {
    mask: "Mask", forcing: "Teacher forcing", scale: "÷ √d", norm: "Layer norm", post: "after", pre: "before",
    diagram: "The decoder; the part of this step is marked",
    here: "Part of this step",
    change: "Click a number to change it, or reach it with Tab and the arrow keys. All that follows from it is computed again; parts that change have a dot in the diagram.",
    loss: (mean, first) => `Loss: ${mean} a token${mean === first ? "" : ` (at first ${first})`}.`,
    all: "Computed as in training, but the weights have learnt nothing: they are small random numbers. A model that knows nothing has a loss near ln 7 = 1.946, since there are 7 tokens.",
    noMask: "Without the mask a token sees those after it, among them the one that it is to predict: training would learn to copy it, and in translation it is not there yet. These random weights have learnt nothing, neither with a mask nor without one: the loss changes, and may grow; it falls to almost 0 in a training without the mask.",
    unmasked: "Without the mask 0 is added everywhere: each position sees the tokens after it, too.",
    noForcing: (tokens) => `Without teacher forcing the decoder reads what it has predicted itself, ${tokens}, as in translation; the right tokens for the loss stay.`,
    noScale: "Scores of the decoder are not divided by √d = 2: they are twice as far apart, and the weights more uneven.",
    before: "The layer norm stands before each sublayer: the sum of the residual connection goes on as it is.",
  },
  ko: {
    mask: "마스크", forcing: "교사 강요", scale: "÷ √d", norm: "층 정규화", post: "뒤에", pre: "앞에",
    diagram: "디코더. 이 단계가 속한 부분이 표시됩니다",
    here: "지금 보는 부분",
    change: "숫자를 누르거나 Tab과 화살표 키로 옮겨 가서 바꿔 보세요. 그 숫자에서 나오는 값이 모두 다시 계산되고, 달라진 부분은 그림에 점으로 표시됩니다.",
    loss: (mean, first) => `손실: 토큰당 ${mean}${mean === first ? "" : ` (처음에는 ${first})`}.`,
    all: "학습할 때와 같은 계산이지만, 가중치는 아직 배우지 않은 작은 무작위 수입니다. 토큰이 7개이므로 아무것도 모르는 모델의 손실은 ln 7 = 1.946에 가깝습니다.",
    noMask: "마스크가 없으면 토큰이 뒤의 토큰을 봅니다. 거기에는 예측할 정답도 있어서, 학습하면 베끼는 법을 배웁니다. 번역할 때는 뒤의 토큰이 아직 없습니다. 이 무작위 가중치는 마스크가 있든 없든 아무것도 배우지 않았으므로, 손실은 바뀔 뿐이고 커질 수도 있습니다. 손실이 거의 0이 되는 것은 마스크 없이 학습했을 때입니다.",
    unmasked: "마스크가 없으면 모든 자리에 0을 더합니다. 어느 위치든 뒤에 있는 토큰까지 봅니다.",
    noForcing: (tokens) => `교사 강요가 없으면 디코더는 번역할 때처럼 자기가 예측한 토큰(${tokens})을 읽습니다. 손실을 재는 정답은 그대로입니다.`,
    noScale: "디코더의 점수를 √d = 2로 나누지 않습니다. 점수 차이가 두 배가 되어 가중치가 더 고르지 않습니다.",
    before: "층 정규화가 서브층 앞에 있습니다. 잔차 연결의 합은 그대로 다음으로 갑니다.",
  },
};
const NEVER = ["<pad>", "<unk>", "<s>"]; // no translation has them
const BOX = { left: 74, width: 160, height: 34, gap: 14, margin: 8 };
const WIDTH = 256, SOURCE = 62; // SOURCE: width of the encoder's box

const ofName = (terms, name) => terms.filter((term) => term.name === name && !term.source);
const pinsOf = (given) => new Map([...given].map(([index, numbers]) => [index, new Map(numbers)]));

/** Return the numbers that the switches give to terms of a program, and the tokens that are read. `columns`: the tokens of the probabilities. */
export function settings(terms, data, columns, { hasMask, isForced, isScaled }) {
  const given = new Map();
  if (!hasMask) {
    for (const { index, numbers } of ofName(terms, "mask")) given.set(index, new Map(numbers.flatMap((x, place) => (x === -Infinity ? [[place, 0]] : []))));
  }
  for (const term of terms.filter(({ operator }) => operator.startsWith("÷"))) {
    term.scale ??= term.parameter;
    term.parameter = isScaled ? term.scale : { ...term.scale, numbers: term.scale.numbers.map(() => 1) };
  }
  const read = [...data.read];
  if (isForced) return { given, read };
  const [embedding] = ofName(terms, "e"), [probabilities] = ofName(terms, "P"), size = embedding.shape.at(-1);
  const rows = new Map();
  given.set(embedding.index, rows);
  for (let t = 0; t + 1 < read.length; t++) { // the most likely token at t is read at t + 1
    const row = compute(terms, pinsOf(given))[probabilities.index].numbers.slice(t * columns.length, (t + 1) * columns.length);
    const likely = row.map((p, i) => (NEVER.includes(columns[i]) ? -1 : p));
    read[t + 1] = columns[likely.indexOf(Math.max(...likely))];
    data.embeddings[read[t + 1]].forEach((x, i) => rows.set((t + 1) * size + i, x));
  }
  return { given, read };
}

/** Return the diagram of the stages, from the bottom up, and a function that marks the stage of a step. */
function diagram(stages, language, words, onChoose) {
  const { left, width, height, gap, margin } = BOX;
  const column = stages.filter(({ name }) => name !== "source");
  const total = 2 * margin + column.length * (height + gap) - gap;
  const top = (i) => total - margin - height - i * (height + gap);
  const middle = left + width / 2;
  const line = (d) => shape("path", { d, class: "wire" });
  const box = (stage, x, y, breadth) => {
    const rect = shape("rect", { x, y, width: breadth, height, rx: 6 });
    const node = shape("g", { class: `stage ${stage.name.replace(/\W+/g, "-")}`, role: "button", tabindex: 0, click: () => onChoose(stage.keys[0]) }, rect, shape("text", { x: x + breadth / 2, y: y + height / 2 + 5, "text-anchor": "middle" }, stage[language]), shape("circle", { cx: x + breadth - 8, cy: y + 8, r: 4 }));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onChoose(stage.keys[0]);
    });
    return [stage, node];
  };
  const wires = column.flatMap((stage, i) => {
    const y = top(i), parts = i ? [line(`M${middle} ${y + height + gap}V${y + height + 2}m-4 5l4 -5l4 5`)] : [];
    if (stage.name === "cross") parts.push(line(`M${SOURCE} ${y + height / 2}H${left - 2}m-5 -4l5 4l-5 4`));
    if (stage.around) parts.push(line(`M${left + width} ${top(i - stage.around - 1) + 9}h16V${y + height - 9}h-14m5 -4l-5 4l5 4`));
    return parts;
  });
  const [source] = stages;
  const nodes = [box(source, 0, top(column.findIndex(({ name }) => name === "cross")), SOURCE), ...column.map((stage, i) => box(stage, left, top(i), width))];
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${total}`, class: "stages", role: "group", "aria-label": words.diagram }, ...wires, ...nodes.map(([, node]) => node));
  const mark = (key, changed) => {
    for (const [stage, node] of nodes) {
      if (stage.keys.includes(key)) node.setAttribute("aria-current", "step"); else node.removeAttribute("aria-current");
      node.classList.toggle("changed", stage.keys.some((one) => changed.has(one)));
    }
  };
  return { svg, mark };
}

export function draw(root, data, language, { step = "prediction.loss", forced = "yes" } = {}) {
  const words = WORDS[language];
  const state = { hasMask: true, isForced: forced === "yes", isScaled: true, norm: "post" };
  const place = element("summary"), shown = element("div"), side = element("details", { class: "side" }, place, shown);
  const numbers = element("div"), isWide = matchMedia("(min-width: 50.01rem)").matches;
  side.open = isWide;
  const note = element("output", { class: "answer" });
  let view, picture, current = step, first;

  const set = (key) => (value) => { state[key] = value; if (key === "norm") open(); else apply(); };
  const switches = element("div", { class: "controls" }, toggle(words.mask, true, set("hasMask")), toggle(words.forcing, state.isForced, set("isForced")), toggle(words.scale, true, set("isScaled")), choice(words.norm, ["post", "pre"].map((norm) => [norm, words[norm]]), "post", set("norm")));

  function open() {
    const { stages, html } = data.norms[state.norm], before = current;
    numbers.innerHTML = html;
    for (const title of numbers.querySelectorAll("h2")) title.textContent = title.textContent.replace(/^\d+\. /, ""); // a number would look like that of a section
    view = null;
    picture = diagram(stages, language, words, choose);
    shown.replaceChildren(picture.svg);
    view = stepThrough(numbers, false, (section) => { if (section) current = section.dataset.key; mark(); });
    const marks = new MutationObserver(report); // a number that is typed changes the loss, too
    marks.observe(numbers.querySelector("#changes"), { childList: true });
    first = lossOf(compute(view.editor.terms, new Map()));
    apply();
    choose(view.sections.some(({ dataset }) => dataset.key === before) ? before : step);
  }

  const choose = (key) => view.go(view.sections.findIndex(({ dataset }) => dataset.key === key));
  const lossOf = (values) => written(values[view.editor.terms.find(({ kind }) => kind === "total").index].numbers[2]);

  function mark() {
    if (!view) return;
    const changed = new Set(view.sections.filter((section) => section.querySelector("td.changed")).map(({ dataset }) => dataset.key));
    picture.mark(current, changed);
    const stage = data.norms[state.norm].stages.find(({ keys }) => keys.includes(current));
    place.textContent = `${words.here}: ${stage[language]}`;
  }

  function apply() {
    const { terms, given, repaint } = view.editor;
    const table = numbers.querySelector(`table[data-term="${ofName(terms, "P")[0].index}"]`);
    const columns = [...table.tHead.querySelectorAll("th")].map(({ textContent }) => textContent);
    const chosen = settings(terms, data, columns, state);
    given.clear();
    for (const [index, pins] of chosen.given) given.set(index, pins);
    rename(chosen.read);
    for (const operator of numbers.querySelectorAll(".operator")) {
      operator.dataset.scaled ??= operator.textContent;
      if (operator.dataset.scaled.startsWith("÷")) operator.textContent = state.isScaled ? operator.dataset.scaled : "÷ 1 =";
    }
    for (const line of numbers.querySelectorAll("[data-key$='.scores'] .formula")) {
      line.replaceChildren(mathOf(state.isScaled ? line.dataset.formula : line.dataset.formula.replace(" / √E", "")));
    }
    for (const sentence of numbers.querySelectorAll("[data-key='self.mask'] > p:last-of-type")) {
      sentence.dataset.masked ??= sentence.textContent;
      sentence.textContent = state.hasMask ? sentence.dataset.masked : words.unmasked;
    }
    state.read = chosen.read;
    repaint();
    report();
  }

  /** Name the rows of the tables by the tokens that are read now. */
  function rename(read) {
    const cells = numbers.querySelectorAll("th, table.tokens td");
    for (const cell of cells) {
      cell.dataset.text ??= cell.textContent;
      const [before, right] = cell.dataset.text.split(" → "), t = data.read.indexOf(before);
      const isPredicted = cell.matches("td") && cell.parentNode === cell.closest("tbody").lastElementChild;
      const isColumn = cell.closest("thead") && !cell.closest("[data-key^='self']");
      if (t >= 0 && !isPredicted && !isColumn) cell.textContent = right ? `${read[t]} → ${right}` : read[t];
    }
  }

  function report() {
    const mean = lossOf(view.editor.values());
    const remarks = [
      !state.hasMask && words.noMask,
      !state.isForced && words.noForcing(state.read.slice(1).join(" ")),
      !state.isScaled && words.noScale,
      state.norm === "pre" && words.before,
    ].filter(Boolean);
    note.textContent = [words.loss(mean, first), ...(remarks.length ? remarks : [words.all])].join(" ");
    mark();
  }

  root.classList.add("numbers-to-loss");
  const head = element("div", { class: "head" }, switches, note);
  new ResizeObserver(() => root.style.setProperty("--head", `${head.offsetHeight}px`)).observe(head);
  root.append(head, element("div", { class: "panes" }, side, element("div", { class: "walkthrough" }, numbers, element("p", { class: "change" }, words.change))));
  open();
}
