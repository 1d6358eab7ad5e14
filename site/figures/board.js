// Sixty trainings of the lab, a field each; a field opens what that training did, beside those that differ in one thing.
import { element, shadeOf, shape } from "./parts.js";

const WORDS = {
  en: {
    norm: "norm", rate: "learning rate", start: "start", score: "chrF, validation", learns: "learnt?", yes: "yes", no: "no", seconds: "seconds", updates: "updates", seed: "seed",
    pick: "Choose a field: with a finger, a mouse or the arrow keys.", curve: "The same norm at all six rates", with: "with warm-up", without: "without warm-up",
    limit: (score) => `the bound is half of the best score, ${score}`, warmed: (n) => `warm-up of ${n} updates`, cold: "full rate from the first update",
    other: (name, score) => `The same, ${name}: ${score}.`, best: (rate, score) => `The best rate of this row: ${rate}, with ${score}.`,
    command: "To train all sixty yourself:", board: (start) => `chrF at the end of training, ${start}; columns are learning rates`,
  },
  ko: {
    norm: "정규화", rate: "학습률", start: "시작", score: "검증 chrF", learns: "학습 성공", yes: "예", no: "아니요", seconds: "걸린 시간(초)", updates: "업데이트 수", seed: "시드",
    pick: "칸을 누르거나 화살표 키로 고르세요.", curve: "같은 정규화, 학습률 여섯 가지", with: "워밍업 있음", without: "워밍업 없음",
    limit: (score) => `기준은 최고 점수의 절반인 ${score}`, warmed: (n) => `업데이트 ${n}번 동안 워밍업`, cold: "첫 업데이트부터 최고 학습률",
    other: (name, score, start) => `다른 조건은 같고 워밍업만 ${start === "warm" ? "있" : "없"}을 때: ${score}.`, best: (rate, score) => `이 줄에서 가장 좋은 학습률: ${rate}, 점수 ${score}.`,
    command: "예순 개를 직접 학습하려면:", board: (start) => `학습이 끝났을 때의 chrF, ${start}. 열은 학습률입니다`,
  },
};
const OTHER = { warm: "cold", cold: "warm" };
const CHART = { width: 340, height: 150, left: 34, right: 24, top: 10, bottom: 26 };

const same = (one, other, ...keys) => keys.every((key) => one[key] === other[key]);

export function draw(root, data, language) {
  const words = WORDS[language];
  const panel = element("div", { class: "run", "aria-live": "polite" });
  const tables = Object.keys(data.starts).map((start) => table(data, start, language, choose));
  const buttons = tables.flatMap((node) => [...node.querySelectorAll("button")]);
  root.append(element("p", { class: "note" }, words.pick), element("div", { class: "boards" }, ...tables), panel);

  function choose(run) {
    for (const button of buttons) {
      const isChosen = button.dataset.run === String(data.runs.indexOf(run));
      button.setAttribute("aria-pressed", isChosen);
      button.tabIndex = isChosen ? 0 : -1; // one stop of Tab; arrow keys move inside
    }
    panel.replaceChildren(...report(data, run, language));
  }

  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -data.rates.length, ArrowDown: data.rates.length }[event.key];
    const next = buttons[buttons.indexOf(event.target) + step];
    if (!step || !next || !buttons.includes(event.target)) return;
    event.preventDefault();
    next.focus();
    next.click();
  });
  choose(data.runs.find(({ norm, start, rate }) => norm === "post" && start === "cold" && rate === data.rates[3]));
}

function table(data, start, language, choose) {
  const head = element("tr", {}, element("td", {}), ...data.rates.map((rate) => element("th", { scope: "col" }, String(rate))));
  const rows = Object.entries(data.norms).map(([norm, name]) => element("tr", {}, element("th", { scope: "row" }, name[language]), ...data.rates.map((rate) => {
    const number = data.runs.findIndex((run) => same(run, { norm, start, rate }, "norm", "start", "rate")), { valid } = data.runs[number];
    const label = `${name[language]}, ${data.starts[start][language]}, ${WORDS[language].rate} ${rate}: chrF ${valid.toFixed(1)}`;
    const button = element("button", { type: "button", "data-run": number, class: shadeOf(valid / data.best), "aria-label": label, click: () => choose(data.runs[number]) }, valid.toFixed(1));
    return element("td", {}, button);
  })));
  return element("table", { class: "board" }, element("caption", {}, WORDS[language].board(data.starts[start][language])), element("thead", {}, head), element("tbody", {}, ...rows));
}

function report(data, run, language) {
  const words = WORDS[language], score = (value) => value.toFixed(1);
  const rows = [
    [words.norm, data.norms[run.norm][language]],
    [words.start, run.start === "warm" ? words.warmed(data.warmup) : words.cold],
    [words.rate, run.rate], [words.updates, data.updates], [words.seed, run.seed],
    [words.score, score(run.valid)], [words.learns, `${run.valid >= data.learns ? words.yes : words.no}${language === "ko" ? "" : " "}(${words.limit(score(data.learns))})`],
    [words.seconds, run.seconds],
  ];
  const own = data.runs.filter((other) => same(other, run, "norm", "start"));
  const best = own.reduce((top, other) => (other.valid > top.valid ? other : top));
  const other = data.runs.find((one) => same(one, { ...run, start: OTHER[run.start] }, "norm", "rate", "start"));
  return [
    element("table", { class: "facts" }, element("tbody", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, String(value)))))),
    element("div", {}, element("p", {}, words.curve), chart(data, run, language), element("p", {}, `${words.best(best.rate, score(best.valid))} ${words.other(data.starts[other.start][language], score(other.valid), other.start)}`)),
    element("p", { class: "note" }, `${words.command} `, element("code", {}, "regard lab failures --full")),
  ];
}

/** Draw the scores of a row by rate, those of the same norm with the other start dashed, the chosen one marked. */
function chart(data, run, language) {
  const { width, height, left, right, top, bottom } = CHART, high = Math.ceil(data.best / 10) * 10;
  const x = (rate) => left + (width - left - right) * data.rates.indexOf(rate) / (data.rates.length - 1), y = (value) => height - bottom - (height - top - bottom) * value / high;
  const line = (start) => data.rates.map((rate) => data.runs.find((one) => same(one, { norm: run.norm, start, rate }, "norm", "start", "rate"))).map(({ rate, valid }) => `${x(rate)},${y(valid)}`).join(" ");
  const ticks = [0, high / 2, high].map((value) => shape("g", {}, shape("path", { d: `M${left} ${y(value)}H${width - right}`, class: "grid" }), shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))));
  const rates = data.rates.map((rate) => shape("text", { x: x(rate), y: height - 8, "text-anchor": "middle" }, String(rate)));
  const label = `${WORDS[language].curve}: ${data.norms[run.norm][language]}`;
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "curve" }, ...ticks, ...rates,
    shape("path", { d: `M${left} ${y(data.learns)}H${width - right}`, class: "limit" }),
    shape("polyline", { points: line(OTHER[run.start]), class: "other" }), shape("polyline", { points: line(run.start), class: "own" }),
    shape("circle", { cx: x(run.rate), cy: y(run.valid), r: 6 }));
}
