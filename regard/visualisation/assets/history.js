// The history of the page of the server: the last translations in the storage of the browser, once the reader wants it.
const historyPage = (() => {
  const STORED = "regard.history", MOST = 50, LONGEST = 20000; // entries, characters of a text
  const find = (id) => document.getElementById(id), { element } = explanationPage, words = () => explanationPage.labels();
  let restore = () => {}, recorded = ""; // what was recorded last does not come back by itself once it is deleted

  function load() {
    try {
      const { isOn, entries } = JSON.parse(localStorage.getItem(STORED)) || {};
      const isEntry = (entry) => ["text", "translation", "model", "source", "target"].every((name) => typeof entry?.[name] === "string");
      return { isOn: Boolean(isOn), entries: Array.isArray(entries) ? entries.filter(isEntry).slice(0, MOST) : [] };
    } catch {
      return { isOn: false, entries: [] };
    }
  }

  function save(kept) { // nothing at all is stored once it is off and empty
    try {
      if (kept.isOn || kept.entries.length) localStorage.setItem(STORED, JSON.stringify(kept));
      else localStorage.removeItem(STORED);
    } catch { // the storage is full, or not allowed
      find("history-note").textContent = words().historyFailed;
      return;
    }
    show();
  }

  /** Keep a translation, in the place of the last one if that was its beginning. */
  function record(entry) {
    const kept = load(), name = JSON.stringify(entry);
    if (!kept.isOn || !entry.text.trim() || entry.text.length > LONGEST || name === recorded) return;
    recorded = name;
    const isSame = (other) => other.model === entry.model && other.source === entry.source && other.target === entry.target;
    const [last] = kept.entries, begins = (one, other) => one.text.startsWith(other.text.replace(/[\s.!?…。！？]+$/u, ""));
    const goesOn = last && isSame(last) && (begins(entry, last) || begins(last, entry));
    const others = kept.entries.slice(goesOn ? 1 : 0).filter((other) => !(isSame(other) && other.text === entry.text));
    save({ ...kept, entries: [entry, ...others].slice(0, MOST) });
  }

  function item(entry, index) {
    const node = element("li"), past = element("button", "", { type: "button", class: "past" });
    const names = [entry.source, entry.target].map((code) => livePage.languageName(code, "")).filter(Boolean).join(" → ") || entry.model;
    past.append(element("span", entry.text, { dir: "auto", lang: entry.source }), element("span", entry.translation, { dir: "auto", lang: entry.target }), element("span", names, { class: "muted" }));
    past.onclick = () => restore(entry);
    const button = element("button", "×", { type: "button", class: "delete quiet", "aria-label": `${words().deleteOne}: ${entry.text.slice(0, 60)}`, title: words().deleteOne });
    button.onclick = () => {
      const kept = load();
      save({ ...kept, entries: kept.entries.filter((_, i) => i !== index) });
      (find("history-list").children[index]?.lastChild || find("history-list").lastChild?.lastChild || find("history-on")).focus();
    };
    node.append(past, button);
    return node;
  }

  function show() {
    const { isOn, entries } = load();
    find("history-on").checked = isOn;
    find("history-clear").hidden = !entries.length;
    find("history-note").textContent = words().historyNote;
    find("history-list").replaceChildren(...entries.map(item));
  }

  find("history-on").onchange = (event) => save({ ...load(), isOn: event.target.checked });
  find("history-clear").onclick = () => { save({ ...load(), entries: [] }); find("history-on").focus(); };
  addEventListener("storage", show); // another tab has changed it

  return { record, show, onRestore: (run) => { restore = run; } };
})();
