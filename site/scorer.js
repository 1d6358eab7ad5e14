// Scores of names of Python, whose exact matches come beside titles (static/search.js has those of pages).
var Scorer = { objNameMatch: 12, objPartialMatch: 4, objPrio: {}, objPrioDefault: 0 };
