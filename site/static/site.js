// Tells visitors who read Korean that a page has no Korean version, keeps marks of a search out of pictures, and lets the keyboard reach what scrolls sideways.
(() => {
  const remember = (value) => { try { return value ? sessionStorage.setItem("korean", value) : sessionStorage.getItem("korean"); } catch { return null; } };
  if (document.documentElement.lang === "ko") remember("yes");
  const notice = document.querySelector(".only-english");
  if (notice && (remember() || navigator.languages.some((name) => name.startsWith("ko")))) notice.hidden = false;
  for (const node of document.querySelectorAll("svg *")) node.classList.add("nohighlight"); // Sphinx fails at titles of icons
  const reach = () => {
    for (const node of document.querySelectorAll("article pre, .table-wrapper")) {
      if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
      else node.removeAttribute("tabindex");
    }
  };
  window.addEventListener("resize", reach);
  reach();
})();
