// Probability that a translation is good, as regard/text/quality.py calibrates it.
import { lengthOf } from "./characters.js";
import { DOUBTFUL } from "./text_tables.js";

const MOST = 50; // of a logit, so that its exponential is a number
const LEAST_SCORE = -20;
const FEATURES = 4;

const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const areWeights = (values) => Array.isArray(values) && values.length === FEATURES && values.every(Number.isFinite);

/** Return what a card's calibration should be, if it is none. */
export function qualityFlaws(quality) {
  if (quality === undefined || (isTable(quality) && !Object.keys(quality).length)) return "";
  return isTable(quality) && areWeights(quality.good) ? "" : "four finite weights in `good`";
}

/** Return the probability that the translation of a sentence is good; null if the model is not calibrated. What is copied, with score 0, is good. */
export function qualityOf(quality, source, text, score) {
  if (!quality?.good) return null;
  if (score === 0) return 1;
  const length = Math.log(1 + lengthOf(text));
  const features = [1, Math.max(score, LEAST_SCORE), length, length - Math.log(1 + lengthOf(source))];
  const logit = features.reduce((sum, value, i) => sum + value * quality.good[i], 0);
  return 1 / (1 + Math.exp(-Math.max(-MOST, Math.min(MOST, logit))));
}

/** Return whether a translation is doubtful by its quality or, if that is unknown, by its score. */
export const isLow = (quality, score, threshold) => (quality === null ? score < threshold : quality < DOUBTFUL);

/** Return the quality of the worst part of a line; null if it is unknown. */
export function worstQuality(parts) {
  const known = parts.map(({ quality }) => quality).filter((quality) => quality !== null && quality !== undefined);
  return known.length ? Math.min(...known) : null;
}
