// One sentence in three trainings that differ in their seed alone: from a word, what each head of each training attends to.
import { choice, element, shadeOf, toggle } from "./parts.js";

const WORDS = {
  en: {
    sentence: "Sentence", layer: "Layer", word: "Attention from the word", training: (n) => `training ${n}`, head: (n) => `head ${n}`, end: "⟨end⟩", match: "line up heads that are alike",
    of: (all) => `of ${all}`, most: (all) => `In how many of ${all} trainings some head attends clearly to the word`, caption: (word, layer) => `What “${word}” attends to in layer ${layer}: a column for each head`,
    all: (names) => `All three: there is a head that attends clearly to ${names}.`, none: "All three: no word to which a head of each attends clearly.",
    one: (names) => `One only: there is a head that attends clearly to ${names}.`, and: " · ",
    chance: (count, expected) => `Words in all three: ${count}. If each head that attends clearly had drawn its word at random: ${expected} on average.`,
    totals: ({ queries, count, expected }) => `From all ${queries} words of the three sentences, in both layers: ${count} such words, at random ${expected}.`,
    numbers: (margin) => `The frame marks the word to which a head attends most: solid if its weight is larger than any other by ${margin} or more (clearly), dashed if by less. The last column counts the trainings in which some head attends clearly to the word. The number of a head means nothing: it is where training happened to begin.`,
    aligned: (orders) => `Heads are put beside those of training 1 that are most alike, by their weights from all words of the sentence: ${orders}.`, order: (n, heads) => `training ${n}: ${heads}`,
  },
  ko: {
    sentence: "문장", layer: "층", word: "어느 단어의 어텐션", training: (n) => `학습 ${n}`, head: (n) => `헤드 ${n}`, end: "⟨끝⟩", match: "비슷한 헤드끼리 맞추기",
    of: (all) => `${["두", "세"][all - 2]} 번 가운데`, most: (all) => `학습 ${all}번 가운데 그 단어에 뚜렷이 주목하는 헤드가 있는 횟수`, caption: (word, layer) => `${layer}층에서 ‘${word}’의 어텐션. 열 하나가 헤드 하나입니다`,
    all: (names) => `세 번 모두: ${names}에 뚜렷이 주목하는 헤드가 있음`, none: "세 번 모두: 뚜렷이 주목하는 헤드가 있는 단어 없음",
    one: (names) => `한 번만: ${names}에 뚜렷이 주목하는 헤드가 있음`, and: " · ",
    chance: (count, expected) => `세 번 모두인 단어: ${count}개. 뚜렷이 주목하는 헤드가 저마다 무작위로 골랐다면 평균 ${expected}개`,
    totals: ({ queries, count, expected }) => `세 문장의 단어 ${queries}개(두 층)에서 모두 세면 ${count}개, 무작위라면 평균 ${expected}개입니다.`,
    numbers: (margin) => `테두리를 두른 칸은 그 헤드가 가장 많이 주목하는 단어입니다. 다른 어느 단어보다 가중치가 ${margin} 이상 크면(뚜렷하면) 실선, 아니면 점선입니다. 마지막 열은 그 단어에 뚜렷이 주목하는 헤드가 있는 학습이 몇 번인지 셉니다. 헤드 번호에는 뜻이 없습니다. 학습을 시작할 때 우연히 정해질 뿐입니다.`,
    aligned: (orders) => `학습 1의 헤드와 가장 비슷한 것끼리 나란히 놓았습니다. 고른 단어만이 아니라 문장 전체의 가중치로 맞추었습니다. ${orders}.`, order: (n, heads) => `학습 ${n}: ${heads}`,
  },
};
const SOME = 0.005; // smaller weights are left out

const rounded = (all) => ({ ...all, expected: all.expected.toFixed(1) });
const largest = (weights) => weights.indexOf(Math.max(...weights));

/** The place to which a head attends clearly: its weight is larger than any other by a margin; −1 if there is none. */
export function clearPlace(weights, margin) {
  const [first, second] = [...weights].sort((a, b) => b - a);
  return Math.round(1e4 * (first - second)) >= Math.round(1e4 * margin) ? weights.indexOf(first) : -1;
}

const clearPlaces = (layers, layer, word, margin) => layers[layer].map((head) => clearPlace(head[word], margin)).filter((place) => place >= 0);

/** In how many trainings some head of the layer attends clearly to each word, from a word. `trainings`: weights by training, layer, head, word. */
export function agreement(trainings, layer, word, margin) {
  const reads = trainings.map((layers) => new Set(clearPlaces(layers, layer, word, margin)));
  return trainings[0][layer][0][word].map((_, place) => reads.filter((places) => places.has(place)).length);
}

/** The mean number of words that all trainings would have in common if each head that attends clearly drew its word at random. */
export function byChance(trainings, layer, word, margin) {
  const size = trainings[0][layer][0][word].length;
  return trainings.reduce((product, layers) => product * (1 - (1 - 1 / size) ** clearPlaces(layers, layer, word, margin).length), size);
}

/** The words that all trainings have in common, from all words of all sentences, and how many they would have by chance. */
export function totals({ sentences, margin }) {
  const queries = sentences.flatMap(({ words, weights }) => weights[0].flatMap((_, layer) => words.map((_, word) => [weights, layer, word, margin])));
  const sum = (count) => queries.reduce((all, query) => all + count(...query), 0);
  return { queries: queries.length, count: sum((...query) => agreement(...query).filter((own) => own === query[0].length).length), expected: sum(byChance) };
}

function* orders(items) {
  if (items.length < 2) yield items;
  for (const item of items) for (const rest of orders(items.filter((other) => other !== item))) if (items.length > 1) yield [item, ...rest];
}

/** The order of heads in which the weights differ least from those of other heads. */
export function alike(heads, others) {
  const distance = (one, other) => one.flat().reduce((sum, w, i) => sum + Math.abs(w - other.flat()[i]), 0);
  const distances = others.map((other) => heads.map((head) => distance(head, other)));
  const cost = (order) => order.reduce((sum, head, place) => sum + distances[place][head], 0);
  return [...orders(heads.map((_, head) => head))].reduce((best, order) => (cost(order) < cost(best) ? order : best));
}

export function draw(root, data, language, { sentence = 0 } = {}) {
  const words = WORDS[language], opening = Number(sentence);
  const state = { sentence: opening, layer: data.layer, word: data.sentences[opening].word, isMatched: false };
  const controls = element("div", { class: "controls" }), sheet = element("div", {}), status = element("p", { role: "status" });
  const layers = data.sentences[0].weights[0].map((_, layer) => [layer, String(layer + 1)]);
  const ofSentence = element("div", {});
  controls.append(
    choice(words.sentence, data.sentences.map(({ text }, number) => [number, text]), opening, (number) => { Object.assign(state, { sentence: number, word: data.sentences[number].word }); offer(); }),
    choice(words.layer, layers, data.layer, (layer) => show({ layer })),
    ofSentence,
    toggle(words.match, false, (isMatched) => show({ isMatched })),
  );
  root.append(controls, sheet, status, element("p", { class: "note" }, words.numbers(data.margin)), element("p", { class: "note" }, words.totals(rounded(totals(data)))));
  offer();

  function offer() {
    const { words: names } = data.sentences[state.sentence];
    ofSentence.replaceChildren(choice(words.word, names.map((name, place) => [place, name]), state.word, (word) => show({ word })));
    show({});
  }

  function show(changes) {
    Object.assign(state, changes);
    const { weights } = data.sentences[state.sentence], first = weights[0][state.layer];
    const heads = weights.map((own) => (state.isMatched ? alike(own[state.layer], first) : first.map((_, head) => head)));
    sheet.replaceChildren(table(data, state, heads, words));
    status.replaceChildren(...said(data, state, heads, words).map((text) => element("span", {}, text)));
  }
}

function said({ sentences, seeds, margin }, state, heads, words) {
  const { words: names, weights } = sentences[state.sentence], query = [weights, state.layer, state.word, margin], counts = agreement(...query), all = seeds.length;
  const named = (count) => counts.flatMap((own, place) => (own === count ? [names[place] ?? words.end] : [])).join(words.and);
  const lines = [named(all) ? words.all(named(all)) : words.none];
  lines.push(words.chance(counts.filter((own) => own === all).length, byChance(...query).toFixed(2)));
  if (named(1)) lines.push(words.one(named(1)));
  if (state.isMatched) lines.push(words.aligned(heads.slice(1).map((order, i) => words.order(i + 2, order.map((head) => head + 1).join(", "))).join("; ")));
  return lines;
}

function table({ sentences, seeds, margin }, state, heads, words) {
  const { words: names, weights } = sentences[state.sentence], counts = agreement(weights, state.layer, state.word, margin);
  const columns = heads.flatMap((order, training) => order.map((head, place) => ({ training, head, isFirst: !place, weights: weights[training][state.layer][head][state.word] })));
  const rows = [...names, words.end].map((name, place) => element("tr", place === state.word ? { class: "own" } : {},
    element("th", { scope: "row" }, name),
    ...columns.map((column) => cell(column, place, margin)),
    element("td", { class: counts[place] === seeds.length ? "count every" : "count" }, String(counts[place] || "")),
  ));
  return element("table", { class: "heads" },
    element("caption", {}, words.caption(names[state.word], state.layer + 1)),
    element("thead", {},
      element("tr", {}, element("td", {}), ...heads.map((order, training) => element("th", { scope: "colgroup", colspan: order.length }, words.training(training + 1))), element("th", { scope: "col", rowspan: 2, class: "counts", "aria-label": words.most(seeds.length), title: words.most(seeds.length) }, words.of(seeds.length))),
      element("tr", {}, element("td", {}), ...columns.map(({ head, isFirst }) => element("th", { scope: "col", "aria-label": words.head(head + 1), class: isFirst ? "first" : "" }, String(head + 1)))),
    ),
    element("tbody", {}, ...rows),
  );
}

function cell({ weights, isFirst }, place, margin) {
  const weight = weights[place], frame = clearPlace(weights, margin) < 0 ? "largest unclear" : "largest";
  const kinds = [shadeOf(weight), isFirst ? "first" : "", largest(weights) === place ? frame : ""];
  return element("td", { class: kinds.join(" ").trim() }, weight >= SOME ? weight.toFixed(2).replace(/^0/, "") : "");
}
