// Weights of a match, as Sphinx has them; pages in the language of the search page come first.
var Scorer = {
  score: ([docname, , , , score]) => score + (docname.startsWith("ko/") === (document.documentElement.lang === "ko") ? 20 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
