// Word alignments of a sentence and its translation, completed: words without a link are linked by position.

/** Return the source words of each target word, the reverse, both ascending, and whether the links were given. */
export function completeLinks(source, target, alignments) {
  const links = { sources: target.map(() => []), targets: source.map(() => []), isGiven: Boolean(alignments) };
  for (const [word, position] of sorted(alignments ?? equalWords(source, target))) {
    if (links.targets[word] && target[position]) add(links, word, position);
  }
  fill(links);
  return links;
}

function sorted(links) {
  const ordered = [...links].sort(([s, t], [other, second]) => s - other || t - second);
  return ordered.filter(([s, t], i) => !i || s !== ordered[i - 1][0] || t !== ordered[i - 1][1]);
}

function add({ sources, targets }, word, position) {
  sources[position].push(word);
  targets[word].push(position);
}

/** Link a run of words without links to the run of words without links that stands between the same neighbours. */
function fill(links) {
  const { sources, targets } = links;
  const nextLinked = Array(sources.length + 1).fill(sources.length);
  for (let position = sources.length - 1; position >= 0; position--) {
    nextLinked[position] = sources[position].length ? position : nextLinked[position + 1];
  }
  const found = [];
  for (const [start, end] of emptyRuns(targets)) {
    const before = start ? targets[start - 1] : [-1];
    const after = end < targets.length ? targets[end] : [sources.length];
    const isForward = before.at(-1) < after[0];
    const [low, high] = isForward ? [before.at(-1), after[0]] : [after.at(-1), before[0]];
    if (low < high && nextLinked[low + 1] === high) found.push(...inProportion(start, end, low + 1, high));
  }
  for (const [word, position] of sorted(found)) add(links, word, position);
}

/** Return links between words that occur once in each text, such as names and numbers. */
function equalWords(source, target) {
  const isSingle = (words, word) => words.indexOf(word) === words.lastIndexOf(word);
  return source.flatMap((word, i) => {
    const position = target.indexOf(word);
    return position >= 0 && isSingle(source, word) && isSingle(target, word) ? [[i, position]] : [];
  });
}

function emptyRuns(lists) {
  const runs = [];
  lists.forEach(({ length }, i) => {
    if (length) return;
    if (i && !lists[i - 1].length) runs.at(-1)[1] = i + 1;
    else runs.push([i, i + 1]);
  });
  return runs;
}

/** Link two runs in order, each word of both at least once. */
function inProportion(start, end, first, last) {
  const [words, positions] = [end - start, last - first];
  const longer = words && positions ? Math.max(words, positions) : 0;
  return Array.from({ length: longer }, (_, i) => [start + Math.floor((i * words) / longer), first + Math.floor((i * positions) / longer)]);
}
