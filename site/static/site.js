// Tells visitors who read Korean that a page has no Korean version.
(() => {
  const remember = (value) => { try { return value ? sessionStorage.setItem("korean", value) : sessionStorage.getItem("korean"); } catch { return null; } };
  if (document.documentElement.lang === "ko") remember("yes");
  const notice = document.querySelector(".only-english");
  if (notice && (remember() || navigator.languages.some((name) => name.startsWith("ko")))) notice.hidden = false;
})();
