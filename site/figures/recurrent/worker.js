// Trains in the background. Messages to it: { data, seed } begins anew, { isRunning } goes on or pauses; messages from it: what the model does after some updates.
import { BATCH, begin, randomly, read, training, translate } from "./model.js";

const EVERY = 5; // updates between two messages
const REST = 50; // least milliseconds of an update, so that one can watch
let work = null, timer = null;

function start({ data, seed }) {
  const random = randomly(seed), weights = begin(data.source.length, data.target.length, random);
  work = { data, random, weights, update: training(weights), updates: 0, losses: [] };
  report();
}

/** Say what the model does now: losses since the last message, examples, and how many sentences that it never trains on are right. */
function report() {
  const { data, weights, updates, losses } = work, most = data.longest + 1;
  const isRight = (pair) => String(translate(weights, pair.source, most)) === String(pair.target);
  const examples = data.examples.map((pair) => ({ ...read(weights, pair), output: translate(weights, pair.source, most) }));
  postMessage({ updates, losses, examples, right: data.heldOut.filter(isRight).length });
  work.losses = [];
}

function go() {
  const { data, random } = work, begun = performance.now();
  const pairs = Array.from({ length: BATCH }, () => data.pairs[Math.floor(random() * data.pairs.length)]);
  work.losses.push(work.update(pairs));
  work.updates += 1;
  if (work.updates % EVERY === 0) report();
  const isDone = work.updates >= data.updates;
  timer = isDone ? null : setTimeout(go, Math.max(0, REST - (performance.now() - begun)));
}

self.onmessage = ({ data: message }) => {
  clearTimeout(timer);
  if (message.data) start(message);
  else if (message.isRunning) go();
};
