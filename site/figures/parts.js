// Parts of living figures: elements, controls, numbers. Texts are { en, ko }.
const SVG = "http://www.w3.org/2000/svg";
const LARGEST = 1e6;

/** Return an HTML element with attributes (functions are listeners of events) and children. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Return an SVG element in the same way. */
export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** Return a number as a page writes it: a true minus, digits after the point. */
export function written(number, digits = 3) {
  if (number === Infinity) return "∞";
  if (number === -Infinity) return "−∞";
  const text = number.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** Return the CSS class of a weight's shade. */
export const shadeOf = (weight) => `w${5 * Math.round(20 * Math.min(1, Math.max(0, weight)))}`;

/** Read a number that was typed; throw RangeError for all that is not one between `least` and `most`. */
export function readNumber(text, least = -LARGEST, most = LARGEST) {
  const typed = text.trim().replace(/[−–]/g, "-");
  const number = Number(typed);
  if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) || !(number >= least && number <= most)) throw new RangeError(text);
  return number;
}

/** Return a group of buttons of which one is chosen: `options` are [value, text] pairs. */
export function choice(label, options, value, onChange) {
  const name = newId("choice");
  const buttons = options.map(([key, text]) => {
    const input = element("input", { type: "radio", name, value: key, change: () => onChange(key) });
    input.checked = key === value;
    return element("label", {}, input, element("span", {}, text));
  });
  return element("fieldset", { class: "choice" }, element("legend", {}, label), ...buttons);
}

/** Return a switch that is on or off. */
export function toggle(label, isOn, onChange) {
  const input = element("input", { type: "checkbox", change: () => onChange(input.checked) });
  input.checked = isOn;
  return element("label", { class: "toggle" }, input, element("span", {}, label));
}

/** Return an id that no other figure of the page has: each has its own copy of this module. */
export function newId(name) {
  globalThis.livingIds = (globalThis.livingIds ?? 0) + 1;
  return `${name}-${globalThis.livingIds}`;
}

const MOST_REPEATED = 12; // characters of what was typed that a message repeats
const shortened = (text) => (text.length > MOST_REPEATED ? `${text.slice(0, MOST_REPEATED)}…` : text);

/** Return a field for a number between `least` and `most`; anything else that is typed gets a sentence. `show(number)` writes a number into it. */
export function numberField(label, { least = -LARGEST, most = LARGEST, digits = 2 }, value, onChange, language) {
  const short = (number) => String(Number(number.toFixed(digits)));
  const id = newId("wrong"), wrong = element("small", { class: "wrong", role: "alert", id });
  const field = element("input", { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-label": label, "aria-describedby": id, input: typed, blur: left });
  function show(number) {
    value = number;
    field.value = short(number).replace("-", "−");
    accept();
  }
  function accept() {
    wrong.textContent = "";
    field.removeAttribute("aria-invalid");
  }
  function left() {
    const text = field.value.trim(), isWrong = field.hasAttribute("aria-invalid");
    show(value);
    if (isWrong) wrong.textContent = language === "ko" ? `쓸 수 없는 값이어서 되돌렸습니다: ‘${shortened(text)}’ → ${field.value}` : `Not a number in the range, so it is back: “${shortened(text)}” → ${field.value}`;
  }
  function typed() {
    try {
      value = Number(readNumber(field.value, least, most).toFixed(digits));
      accept();
      onChange(value);
    } catch {
      field.setAttribute("aria-invalid", "true");
      const [from, to] = [least, most].map((bound) => short(bound).replace("-", "−"));
      wrong.textContent = language === "ko" ? `${from}부터 ${to}까지의 수를 쓰세요.` : `Type a number from ${from} to ${to}.`;
    }
  }
  show(value);
  return { field, wrong, show };
}

/** Return a slider with a field for its number. `at` gives the number at a position of the slider, `of` the position of a number. */
export function slider(label, { least, most, digits = 0, step = 1, at = (x) => x, of = (x) => x }, value, onChange, language) {
  const id = newId("slider");
  const round = (number) => Number(number.toFixed(digits));
  const range = element("input", { type: "range", id, min: of(least), max: of(most), step, input: () => set(round(at(Number(range.value))), true) });
  const number = numberField(label, { least, most, digits }, value, (typed) => { move(typed); onChange(typed); }, language);
  function move(to) {
    range.value = of(to);
    range.setAttribute("aria-valuetext", String(to));
  }
  function set(to, isMoved) {
    number.show(to);
    if (isMoved) range.setAttribute("aria-valuetext", String(to)); else move(to);
    onChange(to);
  }
  move(value);
  return element("div", { class: "slider" }, element("label", { for: id }, label), range, number.field, number.wrong);
}
