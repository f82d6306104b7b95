// Links to a project open its next task instead of the table of its tasks.
document.addEventListener("click", event => {
  const link = event.target.closest?.("a[href]");
  const found = link && /^\/projects\/(\d+)(\/data)?\/?$/.exec(link.getAttribute("href"));
  if (!found || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  location.assign(`/projects/${found[1]}/data?labeling=1`);
}, true);

// While somebody works on a task, the next one and its images are fetched, and again every minute.
// Label Studio asks for the next task once the answer is stored, and gets the fetched one if it is
// the one after the task that was answered. Without a next task, the page asks again until there is
// one, because tasks come in batches, or opens the next queue with tasks. What is loaded ahead stays
// with this person, unless nobody has touched the page for an hour. If the connection is lost while an answer or a draft is sent,
// Label Studio waits for ever, so it gets a refusal instead, and says that nothing is saved.
(() => {
  const NEXT = /\/api\/dm\/actions\/?\?.*\bid=next_task\b/;
  const ANSWER = /\/api\/tasks\/(\d+)\/annotations\b(?!\/\d+)(?!.*drafts)/;
  const CHANGED = /\/api\/annotations\/\d+\/?(\?|$)/;
  const DRAFT = /\/api\/(drafts\/\d+|tasks\/\d+(\/annotations\/\d+)?\/drafts)\b/;
  const IMAGE = /https?:\/\/[^"\\\s<>/]+\/blobs\/(?:\d+-\d+-[0-9a-f]{64}\/)?[0-9a-f]{64}(\?others=[\d.,;]+)?/g;
  const JSON_TYPE = { "Content-Type": "application/json" };
  const PAUSE_MS = 300, FRESH_MS = 60000, BATCH_MS = 5000, IDLE_MS = 3600000;
  const send = window.fetch;
  let ahead = null, answered = null, images = [], timer = 0, active = Date.now();
  for (const kind of ["keydown", "pointermove"]) {
    document.addEventListener(kind, () => { active = Date.now(); }, true);
  }

  // Label Studio reads the images of its own tags with requests; those in HTML are elements. Texts
  // may name any address: only those of this host, or of its images, are asked.
  const loadImages = data => {
    images = [];
    for (const value of Object.values(data)) {
      for (const [address] of JSON.stringify(value).matchAll(IMAGE)) {
        if (![location.hostname, `images.${location.hostname}`].includes(new URL(address).hostname)) continue;
        if (value === address) send(address).catch(() => {});
        else images.push(Object.assign(new Image(), { src: address }));
      }
    }
  };
  const lookAhead = async (url, options, current) => {
    const body = JSON.parse(options.body ?? "{}"), chosen = body.selectedItems;
    if (chosen && (chosen.all || chosen.included?.length)) return null;
    body.selectedItems = { all: true, excluded: [current] };
    const said = await send(url, { ...options, body: JSON.stringify(body) });
    window.loupeProgress?.(said);
    if (!said.ok) return null;
    const text = await said.text();
    loadImages(JSON.parse(text).data);
    return text;
  };

  const look = (url, options, current) => {
    timer = setTimeout(look, FRESH_MS, url, options, current);
    if (Date.now() - active > IDLE_MS) return;
    const text = lookAhead(url, options, current).catch(() => null);
    ahead = { after: current, at: Date.now(), text };
  };

  // Why somebody gets no tasks of this queue: the note of the queue, if it says so.
  const explain = async () => {
    const found = await send(`/api/projects/${location.pathname.split("/")[2]}/`).catch(() => null);
    const note = found?.ok ? (await found.json()).description ?? "" : "";
    if (!note.startsWith("Suspended:") || document.querySelector("#loupe-note")) return;
    const line = Object.assign(document.createElement("p"), { id: "loupe-note", textContent: note });
    line.setAttribute("role", "alert");
    document.body.append(line);
  };

  const awaitBatch = async (url, options) => {
    if (!window.Htx?.noTask) return;
    explain();
    const said = document.hidden ? null : await send(url, options).catch(() => null);
    if (said?.ok) return location.reload();
    const found = said && await window.loupeNextQueue();
    if (found) return location.assign(found);
    // The table that this page belongs to is gone, with the last of its tasks.
    if (said?.status === 403) return location.assign(location.pathname + "?labeling=1");
    timer = setTimeout(awaitBatch, BATCH_MS, url, options);
  };

  // The address of a queue with tasks for this person, or null.
  window.loupeNextQueue = async () => {
    const said = await send("/?next").catch(() => null), here = location.pathname.split("/")[2];
    const found = /\/projects\/(\d+)\/data\b/.exec(said?.url ?? "");
    return found && found[1] !== here ? said.url : null;
  };

  // Somebody who comes back after a while may find that others have the task now.
  const LOST = "Somebody else has your last task now, as nobody worked on it for an hour";
  document.addEventListener("visibilitychange", async () => {
    const task = window.Htx?.task?.id;
    if (document.hidden || !task) return;
    const said = await send(`/api/tasks/${task}/`).catch(() => null);
    if (said?.status !== 410 || window.Htx?.task?.id !== task) return;
    sessionStorage.loupeNotice = LOST;
    location.reload();
  });

  window.fetch = async (address, options = {}) => {
    const url = String(address?.url ?? address), posts = options.method === "POST";
    if (!posts || !NEXT.test(url)) {
      const task = posts && ANSWER.exec(url)?.[1];
      // Without the slash, Label Studio handles the request twice.
      const place = task ? url.replace(/\/annotations(?=\?|$)/, "/annotations/") : address;
      const said = await send(place, options).catch(fault => {
        if (!task && !DRAFT.test(url)) throw fault;
        return new Response('{"detail": "no connection"}', { status: 503, headers: JSON_TYPE });
      });
      if (task && said.ok) answered = Number(task);
      if (task && said.ok) window.loupeAnswered?.(options);
      if (options.method === "PATCH" && CHANGED.test(url) && said.ok) window.loupeChanged?.();
      return said;
    }
    clearTimeout(timer);
    const isCurrent = ahead?.after === answered && Date.now() - ahead.at < 2 * FRESH_MS;
    const kept = isCurrent ? await ahead.text : null;
    ahead = null;
    const said = kept
      ? new Response(kept, { headers: JSON_TYPE })
      : await send(address, options);
    if (!kept) window.loupeProgress?.(said);
    if (said.ok) {
      timer = setTimeout(look, PAUSE_MS, url, options, (await said.clone().json()).id);
    } else if (said.status === 404) {
      timer = setTimeout(awaitBatch, PAUSE_MS, url, options);
    }
    return said;
  };
})();

// How much is done today, and decisions by one key: if this is on, the key that decides also submits
// where nothing else is needed, and for five seconds the answer can be taken back.
(() => {
  const UNDO_MS = 5000, SUBMIT = "[data-testid=bottombar-submit-button]", SETTING = "loupeOneKey";
  const bar = document.createElement("div"), count = document.createElement("span");
  const toggle = document.createElement("button"), undo = document.createElement("button");
  let done = 0, open = 0, undoing = 0, byKey = false, isBack = false;

  bar.id = "loupe-progress";
  count.setAttribute("role", "status");
  toggle.type = undo.type = "button";
  toggle.title = "Submit with the key that decides, where nothing else is needed; Backspace takes it back";
  undo.hidden = true;
  undo.textContent = "Take back (Backspace)";
  bar.append(count, toggle, undo);
  const isOn = () => localStorage[SETTING] === "on";
  const show = () => {
    count.textContent = `${done} of ${done + open} today`;
    toggle.textContent = isOn() ? "One key: on" : "One key: off";
    toggle.setAttribute("aria-pressed", String(isOn()));
  };
  toggle.addEventListener("click", () => {
    localStorage[SETTING] = isOn() ? "off" : "on";
    show();
    toggle.blur();
  });
  window.loupeProgress = said => {
    if (!said.headers.has("Loupe-Open")) return;
    [done, open] = ["Loupe-Done-Today", "Loupe-Open"].map(name => Number(said.headers.get(name)));
    show();
    if (!bar.isConnected) document.body.append(bar);
  };
  window.loupeAnswered = options => {
    const isSkipped = /"was_cancelled":\s*true/.test(options.body ?? "");
    done += isSkipped ? 0 : 1;
    open = Math.max(0, open - 1);
    show();
    undo.hidden = !byKey;
    byKey = false;
    clearTimeout(undoing);
    undoing = setTimeout(() => { undo.hidden = true; }, UNDO_MS);
  };

  // The task before opens with its answer; once it is changed, the present one comes again.
  const takeBack = () => {
    undo.hidden = isBack = true;
    window.Htx?.prevTask?.();
  };
  window.loupeChanged = () => {
    if (isBack) setTimeout(() => window.Htx?.nextTask?.(), 300);
    isBack = false;
  };
  undo.addEventListener("click", takeBack);

  const answer = () => window.Htx?.annotationStore?.selected;
  const radios = () => [...(answer()?.names?.values() ?? [])].filter(tag => tag.type === "choices" && tag.choice === "single-radio");
  const ticked = () => radios().map(tag => tag.tiedChildren?.find(one => one.sel)).filter(Boolean);
  const isWritten = () => [...(answer()?.names?.values() ?? [])].some(tag => tag.type === "textarea" && tag.name.startsWith("note") && tag._value);
  // What an edit, a split, a rejection or "other" needs is not known here.
  const MORE = ["edit", "split", "reject", "other", "own"];
  const isEnough = last => {
    const name = last?.alias ?? last?._value;
    const pages = [...(answer()?.names?.values() ?? [])].map(tag => tag.name.split("@")[0]);
    if (!name || MORE.includes(name) || pages.includes("also") || pages.includes("take")) return false;
    return !answer().annotationId && !window.loupeMissing?.() && !isWritten();
  };
  document.addEventListener("keydown", event => {
    const isTyping = event.target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === "Backspace" && !undo.hidden) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return takeBack();
    }
    if (!isOn() || document.querySelector(".lsf-modal-ls__content")) return;
    const before = new Set(ticked()), task = window.Htx?.task?.id;
    setTimeout(() => {
      const last = ticked().find(one => !before.has(one) && one.hotkey === event.key);
      if (window.Htx?.task?.id !== task || !isEnough(last)) return;
      byKey = true;
      document.querySelector(SUBMIT)?.click();
    }, 60);
  }, true);
})();

// That an image could not be loaded is said in plain words, not in those for developers, and it can be
// asked for again; drafts are kept.
(() => {
  const say = (place, text) => {
    const line = document.createElement("p"), again = document.createElement("button");
    line.className = "loupe-unloaded";
    line.setAttribute("role", "alert");
    again.type = "button";
    again.textContent = "Try again";
    again.addEventListener("click", () => location.reload());
    line.append(text, " ", again);
    place.replaceChildren(line);
  };
  const MISSING = "The image could not be loaded.";
  new MutationObserver(() => {
    for (const fault of document.querySelectorAll("[data-testid^='error:']:not(:has(.loupe-unloaded))")) say(fault, MISSING);
    const editor = document.querySelector(".lsf-editor:not([role])");
    editor?.setAttribute("role", "main");
    editor?.setAttribute("aria-label", "Task");
  }).observe(document, { childList: true, subtree: true });
  document.addEventListener("error", event => {
    const image = event.target;
    if (image.tagName !== "IMG" || !image.closest(".loupe")) return;
    const place = document.createElement("span");
    image.replaceWith(place);
    say(place, MISSING);
  }, true);
})();

// Somebody without any task sees so, and the first task opens by itself.
(() => {
  const LOOK_MS = 5000, SAID = "loupe-waiting";
  const look = async () => {
    if (!document.hidden) {
      const found = await window.loupeNextQueue();
      if (found) return location.assign(found);
    }
    setTimeout(look, LOOK_MS);
  };
  const isWithoutTasks = /^\/projects\/?$/.test(location.pathname) && !location.search.includes("queues");
  if (!isWithoutTasks) return;
  document.documentElement.classList.add(SAID);
  setTimeout(look, LOOK_MS);
})();

// Label Studio replaces the page by a spinner while it stores an answer, while it asks for the next
// task and while it opens that task, and draws the old task again in between, which takes as long
// as to draw the new one. The spinner stays until there is a new task, or nothing else to wait for.
(() => {
  const PAUSE_MS = 30;
  let page = null, before, timer = 0;
  const wrap = store => {
    const setFlags = store?.setFlags;
    if (!setFlags) return store;
    const value = flags => {
      if (typeof flags?.isLoading !== "boolean") return setFlags(flags);
      clearTimeout(timer);
      if (flags.isLoading && !store.isLoading) before = store.task?.id;
      if (flags.isLoading || store.task?.id !== before) return setFlags(flags);
      timer = setTimeout(setFlags, PAUSE_MS, flags);
    };
    Object.defineProperty(store, "setFlags", { configurable: true, value });
    return store;
  };
  Object.defineProperty(window, "Htx", { get: () => page, set: store => { page = wrap(store); } });
})();

// Label Studio copies all its flags thousands of times a task. Those that are on may be left out,
// because that is the default.
document.addEventListener("DOMContentLoaded", () => {
  const { feature_flags: flags, feature_flags_default_value: isOn } = window.APP_SETTINGS ?? {};
  for (const name of Object.keys(flags ?? {})) if (isOn && flags[name] === true) delete flags[name];
});
