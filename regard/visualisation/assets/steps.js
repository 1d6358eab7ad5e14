// Shows one step at a time, or all; marks the row and the column that a number of a product is made of.
"use strict";
(() => {
  const $ = id => document.getElementById(id);
  const sections = [...document.querySelectorAll("#steps > section")], links = [...document.querySelectorAll("nav a")];
  const steps = $("steps"), status = $("status"), all = $("all");
  let current = 0, isAll = false;

  const words = text => text.replace("{0}", current + 1).replace("{1}", sections.length);
  function paint() {
    document.body.classList.toggle("one", !isAll);
    sections.forEach((section, i) => { section.hidden = !isAll && i !== current; });
    links.forEach((link, i) => i === current && !isAll ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current"));
    if (!isAll) links[current].scrollIntoView({ block: "nearest" });
    $("first").disabled = $("back").disabled = !isAll && current === 0;
    $("forth").disabled = !isAll && current === sections.length - 1;
    all.setAttribute("aria-pressed", isAll);
    status.textContent = words(isAll ? status.dataset.every : status.dataset.of) + (isAll ? "" : ": " + sections[current].querySelector("h2").textContent.replace(/^\d+\. /, ""));
    unmark();
  }
  function go(step, isFocused) {
    current = Math.max(0, Math.min(sections.length - 1, step));
    paint();
    history.replaceState(null, "", `#step-${current + 1}`);
    if (isAll) sections[current].scrollIntoView();
    else if (scrollY > steps.offsetTop) scrollTo(0, steps.offsetTop - 70);
    if (isFocused) sections[current].querySelector("h2").focus({ preventScroll: true });
  }
  function toggle() {
    isAll = !isAll;
    paint();
    if (isAll) sections[current].scrollIntoView();
    else scrollTo(0, 0);
  }
  const fromHash = () => { const match = /^#step-(\d+)$/.exec(location.hash); return match ? match[1] - 1 : 0; };

  $("first").onclick = () => go(0);
  $("back").onclick = () => go(current - 1);
  $("forth").onclick = () => go(current + 1);
  all.onclick = toggle;
  links.forEach((link, i) => { link.onclick = event => { event.preventDefault(); go(i, true); }; });
  addEventListener("hashchange", () => go(fromHash()));
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const box = event.target.closest?.(".scroll"), scrolls = box && box.scrollWidth > box.clientWidth;
    const move = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: sections.length - 1 }[event.key];
    if (move !== undefined && !scrolls) { event.preventDefault(); go(move); }
    if (event.key === "a" || event.key === "A") toggle();
  });

  // the row and the column of a product's number: A · B (+ b) = C
  const readout = $("readout");
  function unmark() {
    document.querySelectorAll("td.used").forEach(cell => cell.classList.remove("used"));
    readout.textContent = "";
  }
  const number = text => text.startsWith("−") ? `(${text})` : text;
  function mark(cell) {
    unmark();
    const table = cell.closest("table"), terms = [...cell.closest(".equation").children];
    const at = terms.indexOf(cell.closest(".term")), row = cell.parentNode.rowIndex - (table.tHead ? 1 : 0);
    const column = [...cell.parentNode.querySelectorAll("td")].indexOf(cell);
    const operators = terms.map(term => term.querySelector(".operator")?.textContent ?? "");
    const last = operators.lastIndexOf("·", at - 1);
    if (last < 1 || operators[at] !== "=" || operators.indexOf("=") !== at) return;
    const cells = index => [...terms[index].querySelectorAll("tbody tr")].map(line => [...line.querySelectorAll("td")]);
    const left = cells(last - 1)[row], right = cells(last).map(line => line[column]);
    const added = last + 1 < at ? [cells(last + 1)[0][column]] : [];
    const used = [...left, ...right, ...added, cell];
    used.forEach(one => one.classList.add("used"));
    if (used.some(one => one.classList.contains("more"))) return;
    const products = left.map((one, i) => `${number(one.textContent)}·${number(right[i].textContent)}`);
    readout.textContent = [...products, ...added.map(one => number(one.textContent))].join(" + ") + ` ≈ ${cell.textContent}`;
    cell.closest(".equation").after(readout);
  }
  steps.addEventListener("pointerover", event => {
    const cell = event.target.closest("table.result tbody td");
    if (cell) mark(cell); else unmark();
  });

  current = Math.min(sections.length - 1, Math.max(0, fromHash()));
  $("controls").hidden = $("hint").hidden = false;
  paint();
  document.documentElement.dataset.ready = "";
})();
