// "Ask the lead": a panel beside the task with what was said about it, and with news from the lead.
(() => {
  const SEEN = "loupeSeenFromLead", NEWS_MS = 60000;
  const SUBMIT = "[data-testid=bottombar-submit-button], [data-testid=bottombar-update-button]";
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const button = make("button", { type: "button", id: "loupe-ask", textContent: "Ask the lead" });
  const lines = make("div", { className: "loupe-said" }), news = make("div", { className: "loupe-said" });
  const text = make("textarea", { rows: 3, maxLength: 2000, dir: "auto", placeholder: "What is not clear about this task?" });
  const status = make("p", { className: "loupe-status" }), send = make("button", { type: "button", textContent: "Send" });
  const close = make("button", { type: "button", textContent: "Close" });
  const about = make("div", {}, make("h2", { textContent: "About this task" }), lines, text, make("div", { className: "loupe-row-of-buttons" }, send, status));
  const panel = make("section", { id: "loupe-panel", hidden: true }, close, about, make("h2", { textContent: "From the lead" }), news);
  const drafts = new Map();
  let task = 0, newest = 0, before = null;

  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-controls", panel.id);
  panel.setAttribute("aria-label", "Questions to the lead");
  text.setAttribute("aria-label", "Question to the lead");
  status.setAttribute("role", "status");

  const ask = async (address, options) => {
    const said = await fetch(address, options).catch(() => null);
    const content = await said?.json().catch(() => null);
    return said?.ok ? content : { problem: content?.problem ?? content?.detail ?? "no connection" };
  };
  const line = one => {
    const who = one.by === "you" ? "You" : one.kind === "instruction" ? "New in the instructions" : "Lead";
    const at = new Date(one.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
    const parts = [make("p", { className: "loupe-about", textContent: `${who}, ${at}${one.queue && one.by !== "you" ? `, ${one.queue}` : ""}` })];
    for (const address of one.images ?? []) parts.push(make("img", { src: address, alt: "The item you asked about", loading: "lazy" }));
    if (one.item) parts.push(make("p", { className: "loupe-about", dir: "auto", textContent: one.item }));
    if (one.question) parts.push(make("p", { className: "loupe-quoted", dir: "auto", textContent: one.question }));
    parts.push(make("p", { dir: "auto", textContent: one.text }));
    return make("div", { className: `loupe-line loupe-by-${one.by}` }, ...parts);
  };
  const seen = () => Number(localStorage[SEEN] ?? 0);
  const label = () => {
    const name = newest > seen() ? "Ask the lead · news" : "Ask the lead";
    button.setAttribute("aria-label", name);
    button.textContent = matchMedia("(max-width: 700px)").matches ? name.replace("Ask the lead ·", "Lead ·") : name;
    button.classList.toggle("loupe-news", newest > seen());
  };
  const loadNews = async () => {
    const found = await ask("/ask/");
    if (found.problem) return;
    newest = Math.max(0, ...found.said.map(one => one.id));
    news.replaceChildren(...(found.said.length ? found.said.toReversed().map(line) : ["Nothing yet."]));
    if (!panel.hidden) localStorage[SEEN] = newest;
    label();
  };
  const showThread = found => {
    if (found.problem) return Boolean(status.textContent = `Not loaded: ${found.problem}`);
    lines.replaceChildren(...found.said.map(line));
    return true;
  };
  const stayAboveSubmit = () => {
    const submit = document.querySelector(SUBMIT);
    const bar = submit?.closest(".lsf-bottombar") ?? submit;
    panel.style.bottom = bar ? `${Math.max(0, innerHeight - bar.getBoundingClientRect().top)}px` : "";
  };
  const open = () => {
    task = Number(window.Htx?.task?.id ?? 0);
    panel.hidden = false;
    stayAboveSubmit();
    button.setAttribute("aria-expanded", "true");
    show();
    (task ? text : close).focus();
  };
  const show = async () => {
    about.hidden = !task;
    text.value = drafts.get(task) ?? "";
    status.textContent = "";
    loadNews();
    const asked = task, found = task && await ask(`/ask/${task}/`);
    if (found && asked === task) showThread(found);
  };
  const shut = () => {
    panel.hidden = true;
    button.setAttribute("aria-expanded", "false");
    lines.replaceChildren();
    document.activeElement.blur();
    if (before?.isConnected) before.focus();
    label();
  };
  const submit = async () => {
    if (send.disabled || !text.value.trim()) return text.focus();
    const asked = task, words = text.value;
    send.disabled = true;
    status.textContent = "Sending …";
    text.value = "";  // what is typed meanwhile is another question
    drafts.delete(asked);
    const found = await ask(`/ask/${asked}/`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text: words }),
    });
    send.disabled = false;
    if (found.problem) drafts.set(asked, words + (drafts.get(asked) ?? ""));
    if (asked !== task) return;
    if (found.problem) {
      text.value = drafts.get(asked);
      return status.textContent = `Not sent: ${found.problem}`;
    }
    status.textContent = "Sent. The answer appears here; you can go on meanwhile.";
    showThread(found);
  };

  // The keys go back to where they were before the panel opened.
  const isOurs = element => button.contains(element) || panel.contains(element);
  document.addEventListener("focusin", event => { if (!isOurs(event.target)) before = event.target; });
  document.addEventListener("focusout", event => { if (!isOurs(event.target) && !event.relatedTarget) before = null; });
  button.addEventListener("click", () => panel.hidden ? open() : shut());
  close.addEventListener("click", shut);
  send.addEventListener("click", submit);
  text.addEventListener("input", () => drafts.set(task, text.value));
  // Keys in the panel are not those of the task.
  for (const kind of ["keydown", "keyup", "keypress"]) {
    panel.addEventListener(kind, event => {
      event.stopPropagation();
      if (kind !== "keydown") return;
      if (event.key === "Escape") shut();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
    });
  }
  const place = () => {
    if (!document.body || !/^\/projects\/\d+\/data\b/.test(location.pathname)) return;
    const host = document.querySelector("#loupe-progress") ?? document.body;
    if (button.parentElement !== host) host.append(button);
    if (!panel.isConnected) document.body.append(panel);
    if (!panel.hidden) stayAboveSubmit();
    const current = Number(window.Htx?.task?.id ?? 0);
    if (current === task) return;
    task = current;
    if (!panel.hidden) show();  // the keys stay with the task
  };
  document.addEventListener("DOMContentLoaded", () => {
    setInterval(place, 300);
    if (!/^\/projects\b/.test(location.pathname)) return;
    loadNews();
    setInterval(() => document.hidden || loadNews(), NEWS_MS);
  });
})();
