// Replaces the search of Sphinx over Sphinx's index: synonyms, corrected spelling, pages ordered by where the words stand, and an
// excerpt of each page with the words marked. Texts come as scripts, since a page from disk may not fetch.
window.texts = {};
(() => {
  const list = document.getElementById("search-results");
  if (!list) return;
  const PLACES = { title: 30, heading: 15, beginning: 10, often: 8, text: 5 };
  const KINDS = [[/^(ko\/)?tutorials\//, 6], [/^log/, -30], [/^(ko\/)?experiments\//, -20], [/^(ko\/)?experiments/, -4], [/^(ko\/)?(coming-from|glossary|guides|index|notes\/.*)$/, -2], [/^reference\//, 0], [/./, 2]];
  const PARTICLES = "이라는|라는|이란|란|처럼|마다|들|에서는|에서|에게|으로|부터|까지|보다|은|는|이|가|을|를|의|에|로|와|과|도|만";
  const [SYNONYM, PARTIAL, EXACT_NAME, LENGTH, OWN] = [0.9, 0.4, 12, 200, 2000]; // OWN: above any other score, so pages of the reader's language come first
  const korean = document.documentElement.lang === "ko", stemmer = new Stemmer();
  const isOther = (page) => page.startsWith("ko/") !== korean;
  const isHangul = (text) => /[가-힣]/.test(text);
  const [SECTION, NEXT, MOST, NEAR] = [12, 8, 3, 300]; // what a section with all groups adds, what each further one of a page costs, how many a page has, characters
  const LISTED = /^(ko\/)?notes\//; // pages that begin with a list of their headings
  const [FEW, LONG, FIRST] = [5, 3, 20]; // below so many pages a query of so many words also gets pages that lack one of them
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const joined = (text) => text.replace(/(?<=\p{N}),(?=\p{N}{3})/gu, ""); // 3,000 as 3000
  const unbraced = (text) => text.replace(/([_^])\{([^{}\s]*)\}/g, "$1$2"); // s_{t-1} as pages have it, s_t-1
  const patternOf = (word) => escaped(word).replace(/[-−]/g, "[-−]"); // formulas of pages have the sign of subtraction
  const stem = (term) => (isHangul(term) ? term : stemmer.stemWord(term));
  const queryTerms = (text) => splitQuery(joined(text.toLowerCase().replace(/(?<![\p{L}\p{N}])(\p{L})\^(?=\p{L}(?![\p{L}\p{N}]))/gu, "$1_"))).filter((term) => !stopwords.has(term)).map(stem);
  const textTerms = (text) => new Set((joined(text.toLowerCase()).match(/\d+(?:\.\d+)+|[가-힣]+|(?:(?![가-힣])[\p{L}\p{N}_])+/gu) ?? []).flatMap((word) =>
    isHangul(word) ? [...word].flatMap((letter, i) => [`~${letter}~`, ...(i ? [`~${word[i - 1]}${letter}`] : [])]) : [stem(word)]));

  // A query as groups; a page has to match an alternative of each, except of numbers. The first alternative is the reader's own word.
  const groupsOf = (query) => {
    const groups = [];
    let rest = ` ${unbraced(query.toLowerCase())} `;
    const words = window.synonyms.flatMap((family) => family.map((word) => [word, family])).sort((a, b) => b[0].length - a[0].length);
    for (const [word, family] of words) {
      const end = isHangul(word) ? `(?:${PARTICLES})?(?![가-힣])` : "(?:s|es)?(?![\\p{L}\\p{N}])";
      const pattern = new RegExp((isHangul(word) ? "" : "(?<![\\p{L}\\p{N}])") + escaped(word).replaceAll(" ", isHangul(word) ? " ?" : " ") + end, "gu"), others = rest.replace(pattern, " ");
      if (others === rest) continue;
      rest = others;
      groups.push([word, ...family.filter((other) => other !== word)]);
    }
    for (const word of new Set(rest.split(/\s+/))) groups.push([word]);
    return groups.map((group) => group.map((word) => ({ word, terms: queryTerms(word) })).filter(({ word, terms }) => terms.length || Object.hasOwn(window.phrases, word))).filter((group) => group.length);
  };

  // The numbers of the pages that hold a phrase of the synonyms, or a term, and whether only a part of a word is the term.
  const pagesWith = (term) => {
    if (/^\p{N}[\p{N}.]*$/u.test(term)) return { pages: new Set((window.numbers[term] ?? []).map((name) => Search._index.docnames.indexOf(name))), isPartial: false };
    const tables = [Search._index.terms, Search._index.titleterms];
    const numbers = (keys) => new Set(tables.flatMap((table) => keys.flatMap((key) => (Object.hasOwn(table, key) ? table[key] : []))));
    const pages = numbers([term]);
    if (pages.size || isHangul(term) || term.length < 3) return { pages, isPartial: false };
    return { pages: numbers([...new Set(tables.flatMap(Object.keys))].filter((key) => key.includes(term))), isPartial: true };
  };

  let outlines; // of each page: terms of its title and beginning, and its headings with theirs
  const outlineOf = (page) => {
    outlines ??= Search._index.docnames.map((name, number) => ({ title: textTerms(Search._index.titles[number]), beginning: textTerms(window.summaries[`${name}.html`] ?? ""), often: new Set(window.often[name]), headings: [] }));
    if (!outlines.isComplete) {
      for (const [title, uses] of Object.entries(Search._index.alltitles)) {
        for (const [number, anchor] of uses) if (anchor !== null && title !== Search._index.titles[number]) outlines[number].headings.push({ title, anchor, terms: textTerms(title) });
      }
      outlines.isComplete = true;
    }
    return outlines[page];
  };
  const holds = (set, { terms }) => terms.length > 0 && terms.every((term) => set.has(term));

  const matchesOf = (group) => {
    const found = new Map();
    group.forEach((alternative, rank) => {
      const hits = Object.hasOwn(window.phrases, alternative.word)
        ? [{ pages: new Set(window.phrases[alternative.word].map((name) => Search._index.docnames.indexOf(name))) }]
        : alternative.terms.map(pagesWith);
      for (const page of hits[0].pages) {
        if (!hits.every(({ pages }) => pages.has(page))) continue;
        const { title, beginning, often, headings } = outlineOf(page);
        const matching = headings.filter(({ terms }) => holds(terms, alternative));
        const place = holds(title, alternative) ? "title" : matching.length ? "heading" : holds(beginning, alternative) ? "beginning" : holds(often, alternative) ? "often" : "text";
        let score = PLACES[place] * (rank ? SYNONYM : 1) * (hits.some(({ isPartial }) => isPartial) ? PARTIAL : 1);
        if (place === "title") score += (10 * alternative.terms.length) / title.size;
        if (!found.has(page) || score > found.get(page).score) found.set(page, { score, place, headings: matching });
      }
    });
    return found;
  };

  // The pages that match all groups with a word; without one, words that occur nowhere are corrected; without one still, any group will do.
  const search = (query) => {
    const results = (groups, isAny = false) => {
      const matches = groups.map(matchesOf), isNumber = groups.map(([{ word }]) => /\p{N}/u.test(word));
      const required = matches.filter((_, i) => !isNumber[i] || isNumber.every(Boolean));
      const pages = [...new Set((isAny ? matches : required).flatMap((one) => [...one.keys()]))];
      const lacking = (most) => pages.filter((page) => required.filter((one) => !one.has(page)).length <= most);
      const complete = lacking(0), isLong = complete.length && complete.length < FEW && required.length >= LONG;
      return { groups, matches, isAny, pages: isAny ? pages : isLong ? lacking(1) : complete, note: "" };
    };
    const asked = results(groupsOf(query));
    if (asked.pages.length) return asked;
    const corrected = asked.groups.map((group, i) => (asked.matches[i].size ? group : nearest(group[0].word)));
    const other = results(corrected.filter(Boolean), true), all = results(corrected.filter(Boolean));
    const changes = corrected.filter((group, i) => group && group !== asked.groups[i]).map(([{ word }]) => word);
    const note = changes.length ? (korean ? `바로잡은 검색어: ${changes.join(", ")}. ` : `Searched for: ${changes.join(", ")}. `) : "";
    if (all.pages.length && corrected.every(Boolean)) return { ...all, note };
    return { ...other, note: note + (korean ? "모든 단어가 들어 있는 문서가 없어, 일부가 들어 있는 문서를 보여 줍니다." : "No page has all of the words; these have one or more.") };
  };

  // The word of the titles, the beginnings or the synonyms that is one or two letters away (in Hangul: a consonant or vowel), as a group.
  let vocabulary;
  const nearest = (word) => {
    if (!vocabulary) {
      vocabulary = new Map();
      const texts = [...Object.keys(Search._index.alltitles), ...Object.values(window.summaries), ...window.synonyms.flat()];
      for (const one of texts.join(" ").toLowerCase().match(/[가-힣]{2,}|[a-z]{4,}/g)) {
        const bare = isHangul(one) ? withoutParticle(one) : one;
        vocabulary.set(bare, (vocabulary.get(bare) ?? 0) + 1);
      }
    }
    const letters = withoutParticle(word).normalize("NFD"), limit = letters.length < 4 ? 0 : letters.length < (isHangul(word) ? 10 : 8) ? 1 : 2;
    const candidates = [...vocabulary].map(([one, count]) => ({ one, count, distance: one[0].normalize("NFD")[0] === letters[0] ? distance(letters, one.normalize("NFD"), limit) : Infinity }));
    const [best] = candidates.filter((one) => one.distance <= limit).sort((a, b) => a.distance - b.distance || b.count - a.count);
    return best && groupsOf(best.one)[0];
  };
  const withoutParticle = (word) => word.replace(new RegExp(`(?<=[가-힣]{2})(?:${PARTICLES})$`, "u"), "");
  /** Insertions, deletions, changes and swaps of neighbours between two words; Infinity if the lengths differ by more than the limit. */
  const distance = (a, b, limit) => {
    if (Math.abs(a.length - b.length) > limit) return Infinity;
    const rows = [[...Array(b.length + 1).keys()]];
    for (let i = 1; i <= a.length; i++) {
      rows.push([i]);
      for (let j = 1; j <= b.length; j++) {
        rows[i].push(Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] !== b[j - 1])));
        if (a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
    return rows[a.length][b.length];
  };

  /** The sections of a page whose texts are loaded, the best first: those with most groups, in headings, often, and close to each other. */
  const sectionsOf = (page, groups) => (window.texts[page] ?? []).map((section) => {
    const [anchor, heading, text] = section, content = `${heading} ${text}`.toLowerCase();
    section.terms ??= { heading: textTerms(heading), all: textTerms(content) };
    const matching = groups.map((group) => group.filter((one) => (Object.hasOwn(window.phrases, one.word) ? content.includes(one.word) : holds(section.terms.all, one)))).filter((group) => group.length);
    const places = matching.map((group) => group.flatMap(({ word }) => [...content.matchAll(new RegExp(patternOf(withoutParticle(word)), "gu"))].map(({ index }) => index)));
    const score = matching.reduce((sum, group, i) => sum + (group.some((one) => holds(section.terms.heading, one)) ? 3 : 1) + places[i].length / (places[i].length + 2), 0);
    return { anchor, heading, count: matching.length, score: score + (places.length > 1 ? 3 * Math.max(0, 1 - span(places) / NEAR) : 0) };
  }).filter(({ anchor }) => anchor || !LISTED.test(page)).sort((a, b) => b.count - a.count || b.score - a.score);
  /** The fewest characters that hold one of each list of places. */
  const span = (lists) => {
    const all = lists.flatMap((places, list) => places.map((place) => [place, list])).sort((a, b) => a[0] - b[0]), last = Array(lists.length).fill(-Infinity);
    return Math.min(Infinity, ...all.map(([place, list]) => { last[list] = place; return place - Math.min(...last); }));
  };

  const named = (query) => (/\S[\s-]+\S/.test(query) ? [] : [...new Set(splitQuery(query.toLowerCase()))].filter((term) => !isHangul(term) && term.length > 2));
  const squeezed = (text) => text.toLowerCase().replace(/[\s-]+/g, "");
  /** The section of the notes that answers a query: that with the longest word in it. */
  const answerTo = (query) => {
    const length = ({ words: own }) => Math.max(0, ...own.map(squeezed).filter((word) => squeezed(query).includes(word)).map((word) => word.length));
    const [best] = [...window.answers].sort((a, b) => length(b) - length(a));
    return best && length(best) ? best : null;
  };
  let words = [], asked = [], note = "", isEmpty = false, others = 0;
  Search._performSearch = (query) => {
    document.getElementById("search-progress")?.replaceChildren();
    const { docnames, titles, filenames } = Search._index, { groups, matches: ofGroups, pages, isAny, note: remark } = search(query);
    const order = new Map(pages.map((page) => [page, 40 * ofGroups.filter((one) => one.has(page)).length]));
    asked = groups;
    words = groups.flat().flatMap(({ word, terms }) => (isHangul(word) ? [withoutParticle(word)] : /\s/.test(word) ? [word] : [word, ...terms]));
    const own = (name) => (isOther(name) ? (korean && !docnames.includes(`ko/${name}`) ? OWN / 2 : 0) : OWN);
    const all = pages.flatMap((page) => {
      const matches = ofGroups.map((one) => one.get(page)).filter(Boolean), name = docnames[page];
      const score = matches.reduce((sum, match) => sum + match.score, 0) + KINDS.find(([pattern]) => pattern.test(name))[1] + own(name) + order.get(page) - 40 * ofGroups.length;
      const result = ({ anchor, heading }, points) => [name, anchor ? `${titles[page]} > ${heading}` : titles[page], anchor && `#${anchor}`, null, points, filenames[page], "text"];
      if (matches.every(({ place }) => place === "title")) return [result({ anchor: "" }, score)];
      const sections = sectionsOf(name, groups), whole = sections.filter(({ anchor, count }) => anchor && count === groups.length).slice(0, MOST);
      if (whole.length && groups.length > 1) return whole.map((section, i) => result(section, score + SECTION + section.score - NEXT * i));
      if (sections.length) return [result(sections[0].count ? sections[0] : { anchor: "" }, score)];
      const [heading] = outlineOf(page).headings.map((one) => ({ ...one, heading: one.title, count: matches.filter(({ headings }) => headings.some(({ anchor }) => anchor === one.anchor)).length })).filter(({ count }) => count).sort((a, b) => b.count - a.count);
      return [result(heading ?? { anchor: "" }, score)];
    });
    const results = isAny ? all.sort((a, b) => b[4] - a[4]).slice(0, FIRST) : all; // with some words alone, most pages say nothing of the question
    const glossary = results.find(([name]) => name === (korean ? "ko/glossary" : "glossary")), [, , third = 0] = results.map((result) => result[4]).sort((a, b) => b - a);
    if (glossary && window.terms.includes(query.trim().toLowerCase())) glossary[4] = Math.max(glossary[4], third + 0.01); // the meaning of a term is among the first three
    const answer = answerTo(query);
    if (answer) {
      const [page, anchor, title] = answer[korean ? "ko" : "en"], number = docnames.indexOf(page), top = Math.max(0, ...results.map((result) => result[4]));
      const others = results.filter(([name, , own]) => name !== page || !["", `#${anchor}`].includes(own)); // its other sections may answer, too
      results.splice(0, results.length, ...others, [page, `${titles[number]} > ${title}`, `#${anchor}`, null, top + 1, filenames[number], "text"]);
    }
    const terms = named(query);
    for (const term of terms) {
      for (const result of Search.performObjectSearch(term, new Set(terms))) {
        result[4] += OWN + (result[4] >= EXACT_NAME ? 0 : -50);
        if (!results.some(([name, , anchor]) => name === result[0] && anchor === result[2])) results.push(result);
      }
    }
    [note, isEmpty, others] = [results.length ? remark : "", !results.length, results.filter(([name, , , , , , kind]) => kind === "text" && isOther(name)).length];
    return results.sort((a, b) => a[4] - b[4] || b[0].localeCompare(a[0]));
  };

  const excerpt = (page, anchor) => {
    const pattern = new RegExp(words.map((word) => (isHangul(word) ? escaped(word) : `(?<![\\p{L}\\p{N}])${patternOf(word)}\\p{L}*`)).join("|"), "giu");
    const sections = window.texts[page], own = sections.filter(([id]) => `#${id}` === anchor);
    const [, , text] = own[0] ?? sections.find(([, , content]) => content.search(pattern) >= 0) ?? sections[0] ?? ["", "", ""];
    const matches = [...text.matchAll(pattern)], near = ({ index }) => new Set(matches.filter((one) => one.index >= index && one.index < index + LENGTH - 60).map(([word]) => word.toLowerCase())).size;
    const at = matches.length ? matches.reduce((best, one) => (near(one) > near(best) ? one : best)).index : 0, start = at < LENGTH - 60 ? 0 : text.indexOf(" ", at - 80) + 1;
    const end = text.length <= start + LENGTH ? text.length : Math.max(text.lastIndexOf(" ", start + LENGTH), at + 20);
    const node = Object.assign(document.createElement("p"), { className: "summary" }), shown = text.slice(start, end);
    let last = 0;
    if (start) node.append("… ");
    for (const match of shown.matchAll(pattern)) {
      node.append(shown.slice(last, match.index), Object.assign(document.createElement("mark"), { textContent: match[0] }));
      last = match.index + match[0].length;
    }
    node.append(shown.slice(last), end < text.length ? " …" : "");
    return node;
  };
  const texts = new Map(); // the scripts that are loaded, or being loaded
  const load = (page) => {
    if (Object.hasOwn(window.texts, page)) return Promise.resolve(true);
    if (!texts.has(page)) {
      texts.set(page, new Promise((done) => {
        const script = Object.assign(document.createElement("script"), { src: `_static/texts/${page}.js`, onload: () => done(true), onerror: () => done(false) });
        document.body.append(script);
      }));
    }
    return texts.get(page);
  };
  /** Lead a link to a page to the section that answers best, and return its anchor. */
  const toSection = (link, name) => {
    const { title } = outlineOf(Search._index.docnames.indexOf(name)), [best] = sectionsOf(name, asked);
    if (!best?.anchor || !best.count || asked.every((group) => group.some((one) => holds(title, one)))) return "";
    link.setAttribute("href", `${link.getAttribute("href")}#${best.anchor}`);
    link.append(` > ${best.heading}`);
    return `#${best.anchor}`;
  };
  // Beside the number of results: what was corrected, or where to go if there are none.
  const annotate = () => {
    const status = list.querySelector(".search-summary:not([data-done])");
    if (!status?.textContent) return;
    status.dataset.done = "";
    if (!isEmpty) return status.prepend(note), status.append(others ? (korean ? ` 그중 ${others}개는 영어 문서입니다.` : ` ${others} of them in Korean.`) : "");
    const link = Object.assign(document.createElement("a"), { href: korean ? "ko/guides.html" : "guides.html", textContent: korean ? "어느 안내서를 볼까?" : "Which guide for me?" });
    status.replaceChildren(korean ? "찾은 문서가 없습니다. 단어 하나로 검색하거나 다음 문서를 보세요. " : "Nothing found. Try one word, or ", link);
  };
  new MutationObserver(() => {
    annotate();
    for (const item of list.querySelectorAll("li.kind-text:not([data-done])")) {
      const [page, anchor = ""] = item.querySelector("a").getAttribute("href").split(/(?=#)/);
      item.dataset.done = "";
      if (isOther(page) && !list.querySelector(".other-language")) {
        item.before(Object.assign(document.createElement("li"), { className: "other-language", textContent: korean ? "영어 문서" : "In Korean" }));
      }
      const name = page.replace(/\.html$/, "");
      load(name).then((isLoaded) => isLoaded && item.append(excerpt(name, anchor || toSection(item.querySelector("a"), name))));
    }
  }).observe(list, { childList: true, subtree: true });
})();
