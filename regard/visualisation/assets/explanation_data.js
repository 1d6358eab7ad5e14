// Data that explanation_page.js shows, of a translation in the types of regard.d.ts: words, layers between words, states and the tree of the search.
// explanation_data.py makes the same of the same data, for figures.
"use strict";
const explanationData = (() => {
  const EOS = 3, END = "</s>", MOST_CONTINUATIONS = 7;
  const STATE_UNITS = 64, STATE_SCALE = 127; // as in translation_json.py
  const MAX_PRUNED = 2, MAX_OPTIONS = 6; // of each step of the search: as in explanation_data.py
  const HANGUL = /[\uac00-\ud7a3\u3131-\u318e]/;
  const LEFTWARD = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

  const clean = (text) => text.normalize("NFC").replace(/[\t\n\r]/g, " ").replace(/[\p{Cc}\p{Cs}\ufffe\uffff]/gu, "\ufffd");
  const tokenText = (token) => clean(token).replaceAll("▁", " ");

  // --- packed numbers

  async function inflate(text) {
    const compressed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function unpackedLayer(layer) { // the inverse of _packed in translation_json.py
    const { weights, steps } = layer;
    const bytes = await inflate(weights);
    const count = layer.heads * layer.rows * layer.columns;
    const high = bytes.length > count ? bytes.subarray(count) : new Uint8Array(count);
    return { ...layer, weights: Float32Array.from(high, (byte, i) => (bytes[i] + 256 * byte) / steps) };
  }

  function unpackedStates(states) {
    if (!states) return null;
    const numbers = (text) => text && Float32Array.from(atob(text), (byte) => ((byte.charCodeAt(0) << 24) >> 24) / STATE_SCALE);
    return { ...states, encoder: numbers(states.encoder), decoder: numbers(states.decoder), initial: numbers(states.initial) };
  }

  /** A hypothesis whose attention and states are numbers, as the module regard.js returns them. */
  async function unpacked(hypothesis) {
    const attention = await Promise.all(hypothesis.attention.map(unpackedLayer));
    return { ...hypothesis, attention, states: unpackedStates(hypothesis.states) };
  }

  // --- what is shown

  /** The data that the page shows of `page_data` in explanation_data.py. */
  async function ofPage(values) {
    const translation = await unpacked(values.translation);
    return explanation(translation, translation, values);
  }

  /** The data that the page shows of a hypothesis of a translation; null if there is nothing to show. `view`: values of a page or a model. */
  function explanation(translation, hypothesis, view) {
    const { sourceWords, parts = [translation], steps } = translation;
    const { tokens, targetWords, attention, alignments } = hypothesis;
    const source = sourceWords.texts.map(clean), target = targetWords.texts.map(clean);
    const cross = attention.filter(({ role }) => role === "cross");
    if (parts.length !== 1 || !source.length || !target.length || !(cross.length || steps.length)) return null;
    const layers = ["cross", "encoder", "decoder", "attribution"].flatMap((role) => {
      const ofRole = attention.filter((layer) => layer.role === role);
      return ofRole.map((layer, i) => wordLayer(layer, i + 1, sourceWords, targetWords));
    });
    const [sourceLanguage, targetLanguage] = view.languages;
    const hasEnd = targetWords.ofTokens.at(-1) < 0;
    return {
      source, target, layers,
      title: view.title ?? "",
      tokens: [...tokens.map(tokenText), ...(hasEnd ? [END] : [])],
      target_words: targetWords.ofTokens,
      langs: { source: languagesOf(source, sourceLanguage), target: languagesOf(target, targetLanguage) },
      rtl: { source: isRightToLeft(source), target: isRightToLeft(target) },
      shown_head: shownHead(cross, view.alignment),
      steps: searchTree(steps, hypothesis.ids),
      states: statesOf(translation, hypothesis),
      agreement: view.agreement ?? null,
      measured: view.trust,
      links: alignments || [],
      unread: translation.unread ?? view.unread ?? [],
      image: view.image ?? null,
    };
  }

  const languagesOf = (texts, language) => texts.map((text) => language || (HANGUL.test(text) ? "ko" : ""));

  function isRightToLeft(texts) { // most of the letters are
    const letters = texts.join("").match(/\p{L}/gu) ?? [];
    return 2 * letters.filter((letter) => LEFTWARD.test(letter)).length > letters.length;
  }

  function shownHead(cross, alignment) { // the layer, the head (null: the mean of all), whether rows are shifted
    const layer = alignment ? cross.findIndex(({ name }) => name === alignment.layer) : -1;
    return layer < 0 ? [cross.length >> 1, null, false] : [layer, alignment.head, alignment.shifted];
  }

  /** The states that the player draws, the first numbers of each; null: of an encoder that is not recurrent. */
  function statesOf({ sourceTokens, sourceWords }, { states, attention }) {
    if (!states?.encoder) return null;
    const { directions, encoderSize: N, decoderSize: M } = states, order = states.attendsFirst ? "bahdanau" : "";
    const part = (all, size) => {
      const drawn = all.filter((_, i) => i % size < STATE_UNITS).map((value) => Math.max(-1, Math.min(1, value))), width = Math.min(size, STATE_UNITS);
      const largest = drawn.reduce((top, value) => Math.max(top, Math.abs(value)), 1e-9);
      return (n) => ({ numbers: drawn.subarray(n * width, (n + 1) * width), largest });
    };
    const encoder = part(states.encoder, N), isAll = !attention.some(({ role }) => role === "cross");
    return { tokens: sourceTokens.map(tokenText), words: sourceWords.ofTokens, directions, is_all: isAll, order, encoder: (s, k) => encoder(s * directions + k), decoder: part(states.decoder, M), initial: states.initial && part(states.initial, M)(0) };
  }

  /** A layer between words: sums over the tokens of a column's word, means over those of a row's; the rows of cross-attention stay tokens. */
  function wordLayer({ role, title, heads, rows, columns, weights, scores, logSums }, number, sourceWords, targetWords) {
    const [ofRows, ofColumns] = {
      cross: [[...Array(rows).keys()], sourceWords.ofTokens],
      encoder: [sourceWords.ofTokens, sourceWords.ofTokens],
      decoder: [targetWords.ofTokens, [-1, ...targetWords.ofTokens.slice(0, -1)]],
      attribution: [[...Array(rows).keys()], [...Array(columns).keys()]],
    }[role];
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
    return { role, name: title || String(number), shape: [heads, R, C], ...(role === "cross" && (scores || logSums) ? { logSum } : {}), get: (h, r, c) => sums[(h * R + r) * (C + 1) + c] };
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

  return { EOS, MOST_CONTINUATIONS, explanation, ofPage, searchTree, unpacked, words };
})();
if (typeof module !== "undefined") module.exports = explanationData; // for tests under node
