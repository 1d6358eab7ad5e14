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
  const name = `choice-${(choice.count = (choice.count ?? 0) + 1)}`;
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

/** Return a slider with a field for its number. `scale` has `least`, `most`, `step`, and the functions `at` (number of a position) and `of` (position of a number), if it is not linear. */
export function slider(label, scale, value, onChange, language) {
  const { least, most, step = 1, digits = 0, at = (x) => x, of = (x) => x } = scale;
  const id = `slider-${(slider.count = (slider.count ?? 0) + 1)}`;
  const wrong = element("small", { class: "wrong", role: "alert", id: `${id}-wrong` });
  const show = (number) => String(Number(number.toFixed(digits)));
  const range = element("input", { type: "range", id, min: of(least), max: of(most), step, input: () => set(at(Number(range.value)), "range") });
  const field = element("input", { type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": label, "aria-describedby": wrong.id, input: () => typed() });
  function typed() {
    try {
      set(readNumber(field.value, least, most), "field");
    } catch {
      field.setAttribute("aria-invalid", "true");
      wrong.textContent = language === "ko" ? `${show(least)}부터 ${show(most)}까지의 수를 쓰세요.` : `A number from ${show(least)} to ${show(most)}, please.`;
    }
  }
  function set(number, source) {
    wrong.textContent = "";
    field.removeAttribute("aria-invalid");
    const rounded = Number(number.toFixed(digits));
    if (source !== "field") field.value = show(rounded);
    if (source !== "range") range.value = of(rounded);
    range.setAttribute("aria-valuetext", show(rounded));
    if (source) onChange(rounded);
  }
  set(value);
  return element("div", { class: "slider" }, element("label", { for: id }, label), range, field, wrong);
}
