// The page of the server: its models to choose from, what is wrong with it, keys, images that are dropped, and the history.
(() => {
  const host = location.host, counted = (seconds) => `${seconds} second${seconds === 1 ? "" : "s"}`;
  const ENGLISH = {
    private: `Texts and images go to this server, ${host}, and nowhere else. The page stores nothing unless you switch its history on.`,
    model: "Model", translations: "Translation", captionModels: "Captions", captionsIn: (language) => (language ? `Captions in ${language}` : "Captions"),
    asking: "Asking the server for its models …", noModels: "This server has no model that is ready.",
    away: "The server cannot be reached. The page tries again by itself.", busy: (seconds) => `The server has too much to do. The page tries again in ${counted(seconds)}.`,
    many: (seconds) => `These were too many requests. The page tries again in ${counted(seconds)}.`, late: "The server was not done in time. The page tries again.",
    tooLate: "The server was not done with this in time.", tooMuch: "This is more than the server takes at once.", answered: (detail) => `The server refuses this: ${detail}`,
    keyName: "API key", useKey: "Use this key", needsKey: "This server wants an API key.", wrongKey: "The server does not know this key.", keyNote: "The page keeps the key in memory, until it is closed.",
    history: "History", historyNote: "The history is off until you switch it on. It stays in this browser; the server is not told of it. Others who use this browser can read it.",
    historyOn: "Keep the last 50 translations in this browser", historyFailed: "This browser has no room for the history, or does not allow it.", deleteOne: "Delete", deleteAll: "Delete all",
    image: "Image", chooseImage: "Choose an image", dropImage: "or drop or paste one here", captionName: "Caption", captioning: "Looking at the image …",
    noImage: "This is no image that the browser can read.", noCaptioner: "This server has no model for captions of images.", captions: (count) => `Captions, best first (${count})`,
  };
  const KOREAN = {
    private: `글과 이미지는 이 서버(${host})로만 보냅니다. 기록을 켜지 않으면 페이지는 아무것도 저장하지 않습니다.`,
    model: "모델", translations: "번역", captionModels: "캡션", captionsIn: (language) => (language ? `${language} 캡션` : "캡션"),
    asking: "서버에 모델을 묻는 중 …", noModels: "이 서버에 준비된 모델이 없습니다.",
    away: "서버에 연결할 수 없습니다. 페이지가 스스로 다시 시도합니다.", busy: (seconds) => `서버에 일이 너무 많습니다. ${seconds}초 뒤에 다시 시도합니다.`,
    many: (seconds) => `요청이 너무 많았습니다. ${seconds}초 뒤에 다시 시도합니다.`, late: "서버가 제시간에 끝내지 못했습니다. 다시 시도합니다.",
    tooLate: "서버가 제시간에 끝내지 못했습니다.", tooMuch: "서버가 한 번에 받는 것보다 많습니다.", answered: (detail) => `서버가 거절했습니다: ${detail}`,
    keyName: "API 키", useKey: "이 키 쓰기", needsKey: "이 서버는 API 키가 필요합니다.", wrongKey: "서버가 모르는 키입니다.", keyNote: "키는 페이지를 닫을 때까지 메모리에만 있습니다.",
    history: "기록", historyNote: "기록은 켜기 전에는 꺼져 있습니다. 이 브라우저에만 남고 서버로 보내지 않습니다. 이 브라우저를 쓰는 다른 사람은 볼 수 있습니다.",
    historyOn: "최근 번역 50개를 이 브라우저에 남기기", historyFailed: "이 브라우저에 기록할 자리가 없거나 허용되지 않습니다.", deleteOne: "삭제", deleteAll: "모두 삭제",
    image: "이미지", chooseImage: "이미지 고르기", dropImage: "또는 여기에 끌어 놓거나 붙여 넣기", captionName: "캡션", captioning: "이미지를 보는 중 …",
    noImage: "브라우저가 읽을 수 있는 이미지가 아닙니다.", noCaptioner: "이 서버에는 이미지 캡션 모델이 없습니다.", captions: (count) => `캡션 후보, 좋은 것부터 (${count})`,
  };
  const REMEMBERED = 2000; // milliseconds without a change after which a translation is kept in the history
  const find = (id) => document.getElementById(id), { element } = explanationPage, words = () => explanationPage.labels();
  let list = "", models = [], chosen = -1, own = () => ""; // the models as text, as choices, the one in use, and a sentence of the page itself
  let isAsking = false;
  const isCaptioner = (model) => model?.kind === "captions";
  const translators = () => models.filter((model) => !isCaptioner(model));

  // --- the server: what is wrong with it, and keys

  function describe({ status, detail, message }) {
    if (status === 504) return words().tooLate;
    if (status === 413) return words().tooMuch;
    return words().answered(detail || message);
  }

  function describeTrouble({ status, seconds, hasKey }) {
    if (status === 403) return hasKey ? words().wrongKey : words().needsKey;
    if (status === 429) return words().many(seconds);
    if (status === 503) return words().busy(seconds);
    return [408, 504].includes(status) ? words().late : words().away;
  }

  function showNotice() {
    const troubles = serverClient.troubles(), [trouble] = troubles.sort((a, b) => a.status - b.status), needsKey = troubles.some(({ status }) => status === 403);
    const text = trouble ? describeTrouble(trouble) : own();
    if (find("notice").textContent !== text) find("notice").textContent = text;
    if (needsKey && find("key-form").hidden) { find("key").value = ""; setTimeout(() => find("key").focus()); }
    find("key-form").hidden = !needsKey;
  }

  find("key-form").onsubmit = (event) => {
    event.preventDefault();
    serverClient.useKey(find("key").value.trim());
  };

  function tell(sentence) { // of the page itself, in the language that is shown
    own = sentence;
    showNotice();
  }

  // --- models

  function choicesOf({ models: all }) { // one for each pair of languages
    const choices = all.flatMap((model) => model.pairs.map(({ source, target }) => ({ ...model, languages: [source, target], readme: "" })));
    return [...choices.filter((model) => !isCaptioner(model)), ...choices.filter(isCaptioner)];
  }

  const labelOf = (model) => {
    const [from, to] = model.languages.map((code) => livePage.languageName(code, ""));
    const text = isCaptioner(model) ? words().captionsIn(to) : [from, to].filter(Boolean).join(" → ");
    const isAlone = models.filter((other) => other.kind === model.kind && other.languages.join() === model.languages.join()).length === 1;
    return isAlone && text ? text : [text, model.name].filter(Boolean).join(" · ");
  };

  function showChoices() {
    const group = (name, isWanted) => {
      const node = element("optgroup", "", { label: name });
      node.append(...models.flatMap((model, i) => (isWanted(model) ? [element("option", labelOf(model), { value: i })] : [])));
      return node.children.length ? [node] : [];
    };
    find("model").replaceChildren(...group(words().translations, (model) => !isCaptioner(model)), ...group(words().captionModels, isCaptioner));
    find("model").value = chosen;
    find("choice").hidden = models.length < 2;
  }

  function choose(index) {
    if (index < 0 || !models[index]) return;
    const before = models[chosen];
    if (before?.name !== models[index].name) explanationPage.reset();
    chosen = index;
    find("model").value = index;
    const model = models[index];
    find("live").hidden = find("progress").hidden = isCaptioner(model);
    if (isCaptioner(model)) {
      translator.stop();
      livePage.pause();
      captionPage.open(model.name);
      showCaptioner();
    } else {
      captionPage.open(null);
      livePage.resume(index);
    }
    if (find("about").open) readCard();
  }

  function turned(index) { // by the switch of the page
    if (models[chosen].name !== models[index].name) explanationPage.reset();
    chosen = index;
    find("model").value = index;
    if (find("about").open) readCard();
  }

  function showCaptioner() {
    find("title").textContent = document.title = labelOf(models[chosen]);
    livePage.showAbout(models[chosen]);
    livePage.showToggle();
  }

  async function readCard() {
    const model = models[chosen];
    if (!model || model.readme) return;
    try {
      model.readme = (await serverClient.request(`v1/models/${encodeURIComponent(model.name)}`)).readme;
      if (model === models[chosen]) livePage.showAbout(model);
    } catch { // the facts stay
    }
  }
  find("about").addEventListener("toggle", () => find("about").open && readCard());
  find("model").onchange = (event) => choose(Number(event.target.value));

  async function askModels() { // again when the server is back: its models may be others
    if (isAsking) return;
    isAsking = true;
    try {
      const answer = await serverClient.request("v1/models"), text = JSON.stringify(answer);
      tell(() => (answer.models.length ? "" : words().noModels));
      if (text !== list) setModels(answer, text);
    } catch (problem) {
      tell(() => describe(problem));
    }
    isAsking = false;
  }

  function setModels(answer, text) {
    const before = models[chosen];
    list = text;
    models = choicesOf(answer);
    livePage.setModels(translators());
    chosen = -1;
    showChoices();
    const index = models.findIndex((model) => before && model.name === before.name && model.languages.join() === before.languages.join());
    choose(Math.max(0, index));
    document.documentElement.dataset.loaded = "yes";
  }

  // --- images that are dropped or pasted anywhere

  function takeFile(file) {
    const index = isCaptioner(models[chosen]) ? chosen : models.findIndex(isCaptioner);
    if (index < 0) { tell(() => words().noCaptioner); return; }
    tell(() => "");
    if (index !== chosen) choose(index);
    captionPage.caption(file);
  }

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dragging"); });
  document.addEventListener("drop", (event) => {
    document.body.classList.remove("dragging");
    if (!hasFiles(event)) return;
    event.preventDefault(); // else the browser would open it instead of the page
    takeFile(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    const file = [...event.clipboardData?.files ?? []].find(({ type }) => type.startsWith("image/"));
    if (!file) return;
    event.preventDefault();
    takeFile(file);
  });

  // --- history

  let timer = 0;
  function remember() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const model = models[chosen], { text, translation } = livePage.state();
      if (model && !isCaptioner(model)) historyPage.record({ text, translation, model: model.name, source: model.languages[0], target: model.languages[1] });
    }, REMEMBERED);
  }

  historyPage.onRestore((entry) => {
    const isPair = (model) => !isCaptioner(model) && model.languages[0] === entry.source && model.languages[1] === entry.target;
    const index = models.findIndex((model) => isPair(model) && model.name === entry.model), other = models.findIndex(isPair);
    choose(index >= 0 ? index : other >= 0 ? other : models.findIndex((model) => !isCaptioner(model)));
    livePage.put(entry.text);
    find("input").focus();
  });

  // --- start

  let shownLanguage;
  explanationPage.addLabels(ENGLISH, KOREAN, () => {
    if (shownLanguage === document.documentElement.lang) return;
    shownLanguage = document.documentElement.lang;
    showChoices();
    showNotice();
    historyPage.show();
    if (isCaptioner(models[chosen])) showCaptioner();
    captionPage.update();
  });
  captionPage.onProblem(describe);
  const translator = serverClient.translator((direction) => models[direction], describe);
  serverClient.watch(showNotice, () => { askModels(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && list) askModels(); });
  find("live").hidden = true;
  livePage.start(translator, { settled: remember, turned, traced: captionPage.update });
  tell(() => words().asking);
  askModels();
})();
