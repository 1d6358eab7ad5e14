// Shows one step at a time, or all; marks the row and the column that a number of a product is made of.
"use strict";
function stepThrough(root, isPage, onPaint = () => {}) { // isPage: the steps are the whole page, whose address and scrolling follow them
  const $ = id => root.querySelector(`#${id}`);
  const sections = [...root.querySelectorAll("#steps > section")], links = [...root.querySelectorAll("nav a")];
  const steps = $("steps"), status = $("status"), all = $("all");
  let current = 0, isAll = false;

  const words = text => text.replace("{0}", current + 1).replace("{1}", sections.length);
  function paint() {
    root.classList.toggle("one", !isAll);
    sections.forEach((section, i) => { section.hidden = !isAll && i !== current; });
    links.forEach((link, i) => i === current && !isAll ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current"));
    if (isPage && !isAll) links[current].scrollIntoView({ block: "nearest" });
    $("first").disabled = $("back").disabled = !isAll && current === 0;
    $("forth").disabled = !isAll && current === sections.length - 1;
    all.setAttribute("aria-pressed", isAll);
    status.textContent = words(isAll ? status.dataset.every : status.dataset.of) + (isAll ? "" : ": " + sections[current].querySelector("h2").textContent.replace(/^\d+\. /, ""));
    unmark();
    onPaint(isAll ? null : sections[current]);
  }
  function go(step, isFocused) {
    current = Math.max(0, Math.min(sections.length - 1, step));
    paint();
    if (isPage) {
      history.replaceState(null, "", `#step-${current + 1}`);
      if (!isAll && scrollY > steps.offsetTop) scrollTo(0, steps.offsetTop - $("controls").offsetHeight);
    }
    if (isAll) sections[current].scrollIntoView();
    if (isFocused) sections[current].querySelector("h2").focus({ preventScroll: true });
  }
  function toggle() {
    isAll = !isAll;
    paint();
    if (isAll) sections[current].scrollIntoView();
    else if (isPage) scrollTo(0, 0);
  }
  const fromHash = () => { const match = /^#step-(\d+)$/.exec(location.hash); return match ? match[1] - 1 : 0; };

  $("first").onclick = () => go(0);
  $("back").onclick = () => go(current - 1);
  $("forth").onclick = () => go(current + 1);
  all.onclick = toggle;
  links.forEach((link, i) => { link.onclick = event => { event.preventDefault(); go(i, true); }; });
  if (isPage) addEventListener("hashchange", () => go(fromHash()));
  (isPage ? window : root).addEventListener("keydown", event => {
    if (event.target.closest?.("input, td.number")) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const box = event.target.closest?.(".scroll"), scrolls = box && box.scrollWidth > box.clientWidth;
    const move = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: sections.length - 1 }[event.key];
    if (move !== undefined && !scrolls) { event.preventDefault(); go(move); }
    if (event.key === "a" || event.key === "A") toggle();
  });

  // the row and the column of a product's number: A · B (+ b) = C
  const readout = $("readout");
  function unmark() {
    root.querySelectorAll("td.used").forEach(cell => cell.classList.remove("used"));
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
    if (cell && !steps.querySelector("td input")) mark(cell); else unmark();
  });

  // numbers that can be changed: a changed one is pinned, and all that is computed from it follows
  function edit(program) {
    const terms = readProgram(program), pins = new Map(), given = new Map(), first = compute(terms, pins), cells = [];
    // `given`: numbers that the page sets itself; those that the reader sets come first
    const allPins = () => new Map(terms.map(({ index }) => [index, new Map([...(given.get(index) ?? []), ...(pins.get(index) ?? [])])]));
    let values = first;
    for (const table of root.querySelectorAll("table[data-term]")) {
      const term = terms[table.dataset.term], columns = term.shape.at(-1), start = table.dataset.place * term.shape.at(-2) * columns;
      if (term.kind === "tokens") continue;
      [...table.tBodies[0].rows].forEach((row, r) => [...row.cells].filter(cell => cell.matches("td:not(.more)")).forEach((cell, c) => {
        const place = start + r * columns + c, text = cell.textContent;
        if (!/\d|∞/.test(text)) return;
        cells.push({ cell, table, term, place, r, c, text, shade: cell.className, origin: term.source ? [term.source.index, term.places.numbers[place]] : [term.index, place] });
        cell.classList.add("number");
        cell.tabIndex = r || c ? -1 : 0;
      }));
    }
    const of = new Map(cells.map(one => [one.cell, one]));
    const now = one => values[one.term.index].numbers[one.place];
    const plain = (x, digits) => x === Infinity ? "∞" : x === -Infinity ? "−∞" : String(Number(x.toFixed(digits))).replace("-", "−");
    const places = (text) => (text.split(".")[1] ?? "").length;
    function written(one, x) { // with as many places as before, or as many as it needs, up to three
      if (one.table.className.includes("loss")) return Math.abs(x) < .001 ? x.toExponential(2).replace("-", "−") : String(Number(x.toPrecision(3)));
      const before = one.text.includes("∞") ? Math.max(...cells.filter(({ table }) => table === one.table).map(({ text }) => places(text))) : places(one.text), needed = places(plain(x, 3));
      return Number.isFinite(x) ? (Number(x.toFixed(3)) + 0).toFixed(Math.max(before, needed)).replace("-", "−") : plain(x);
    }
    function repaint() {
      values = compute(terms, allPins());
      let count = 0;
      pins.forEach(of => { count += of.size; });
      for (const one of cells) {
        const x = now(one), isSame = Math.abs(x - first[one.term.index].numbers[one.place]) < 1e-9 || x === first[one.term.index].numbers[one.place];
        one.cell.textContent = isSame ? one.text : written(one, x);
        one.cell.className = one.shade.replace("used", "");
        if (one.table.classList.contains("weights")) one.cell.className = `w${5 * Math.round(20 * Math.min(1, Math.max(0, x)))}`;
        if (!one.table.classList.contains("weights")) one.cell.classList.toggle("hidden", x === -Infinity);
        one.cell.classList.add("number");
        one.cell.classList.toggle("pinned", Boolean(pins.get(one.origin[0])?.has(one.origin[1])));
        one.cell.classList.toggle("changed", !isSame);
      }
      sections.forEach((section, i) => links[i].classList.toggle("changed", Boolean(section.querySelector("td.changed"))));
      root.classList.toggle("is-edited", Boolean(root.querySelector("td.changed")));
      $("reset").disabled = !count;
      const data = $("changes").dataset;
      $("changes").textContent = count ? (count === 1 ? data.one : data.many.replace("{0}", count)) : "";
    }
    function pin(one, x) {
      const [index, place] = one.origin, isInput = Boolean(terms[index].numbers);
      const pinned = pins.get(index) ?? new Map();
      if (isInput && Math.abs(x - terms[index].numbers[place]) < 1e-6) pinned.delete(place); else pinned.set(place, x);
      pins.set(index, pinned);
    }
    const move = one => { for (const other of cells) if (other.table === one.table) other.cell.tabIndex = other === one ? 0 : -1; one.cell.focus(); };
    function open(one, text) {
      if (one.cell.querySelector("input")) return;
      const shown = one.cell.textContent, input = document.createElement("input"), wrong = document.createElement("small");
      const close = isKept => { if (!isKept) one.cell.textContent = shown; input.remove(); wrong.remove(); };
      unmark();
      input.value = text ?? plain(now(one), 6);
      input.setAttribute("aria-label", `${one.table.caption.textContent.trim()} ${one.r + 1}, ${one.c + 1}`);
      input.autocomplete = "off";
      wrong.id = "wrong";
      wrong.setAttribute("role", "alert");
      one.cell.replaceChildren(input, wrong);
      input.focus();
      if (text === undefined) input.select();
      function commit() {
        const typed = input.value.trim().replace(/[−–]/g, "-"), isHidden = /^-(∞|inf|infinity)$/i.test(typed);
        const x = isHidden ? -Infinity : Number(typed);
        const canHide = /mask|scores/.test(one.term.name);
        if (/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) && Math.abs(x) <= 1e6 || isHidden && canHide) {
          close();
          pin(one, x);
          repaint();
          return true;
        }
        input.setAttribute("aria-invalid", "true");
        input.setAttribute("aria-describedby", "wrong");
        wrong.textContent = $("reset").dataset[canHide ? "wrongScore" : "wrong"];
        return false;
      }
      input.onkeydown = event => {
        if (event.key === "Escape") { close(); move(one); }
        if (event.key === "Enter" && commit()) move(one);
        if (event.key === "Tab" && !commit()) event.preventDefault();
        event.stopPropagation();
      };
      input.onblur = () => { if (input.isConnected && input.value.trim() !== "" && !input.getAttribute("aria-invalid")) commit(); };
    }
    const held = event => of.get(event.target.closest?.("td.number"));
    steps.addEventListener("click", event => { const one = held(event); if (one) open(one); });
    steps.addEventListener("keydown", event => {
      const one = held(event), by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!one || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
      const next = by && cells.find(other => other.table === one.table && other.r === one.r + by[0] && other.c === one.c + by[1]);
      if (next) move(next);
      if (event.key === "Enter" || event.key === "F2") open(one);
      else if (/^[-−.\d]$/.test(event.key)) open(one, event.key);
      else if (!by) return;
      event.preventDefault();
    });
    $("reset").onclick = () => { pins.clear(); steps.querySelectorAll("td input").forEach(input => input.parentNode.replaceChildren()); repaint(); };
    root.querySelectorAll(".editing").forEach(part => { part.hidden = false; });
    repaint();
    return { terms, given, repaint, values: () => values };
  }
  setFormulas(root);
  const editor = steps.dataset.program ? edit(JSON.parse(steps.dataset.program)) : null;
  if (isPage) current = Math.min(sections.length - 1, Math.max(0, fromHash()));
  $("controls").hidden = $("hint").hidden = false;
  paint();
  if (isPage) document.documentElement.dataset.ready = "";
  return { go, sections, editor };
}
