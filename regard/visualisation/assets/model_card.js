// A model card in Markdown as nodes of the page: headings, paragraphs, lists, tables, code, emphasis and links. All else is shown as text.
const modelCard = (() => {
  const { element } = explanationPage;
  const METADATA = /^---\n[^]*?\n---\n/; // of a card for Hugging Face
  const BLOCK = new RegExp([
    /^`{3}\w*\n(?<code>[^]*?)\n`{3}$/,
    /^#(?<hashes>#{0,5}) (?<heading>.+)/,
    /^(?<rows>\|.*(?:\n\|.*)*)/,
    /^(?<items>- .*(?:\n(?:- | {2}).*)*)/,
    /^(?<indented> {4}.*(?:\n {4}.*)*)/,
    /^(?<text>.+(?:\n(?!- |#{1,6} |\x60{3}|\|).+)*)/,
  ].map(({ source }) => source).join("|"), "gm");
  const INLINE = new RegExp([
    /(?<fence>\x60+)(?<code>.+?)\k<fence>(?!\x60)/u,
    /\[(?<label>[^\]\\]+)\]\((?<address>[^\s()]+)\)/u,
    /\*\*(?<strong>[^*\\]+)\*\*/u,
    /\\(?<literal>[^\p{L}\p{N}\s])/u,
  ].map(({ source }) => source).join("|"), "gu");
  const ESCAPED_BAR = "\\|", NO_BAR = "\0";

  /** Return the nodes of a line of Markdown; only addresses of the web become links. */
  function inline(text) {
    const nodes = [];
    let end = 0;
    for (const match of text.matchAll(INLINE)) {
      nodes.push(text.slice(end, match.index), inlineNode(match.groups));
      end = match.index + match[0].length;
    }
    return [...nodes, text.slice(end)];
  }

  function inlineNode({ code, label, address, strong, literal }) {
    if (code) return element("code", code.trim());
    if (strong) return filled("strong", strong);
    if (label) return /^https?:\/\//.test(address) ? element("a", label, { href: address, rel: "noreferrer" }) : label;
    return literal;
  }

  function filled(name, text) {
    const node = element(name);
    node.append(...inline(text));
    return node;
  }

  function withChildren(name, children) {
    const node = element(name);
    node.append(...children);
    return node;
  }

  const list = (items) => withChildren("ul", items.slice(2).split("\n- ").map((item) => filled("li", item)));

  function table(rows) {
    const cells = rows.split("\n").map((row) => row.trim().replaceAll(ESCAPED_BAR, NO_BAR).replace(/^\||\|$/g, "").split("|").map((cell) => cell.replaceAll(NO_BAR, ESCAPED_BAR).trim()));
    const isRule = (row) => row.every((cell) => /^:?-+:?$/.test(cell));
    return withChildren("table", cells.filter((row) => !isRule(row)).map((row, i) => withChildren("tr", row.map((cell) => filled(i ? "td" : "th", cell)))));
  }

  function blockNode({ code, rows, items, indented, text }) {
    if (rows) return table(rows);
    if (items) return list(items);
    if (text) return filled("p", text);
    return element("pre", code ?? indented.replace(/^ {4}/gm, ""));
  }

  /** Return the nodes of a card; each section below a heading of the second level opens by a click. */
  return (card) => {
    const nodes = [];
    let section = null;
    for (const { groups } of card.replace(METADATA, "").matchAll(BLOCK)) {
      if (groups.hashes?.length === 1) {
        section = withChildren("details", [filled("summary", groups.heading)]);
        nodes.push(section);
        continue;
      }
      const node = groups.heading ? filled("h3", groups.heading) : blockNode(groups);
      if (section) section.append(node);
      else nodes.push(node);
    }
    return nodes;
  };
})();
