// Folds the sections of long pages on a phone: a heading opens its section; a link to it, a search in the page and print do, too.
(() => {
  const LONG = /^(notes\/\d|training$|translation$|server$)/;
  const page = document.querySelector("[data-page]")?.dataset.page ?? "";
  const narrow = matchMedia("(max-width: 40rem)");
  if (!LONG.test(page) || !narrow.matches) return;
  const [all, none] = document.documentElement.lang === "ko" ? ["모두 펼치기", "모두 접기"] : ["Open all", "Close all"];
  const sections = [...document.querySelectorAll("article section > section")].filter((section) => section.querySelector(":scope > h2"));
  const next = sections.at(-1)?.querySelector(":scope > p:last-child"); // the link to the next page stays outside of what is folded
  if (/^(Next|다음):/.test(next?.textContent)) sections.at(-1).after(next);
  const parts = sections.map((section) => {
    const heading = section.querySelector(":scope > h2"), body = document.createElement("div"), button = document.createElement("button");
    const link = heading.querySelector(".headerlink");
    while (heading.nextSibling) body.append(heading.nextSibling);
    button.type = "button";
    button.append(...[...heading.childNodes].filter((node) => node !== link));
    heading.prepend(button);
    heading.classList.add("folds");
    section.append(body);
    const part = { section, open: (isOpen) => { body.hidden = !isOpen; if (!isOpen) body.setAttribute("hidden", "until-found"); button.setAttribute("aria-expanded", isOpen); } };
    button.onclick = () => part.open(button.getAttribute("aria-expanded") === "false");
    body.addEventListener("beforematch", () => part.open(true));
    return part;
  });
  const openAll = (isOpen) => { for (const part of parts) part.open(isOpen); };
  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = target && parts.find(({ section }) => section.contains(target));
    if (!part) return;
    part.open(true);
    target.scrollIntoView();
  }
  const contents = sections[0]?.previousElementSibling; // the same titles
  if (contents?.matches(":is(ol, p):has(a[href^='#'])")) contents.hidden = true;
  const toggle = Object.assign(document.createElement("button"), { type: "button", className: "fold-all", textContent: all });
  toggle.onclick = () => {
    const isOpen = toggle.textContent === all;
    openAll(isOpen);
    toggle.textContent = isOpen ? none : all;
  };
  sections[0]?.before(toggle);
  openAll(false);
  parts[0]?.open(!location.hash);
  openTarget();
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", () => openAll(true));
  narrow.addEventListener("change", () => openAll(true)); // a phone that is turned
})();
