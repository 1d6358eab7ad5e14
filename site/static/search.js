// Adds the beginning of its page to each result of a search; Sphinx would fetch the pages, which one from disk may not.
(() => {
  const results = document.getElementById("search-results");
  if (!results) return;
  new MutationObserver(() => {
    for (const item of results.querySelectorAll("li:not([data-done])")) {
      const summary = window.summaries[item.querySelector("a")?.getAttribute("href")?.split(/[#?]/)[0]];
      if (summary) item.append(Object.assign(document.createElement("p"), { className: "summary", textContent: summary }));
      item.dataset.done = "";
    }
  }).observe(results, { childList: true, subtree: true });
})();
