// Korean particles after placeholders, whose form depends on a value that is not known yet. Python does the same.
import { PARTICLES, PATTERNS } from "./text_tables.js";

/** Return how particles are written. Throws an Error for other ways. */
export function checkedParticles(given) {
  if (given === "both" || given === "as-is") return given;
  throw new Error(`option particles: wanted both or as-is, got ${given}`);
}

/** Write the particles directly after placeholders, which `spans` are [start, end] of, in both forms: 을 and 를 as 을(를). */
export function bothParticles(text, spans) {
  let result = text;
  for (const [, end] of [...spans].sort((one, other) => other[0] - one[0])) {
    const rest = result.slice(end);
    const match = PATTERNS.particle.exec(rest);
    if (!match) continue;
    const { quote, form } = match.groups;
    result = result.slice(0, end) + quote + PARTICLES[form] + rest.slice(match[0].length);
  }
  return result;
}
