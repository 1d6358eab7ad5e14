// Tells visitors who read Korean that a page has no Korean version, keeps marks of a search out of pictures, offers scripts as files, folds
// the list of commands on a phone, unfolds what a link leads to, and lets the keyboard reach what scrolls sideways.
(() => {
  const remember = (value) => { try { return value ? sessionStorage.setItem("korean", value) : sessionStorage.getItem("korean"); } catch { return null; } };
  if (document.documentElement.lang === "ko") remember("yes");
  const notice = document.querySelector(".only-english");
  if (notice && (remember() || navigator.languages.some((name) => name.startsWith("ko")))) notice.hidden = false;
  for (const node of document.querySelectorAll("code .pre")) node.classList.toggle("long", node.textContent.length > 26);
  // A word of a command moves to the next line as a whole, too.
  for (const block of document.querySelectorAll("article :not(.highlight-python) > .highlight > pre")) {
    const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT), nodes = [];
    while (texts.nextNode()) nodes.push(texts.currentNode);
    for (const node of nodes.filter(({ data }) => /-/.test(data))) {
      node.replaceWith(...node.data.split(/((?<!\S)(?=\S*-)\S{1,26}(?!\S))/).map((text, i) => (i % 2 ? Object.assign(document.createElement("span"), { className: "option", textContent: text }) : text)));
    }
  }
  for (const list of document.querySelectorAll("details.commands")) list.open = !matchMedia("(max-width: 40rem)").matches;
  for (const node of document.querySelectorAll("svg *")) node.classList.add("nohighlight"); // Sphinx fails at titles of icons
  // "Save this as `po.py`", then the script.
  for (const block of document.querySelectorAll("p + .highlight-python")) {
    const before = block.previousElementSibling, name = [...before.querySelectorAll("code")].map((node) => node.textContent).find((text) => /^[\w-]+\.py$/.test(text));
    if (!name || !/Save this as|저장하세요/.test(before.textContent)) continue;
    const href = URL.createObjectURL(new Blob([block.querySelector("pre").textContent], { type: "text/x-python" }));
    const link = Object.assign(document.createElement("a"), { href, download: name, textContent: document.documentElement.lang === "ko" ? `${name} 내려받기` : `Download ${name}` });
    block.before(Object.assign(document.createElement("p"), { className: "as-file" }));
    block.previousElementSibling.append(link);
  }
  // A link to what is folded unfolds it, also where browsers do not.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folds = [...document.querySelectorAll("article details:not([open])")].filter((fold) => target && fold.contains(target));
    for (const fold of folds) fold.open = true;
    if (folds.length) target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();
  const reach = () => {
    for (const node of document.querySelectorAll("article pre, .table-wrapper, [data-page^=\"notes/\"] p:has(> img)")) {
      if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
      else node.removeAttribute("tabindex");
    }
  };
  window.addEventListener("resize", reach);
  reach();
})();
