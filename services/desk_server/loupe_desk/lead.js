// The lead's page: it follows what happens, and its buttons ask once before they do something.
(() => {
  const LOOK_MS = 5000;
  const one = selector => document.querySelector(selector);
  const token = one("meta[name=csrf-token]").content;
  const dialog = one("#sure"), said = one("#said"), state = one("#state"), found = one("#found");
  const yes = one("#sure-yes"), text = one("#sure-text textarea"), title = one("#sure-title");
  const problem = one("#sure-problem"), item = one("#sure-item");
  let known = "", pressed = null, wanted = null, shown = "", isStale = false;

  const say = (words, isProblem) => {
    said.textContent = words;
    said.classList.toggle("problem", isProblem);
  };
  const follow = (words, isProblem) => {
    if (state.textContent !== words) state.textContent = words;
    state.classList.toggle("problem", isProblem);
  };
  const ask = async (address, options = {}) => {
    const answer = await fetch(address, options).catch(() => null);
    if (!answer) return { problem: "No connection." };
    const content = await answer.json().catch(() => ({}));
    if (answer.status === 401) return { problem: "Log in again, then reload this page." };
    return answer.ok ? content : { problem: content.problem ?? content.detail ?? `Refused (${answer.status}).` };
  };

  // The focus stays on the same button.
  const fill = (part, content) => {
    const focused = part.contains(document.activeElement) ? describe(document.activeElement) : "";
    part.replaceChildren(...content);
    if (focused) [...part.querySelectorAll("button, summary")].find(button => describe(button) === focused)?.focus();
  };
  // Parts of the page that changed are replaced; what is unfolded stays so.
  const replace = html => {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
      const now = fresh.querySelector(`[data-part=${part.dataset.part}]`);
      if (!now) continue;
      for (const closed of now.querySelectorAll("details[data-key]")) {
        const before = part.querySelector(`details[data-key="${CSS.escape(closed.dataset.key)}"]`);
        closed.open = before?.open ?? false;
      }
      if (part.innerHTML === now.innerHTML) continue;
      fill(part, now.childNodes);
    }
    one("header time")?.replaceWith(fresh.querySelector("header time") ?? "");
  };
  const describe = element => JSON.stringify([element.tagName, { ...element.dataset }, element.textContent]);

  const look = async () => {
    if (document.hidden) return;
    const answer = await ask(`/lead/now?known=${encodeURIComponent(known)}`);
    if (answer.problem) return follow(`Not up to date: ${answer.problem}`, true);
    follow("Live: this page is up to date.", false);
    if (answer.html && !one("img.large")) {
      known = answer.known;
      replace(answer.html);
      isStale = true;
    }
    searchAgain();
  };
  const search = () => {
    wanted = new URLSearchParams();
    for (const name of ["queue", "words", "state"]) wanted.set(name, one(`#search-${name}`).value);
    return showFound();
  };
  const showFound = async () => {
    isStale = false;
    const asked = wanted, answer = await ask(`/lead/items?${asked}`);
    if (answer.problem) return say(answer.problem, true);
    if (asked !== wanted || answer.html === shown) return;
    shown = answer.html;
    fill(found, new DOMParser().parseFromString(shown, "text/html").body.childNodes);
  };
  // What was found follows the page, but not under a dialog or an enlarged image.
  const searchAgain = () => {
    if (isStale && wanted && !dialog.open && !one("img.large")) showFound();
  };

  // The item that a button is about: its images, its short id and its words.
  const about = button => {
    const article = button.closest("article");
    const name = Object.assign(document.createElement("p"), { className: "about", textContent: button.dataset.item.slice(0, 12) });
    const parts = [...article.querySelectorAll(".pictures, .item-text")].map(part => part.cloneNode(true));
    return [name, ...parts];
  };
  const open = button => {
    const { title: name, what, text: label, persons, verdicts, instructs, optional } = button.dataset;
    pressed = button.dataset;
    title.textContent = name;
    one("#sure-what").textContent = what ?? "";
    one("#sure-text").hidden = !label;
    one("#sure-text span").textContent = label ?? "";
    text.value = problem.textContent = "";
    text.required = Boolean(label) && !optional;
    item.hidden = !button.dataset.item;
    item.replaceChildren(...(button.dataset.item ? about(button) : []));
    one("#sure-person").hidden = !persons;
    one("#sure-verdict").hidden = !verdicts;
    one("#sure-verdict select").replaceChildren(...(verdicts ?? "").split(" ").filter(Boolean).map(verdict => new Option(verdict, verdict)));
    one("#sure-instructs").hidden = !instructs;
    one("#sure-instructs input").checked = false;
    yes.disabled = false;
    yes.textContent = name.split(" ")[0];
    dialog.showModal();
    (label ? text : yes).focus();
  };
  const press = async () => {
    const { do: action, queue, item, person, persons, verdicts, text: label } = pressed;
    if (text.required && !text.value.trim()) {
      problem.textContent = label === "Reason" ? "A reason is needed." : "A text is needed.";
      return text.focus();
    }
    yes.disabled = true;
    const body = {
      action, queue, item, text: text.value,
      person: persons ? one("#sure-person select").value : person,
      verdict: verdicts ? one("#sure-verdict select").value : "",
      instructs: one("#sure-instructs input").checked,
    };
    say("Working …", false);
    const answer = await ask("/lead/press", {
      method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-CSRFToken": token },
    });
    dialog.close();
    say(answer.problem ?? answer.said, Boolean(answer.problem));
    isStale ||= Boolean(item);
    look();
  };

  document.addEventListener("click", event => {
    const button = event.target.closest("button[data-do]");
    if (button) open(button);
    if (event.target.matches(".pictures img")) event.target.classList.toggle("large");
  });
  document.addEventListener("keydown", event => {
    const image = one("img.large") ?? event.target;
    if (image.matches?.(".pictures img") && ["Enter", "Escape"].includes(event.key)) {
      image.classList.toggle("large", event.key === "Enter" && !image.classList.contains("large"));
    }
    if (event.key === "Enter" && event.target.closest?.(".search")) search();
  });
  yes.addEventListener("click", press);
  text.addEventListener("input", () => problem.textContent = "");
  dialog.addEventListener("close", searchAgain);
  one("#sure-no").addEventListener("click", () => dialog.close());
  one("#search").addEventListener("click", search);
  document.addEventListener("visibilitychange", look);
  setInterval(look, LOOK_MS);
  look();
})();
