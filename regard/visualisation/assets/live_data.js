// Data of the live page: a translation of the module regard.js as what explanation_page.js shows; explanation_data.py and explanation.py for one sentence.
"use strict";
const liveData = (() => {
  const EOS = 3, END = "</s>", DRAWN = 64; // numbers of a state: as in states.py
  const MAX_PRUNED = 2, MAX_OPTIONS = 6; // of each step of the search: as in explanation.py
  const tokenText = (token) => token.replaceAll("▁", " ");

  /** The data that the page of an explanation shows: explanation_data.py of one translation, its weights not packed. */
  function explanation(translation, hypothesis, { alignment, languages, trust }) {
    const { sourceWords, parts, steps } = translation, { tokens, targetWords, attention, alignments } = hypothesis;
    const source = sourceWords.texts, target = targetWords.texts;
    const cross = attention.filter(({ role }) => role === "cross").map(({ name }) => name);
    if (parts.length !== 1 || !source.length || !target.length || !(cross.length || steps.length)) return null;
    const layers = ["cross", "encoder", "decoder"].flatMap((role) => attention.filter((layer) => layer.role === role).map((layer, n) => wordLayer(layer, n + 1, sourceWords, targetWords)));
    const named = alignment ? cross.indexOf(alignment.layer) : -1, rtl = (texts) => /^[^A-Za-z]*[\u0590-\u08ff]/.test(texts.join(" "));
    return {
      title: "", source, target, tokens: [...tokens.map(tokenText), END], target_words: targetWords.ofTokens, layers,
      langs: { source: source.map(() => languages[0]), target: target.map(() => languages[1]) }, rtl: { source: rtl(source), target: rtl(target) },
      shown_head: named < 0 ? [Math.max(0, cross.length - 1), null, false] : [named, alignment.head, alignment.shifted],
      steps: steps.length ? searchTree(steps, hypothesis.ids) : [], states: statesOf(translation, hypothesis), agreement: null, measured: trust, links: alignments || [], facts: {}, image: null,
    };
  }

  /** The states that the player draws, the first numbers of each; null: of an encoder that is not recurrent. */
  function statesOf({ sourceTokens, sourceWords }, { states, attention }) {
    if (!states?.encoder) return null;
    const { directions, encoderSize: N, decoderSize: M } = states, order = states.attendsFirst ? "bahdanau" : "";
    const part = (all, size) => {
      const drawn = all.filter((_, i) => i % size < DRAWN).map((value) => Math.max(-1, Math.min(1, value))), width = Math.min(size, DRAWN);
      const largest = drawn.reduce((top, value) => Math.max(top, Math.abs(value)), 1e-9);
      return (n) => ({ numbers: drawn.subarray(n * width, (n + 1) * width), largest });
    };
    const encoder = part(states.encoder, N), isAll = !attention.some(({ role }) => role === "cross");
    return { tokens: sourceTokens.map(tokenText), words: sourceWords.ofTokens, directions, is_all: isAll, order, encoder: (s, k) => encoder(s * directions + k), decoder: part(states.decoder, M), initial: states.initial && part(states.initial, M)(0) };
  }

  function wordLayer({ role, heads, rows, columns, weights, scores, logSums }, number, sourceWords, targetWords) { // sums over the tokens of a column's word, means over those of a row's
    const fed = [-1, ...targetWords.ofTokens.slice(0, -1)], ofColumns = role === "decoder" ? fed : sourceWords.ofTokens;
    const ofRows = role === "cross" ? [...Array(rows).keys()] : role === "encoder" ? sourceWords.ofTokens : targetWords.ofTokens;
    const C = Math.max(...ofColumns) + 1, R = Math.max(...ofRows) + 1, counts = new Array(R).fill(0), sums = new Float64Array(heads * R * (C + 1));
    for (const r of ofRows) if (r >= 0) counts[r]++;
    for (let h = 0; h < heads; h++) for (let t = 0; t < rows; t++) {
      const r = ofRows[t];
      if (r < 0) continue;
      for (let s = 0; s < columns; s++) {
        const c = ofColumns[s] < 0 ? C : ofColumns[s];
        sums[(h * R + r) * (C + 1) + c] += weights[(h * rows + t) * columns + s] / counts[r];
      }
    }
    const logSum = (h, r) => logSums?.[h * rows + r] ?? logOfSum(scores.subarray((h * rows + r) * columns, (h * rows + r + 1) * columns));
    return { role, name: String(number), shape: [heads, R, C], ...(role === "cross" && (scores || logSums) ? { logSum } : {}), get: (h, r, c) => sums[(h * R + r) * (C + 1) + c] };
  }

  function logOfSum(scores) { // of the exponentials of scores: a score is the logarithm of its weight, plus this
    const top = Math.max(...scores);
    return top + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - top), 0));
  }

  /** The steps that the player shows of a search, one for each token of an output, end of sentence last. */
  function searchTree(steps, ids) {
    const output = [...ids, EOS], keyOf = (tokens) => tokens.join(" ");
    let parents = new Map([["", -1]]);
    return steps.slice(0, output.length).map(({ prefixes, candidates }, t) => {
      const own = keyOf(output.slice(0, t + 1)), before = keyOf(output.slice(0, t)), shown = [];
      let pruned = 0;
      for (const candidate of candidates) {
        const parent = keyOf(prefixes[candidate.beam]), key = keyOf([...prefixes[candidate.beam], candidate.id]);
        pruned += candidate.fate === "pruned";
        if ((candidate.fate !== "pruned" || pruned <= MAX_PRUNED || key === own) && parents.has(parent)) shown.push({ ...candidate, parent, key });
      }
      const nodes = shown.map(({ parent, key, token, logProb, total, fate }) => [parents.get(parent), tokenText(token), Math.exp(logProb), total, fate, Number(key === own)]);
      parents = new Map(shown.map(({ key }, i) => [key, i]));
      const options = candidates.filter(({ beam }) => keyOf(prefixes[beam]) === before).sort((a, b) => b.logProb - a.logProb);
      const listed = options.filter(({ id }, rank) => rank < MAX_OPTIONS || id === output[t]);
      return { nodes, candidates: listed.map(({ token, logProb, id }) => [tokenText(token), Math.exp(logProb), Number(id === output[t])]) };
    });
  }

  /** The words of a hypothesis, and the probability of each after the words before it; none if its text is not these words. */
  function words({ text, targetWords: { texts, ofTokens }, logProbs }) {
    if (texts.join(" ") !== text) return { words: [], shares: [] };
    const shares = texts.map(() => 0);
    logProbs.forEach((logProb, i) => { shares[ofTokens[i]] += logProb; });
    return { words: texts, shares: shares.map((sum) => Number(Math.exp(sum).toFixed(4))) };
  }

  return { EOS, explanation, searchTree, words };
})();
if (typeof module !== "undefined") module.exports = liveData; // for tests under node
