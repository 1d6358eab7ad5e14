// Asks the server: requests that wait while it is busy or away, and what takes the messages of worker.js and asks it.
const serverClient = (() => {
  const WAITS = [1, 2, 4, 8, 15]; // seconds before a request is repeated, if the server does not say how many
  const PASSING = [0, 403, 408, 429, 502, 503]; // statuses of troubles that pass; 0: it cannot be reached
  const FIRST = 400, LATER = 4000, TOGETHER = 64; // characters of the first and of later requests; sentences of one
  const EXPLAIN = 150; // milliseconds in which a sentence may be overtaken by another

  /** An error that the server has answered with, or that there was no answer (status 0). */
  class Problem extends Error {
    constructor(status, detail = "", seconds = NaN) {
      super(detail || `status ${status}`);
      Object.assign(this, { status, detail, seconds });
    }
  }

  let key = "", isAway = false;
  const troubles = new Map(); // of requests that wait: the problem of each
  let wakers = new Set(); // that end the waiting of requests
  let notify = () => {}, returned = () => {};

  function wake() {
    for (const waker of [...wakers]) waker();
  }
  addEventListener("online", wake);

  function pause(milliseconds, signal) { // until then, or until somebody wakes it
    return new Promise((done) => {
      const end = () => { clearTimeout(timer); wakers.delete(end); done(); };
      const timer = milliseconds === Infinity ? 0 : setTimeout(end, milliseconds);
      wakers.add(end);
      signal?.addEventListener("abort", end, { once: true });
    });
  }

  async function once(path, body, signal) {
    const headers = { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...(body && !(body instanceof FormData) ? { "Content-Type": "application/json" } : {}) };
    const options = { method: body ? "POST" : "GET", headers, body: body && (body instanceof FormData ? body : JSON.stringify(body)) };
    let response, answer;
    try {
      response = await fetch(path, { ...options, signal, cache: "no-store", credentials: "omit", redirect: "error" });
      answer = await response.json();
    } catch (problem) {
      if (signal?.aborted) throw problem;
      isAway ||= !response;
      throw new Problem(response && !response.ok ? response.status : 0);
    }
    if (isAway) { isAway = false; setTimeout(returned); }
    if (!response.ok) throw new Problem(response.status, answer.detail, Number(response.headers.get("Retry-After") ?? NaN));
    return answer;
  }

  /** Ask the server: GET, or POST of JSON or of a form. Waits while the server is away or busy, or wants a key; `late`: times that a deadline may pass. */
  async function request(path, body, signal, late = 1) {
    const own = {};
    try {
      for (let attempt = 0; ; attempt++) {
        try {
          return await once(path, body, signal);
        } catch (problem) {
          if (signal?.aborted || !(problem instanceof Problem) || !(PASSING.includes(problem.status) || (problem.status === 504 && late-- > 0))) throw problem;
          const seconds = problem.seconds > 0 ? problem.seconds : WAITS[Math.min(attempt, WAITS.length - 1)];
          troubles.set(own, { status: problem.status, detail: problem.detail, seconds, hasKey: Boolean(key) });
          notify();
          await pause(problem.status === 403 ? Infinity : 1000 * seconds * (1 + 0.2 * Math.random()), signal);
          if (signal?.aborted) throw problem;
        }
      }
    } finally {
      if (troubles.delete(own)) notify();
    }
  }

  // --- the messages of worker.js

  const texts = ({ text, log_probs: logProbs, words }) => {
    const own = text.split(" "), fits = logProbs && own.length === Math.max(-1, ...words) + 1;
    return { text, ...(fits ? explanationData.words({ text, targetWords: { texts: own, ofTokens: words }, logProbs }) : { words: [], shares: [] }) };
  };

  const shown = ({ text, lines }) => (lines?.length === 1 ? texts(lines[0].hypotheses[0]) : { text, words: [], shares: [] });

  function chunks(sentences) { // a little first, so that something is there soon
    const all = [];
    let size = Infinity;
    for (const sentence of sentences) {
      const last = all[all.length - 1];
      if (size + sentence.length > (all.length < 2 ? FIRST : LATER) || last.length >= TOGETHER) { all.push([sentence]); size = sentence.length; } else { last.push(sentence); size += sentence.length; }
    }
    return all;
  }

  async function unpacked(explanation) { // as the module regard.js returns it; the encoder's attention comes with the first hypothesis
    const hypotheses = explanation.nbest.map((hypothesis) => explanationData.unpacked({ ...hypothesis, score: hypothesis.score ?? NaN }));
    const [first, ...others] = await Promise.all(hypotheses);
    const encoder = first.attention.filter(({ role }) => role === "encoder");
    return { ...explanation, ...first, nbest: [first, ...others.map((hypothesis) => ({ ...hypothesis, attention: [...encoder, ...hypothesis.attention] }))] };
  }

  /** What takes the messages of worker.js. `modelOf` returns the model of a direction, `describe` a sentence about a problem. */
  function translator(modelOf, describe) {
    const running = {}; // what can be overtaken, by its kind
    const own = { onmessage: () => {}, postMessage };
    const send = (data) => own.onmessage({ data });
    const languages = (direction) => {
      const { name, languages: [source, target] } = modelOf(direction);
      return { model: name, source: source || "src", target: target || "tgt" };
    };

    async function together(direction, sentences, signal) { // if something is wrong with some of several, with each half
      try {
        const asked = { text: sentences, ...languages(direction), log_probs: true, split: false };
        const { translations } = await request("v1/translate", asked, signal, sentences.length > 1 ? 0 : 1);
        return translations.map((translation, i) => ({ sentence: sentences[i], ...shown(translation), doubtful: translation.doubtful, quality: translation.quality }));
      } catch (problem) {
        if (signal.aborted || !(problem instanceof Problem)) throw problem;
        if (sentences.length === 1) return [{ sentence: sentences[0], error: describe(problem) }];
        const half = Math.ceil(sentences.length / 2);
        return [...await together(direction, sentences.slice(0, half), signal), ...await together(direction, sentences.slice(half), signal)];
      }
    }

    /** Return the indices of the words of a sentence that its translation leaves out. */
    async function unread(direction, sentence, translation, signal) {
      const words = unreadWords.unattended(sentence, translation, translation, modelOf(direction).alignment);
      const others = words.length ? await together(direction, words.map(({ text }) => text), signal) : [];
      return words.filter((_, i) => others[i].text === translation.text).map(({ index }) => index);
    }

    const answers = {
      async translate({ id, direction, sentences }, signal) {
        await Promise.resolve();
        for (const chunk of chunks(sentences)) {
          const results = await together(direction, chunk, signal);
          if (signal.aborted) return;
          send({ kind: "translated", id, direction, results });
        }
        if (!signal.aborted) send({ kind: "translated", id, direction, results: [], isDone: true });
      },

      async explain({ sentence, direction, prefix = [], trace }, signal) { // null: no sentence any more
        await pause(EXPLAIN, signal);
        if (signal.aborted || sentence === null) return;
        try {
          const { explanation } = await request("v1/explain", { text: sentence, ...languages(direction), prefix, trace, packed: true }, signal, 0);
          const translation = await unpacked(explanation);
          translation.unread = prefix.length ? [] : await unread(direction, sentence, translation, signal);
          if (!signal.aborted) send({ kind: "explained", direction, sentence, translation });
        } catch (problem) {
          if (signal.aborted || !(problem instanceof Problem)) throw problem;
          send({ kind: "explained", direction, sentence, error: describe(problem) });
        }
      },

      async continuations({ id, sentence, direction, before }, signal) {
        try {
          const { continuations } = await request("v1/continuations", { text: sentence, ...languages(direction), prefix: before, count: explanationData.MOST_CONTINUATIONS }, signal, 0);
          const options = continuations.map((option) => ({ ...texts(option), prefix: option.prefix, share: Math.exp(option.log_prob) }));
          send({ kind: "continued", id, options });
        } catch (problem) {
          if (signal.aborted || !(problem instanceof Problem)) throw problem;
          send({ kind: "continued", id, options: [], error: describe(problem) });
        }
      },
    };

    function postMessage(message) {
      running[message.kind]?.abort();
      const { signal } = running[message.kind] = new AbortController();
      answers[message.kind](message, signal).catch((problem) => { if (!signal.aborted) send({ kind: "failed", message: problem.message }); });
    }

    /** Give up whatever is not answered. */
    own.stop = () => { for (const controller of Object.values(running)) controller.abort(); };
    return own;
  }

  return {
    Problem, request, translator, troubles: () => [...troubles.values()], wake,
    useKey: (text) => { key = text; wake(); },
    /** Call one function whenever a request begins or ends to wait, and one when the server is back. */
    watch: (changed, back) => { [notify, returned] = [changed, back]; },
  };
})();
