// A small recurrent model with attention that is trained in the page; where no worker can train, what PyTorch recorded of such a training.
import { choice, element, shadeOf, shape, written } from "./parts.js";

const WORDS = {
  en: {
    train: "Train", pause: "Pause", done: "Trained", again: "Begin anew with other numbers", moment: "Updates", sentence: "Sentence (never trained on)", end: "⟨end⟩",
    caption: "Rows: words to write; columns: words of the sentence; the stronger the colour, the more attention", right: "p (right word)", output: "The model writes: ", nothing: "nothing",
    now: (count, loss) => `${count} updates: loss of this sentence ${loss}`, chart: "Loss of each update",
    facts: (right, all, words) => `Of ${all} sentences that are never trained on, ${right} are translated right. A guess among ${words} words has a loss of ${written(Math.log(words), 2)}.`,
    begin: "Press Train: the model is in this page, and learns in half a minute or so.",
    running: "Each update draws 16 sentences, and moves all weights a little against the gradient of their loss.",
    recorded: "This browser cannot train in the background. These are records of such a training; move the slider.",
    finished: "Trained. Move the slider to see how attention grew, or begin anew: other first numbers may end in other attention.",
  },
  ko: {
    train: "학습 시작", pause: "멈춤", done: "학습 끝", again: "다른 난수로 처음부터", moment: "업데이트 횟수", sentence: "문장(학습에 쓰지 않은 것)", end: "⟨끝⟩",
    caption: "행은 쓸 단어, 열은 원문의 단어입니다. 색이 강할수록 많이 주목합니다", right: "p(정답)", output: "모델이 쓴 문장: ", nothing: "없음",
    now: (count, loss) => `업데이트 ${count}번: 이 문장의 손실 ${loss}`, chart: "업데이트마다의 손실",
    facts: (right, all, words) => `학습에 쓰지 않은 문장 ${all}개 가운데 맞게 번역한 것은 ${right}개입니다. 단어 ${words}개 중에서 찍을 때의 손실은 ${written(Math.log(words), 2)}입니다.`,
    begin: "‘학습 시작’을 누르세요. 모델은 이 페이지 안에 있고, 30초쯤이면 배웁니다.",
    running: "업데이트할 때마다 문장 16개를 뽑아 손실을 재고, 기울기의 반대쪽으로 가중치를 조금씩 옮깁니다.",
    recorded: "이 브라우저는 뒤에서 학습할 수 없습니다. 그런 학습을 기록해 둔 것이니 슬라이더를 움직여 보세요.",
    finished: "학습이 끝났습니다. 슬라이더를 움직이면 어텐션이 자란 과정이 보입니다. 처음부터 다시 하면 첫 난수가 달라 어텐션도 다를 수 있습니다.",
  },
};
const FIRST_SEED = 3; // of the first training, whose attention is on the words themselves
const CHART = { width: 340, height: 210, left: 34, right: 12, top: 26, bottom: 32, most: 3.5 };

/** Start a worker; return null where there is none. */
function workerOf(script) {
  try {
    return new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  } catch {
    return null;
  }
}

function chart(words, updates) {
  const { width, height, left, right, top, bottom, most } = CHART;
  const x = (update) => left + ((width - left - right) * update) / updates;
  const y = (loss) => height - bottom - ((height - top - bottom) * Math.min(loss, most)) / most;
  const text = (content, at, anchor) => shape("text", { x: at[0], y: at[1], "text-anchor": anchor }, content);
  const levels = [0, 1, 2, 3].flatMap((loss) => [shape("line", { x1: left, x2: width - right, y1: y(loss), y2: y(loss), class: "axis" }), text(String(loss), [left - 8, y(loss) + 5], "end")]);
  const ticks = [0, updates / 2, updates].map((update) => text(String(update), [x(update), height - 12], "middle"));
  const rule = shape("line", { y1: top, y2: height - bottom, class: "now" }), line = shape("path", {});
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": words.chart }, ...levels, ...ticks, rule, shape("g", { class: "s0" }, line), text(words.chart, [0, 14], "start"));
  const show = (losses, update) => {
    line.setAttribute("d", losses.length ? `M${losses.map((loss, i) => `${x(i + 1)} ${y(loss)}`).join("L")}` : "");
    for (const end of ["x1", "x2"]) rule.setAttribute(end, x(update));
  };
  return { svg, show };
}

/** Return the heat map of a sentence: a row for each word of its reference and its end. */
function heatMap(data, pair, { attention, probabilities }, words) {
  const name = (word) => (word ? data.target[word] : words.end);
  const head = [element("td"), ...pair.source.map((word) => element("th", { scope: "col", lang: "ko" }, data.source[word])), element("th", { scope: "col" }, words.right)];
  const rows = [...pair.target, 0].map((word, row) => element("tr", {},
    element("th", { scope: "row", lang: word ? "en" : undefined }, name(word)),
    ...attention[row].map((weight) => element("td", { class: shadeOf(weight) }, written(weight, 2))),
    element("td", {}, written(probabilities[row], 2))));
  return element("table", { class: "growing" }, element("caption", {}, words.caption), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

export function draw(root, data, language) {
  const words = WORDS[language], worker = workerOf(data.worker);
  let history = data.recorded, sentence = 0, seed = FIRST_SEED, isRunning = false, losses = [];

  const player = element("button", { type: "button", class: "play", click: () => run(!isRunning) }, words.train);
  const again = element("button", { type: "button", click: () => { seed += 1; begin(); } }, words.again);
  const moment = element("input", { type: "range", min: 0, "aria-label": words.moment, input: () => { run(false); paint(); } });
  const sentences = choice(words.sentence, data.examples.map(({ source }, i) => [i, source.map((word) => data.source[word]).join(" ")]), 0, (chosen) => { sentence = Number(chosen); paint(); });
  const status = element("p", { role: "status", class: "note" }), map = element("div"), curve = chart(words, data.updates);
  const now = element("p", { class: "moment" }), output = element("p", { class: "output" }), facts = element("p", { class: "note" });

  function paint() {
    const snapshot = history[Number(moment.value)], example = snapshot.examples[sentence];
    const translated = example.output.map((word) => data.target[word]).join(" ");
    map.replaceChildren(heatMap(data, data.examples[sentence], example, words));
    now.textContent = words.now(snapshot.updates, written(example.loss));
    moment.setAttribute("aria-valuetext", now.textContent);
    output.replaceChildren(words.output, element("b", { lang: "en" }, translated || words.nothing));
    facts.textContent = words.facts(snapshot.right, data.heldOut.length, data.target.length);
    curve.show(losses, snapshot.updates);
  }

  /** Show a history; the slider stands at its end. */
  function show(snapshots) {
    history = snapshots;
    losses = history.flatMap((snapshot) => snapshot.losses);
    moment.max = history.length - 1;
    moment.value = moment.max;
    paint();
  }

  function run(isOn) {
    if (!worker || isOn === isRunning) return;
    isRunning = isOn;
    worker.postMessage({ isRunning });
    player.textContent = isRunning ? words.pause : words.train;
    status.textContent = words.running;
  }

  function begin() {
    history = [];
    isRunning = false;
    player.disabled = false;
    player.textContent = words.train;
    status.textContent = words.begin;
    const { source, target, longest, updates, examples, heldOut, pairs } = data;
    worker.postMessage({ seed, data: { source, target, longest, updates, examples, heldOut, pairs } });
  }

  function record() {
    worker?.terminate();
    for (const button of [player, again]) button.hidden = true;
    status.textContent = words.recorded;
    show(data.recorded);
  }

  root.classList.add("training");
  root.append(element("div", { class: "steps" }, player, again, moment), status, sentences,
    element("div", { class: "panes" }, map, element("div", {}, curve.svg, now, output)), facts);
  if (!worker) return record();
  worker.onerror = (event) => { event.preventDefault(); record(); };
  worker.onmessage = ({ data: snapshot }) => {
    if (snapshot.updates === 0) history = [];
    show([...history, snapshot]);
    if (snapshot.updates < data.updates) return;
    isRunning = false;
    player.disabled = true;
    player.textContent = words.done;
    status.textContent = words.finished;
  };
  return new Promise((done) => {
    begin();
    worker.addEventListener("message", done, { once: true });
    worker.addEventListener("error", done, { once: true });
  });
}
