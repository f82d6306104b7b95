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
// with this person, unless nobody has touched the page for an hour. If the connection is lost, or the
// server fails, Label Studio waits for ever or covers the page with words for developers, so it gets a
// refusal of the kind that it does not show so, and the line of the page says that nothing is saved.
(() => {
  const NEXT = /\/api\/dm\/actions\/?\?.*\bid=next_task\b/;
  const ANSWER = /\/api\/tasks\/(\d+)\/annotations\b(?!\/\d+)(?!.*drafts)/;
  const IMAGE = /https?:\/\/[^"\\\s<>/]+\/blobs\/(?:\d+-\d+-[0-9a-f]{64}\/)?[0-9a-f]{64}(\?others=[\d.,;]+)?/g;
  const JSON_TYPE = { "Content-Type": "application/json" };
  const PAUSE_MS = 300, FRESH_MS = 60000, BATCH_MS = 5000, IDLE_MS = 3600000;
  const send = window.fetch;
  const refusal = (status, detail) => new Response(JSON.stringify({ detail }), { status, headers: JSON_TYPE });
  const sendQuietly = async (address, options) => {
    const said = await send(address, options).catch(() => null);
    if (!said) return refusal(408, "no connection");
    return said.status >= 500 ? refusal(424, "the server failed") : said;
  };
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
    if (said.status !== 200) return null;
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

  // Why somebody gets no tasks of this queue, or of some queues: their notes, if they say so.
  const explain = async () => {
    const queue = /^\/projects\/(\d+)/.exec(location.pathname)?.[1];
    const said = await send(queue ? `/api/projects/${queue}/` : "/api/projects/?page_size=100").catch(() => null);
    const found = said?.ok ? await said.json() : {};
    const notes = (found.results ?? [found]).filter(one => /^(Suspended|Paused):/.test(one.description ?? ""))
      .map(one => queue ? one.description : `${one.title}. ${one.description}`);
    if (!notes.length || document.querySelector("#loupe-note")) return;
    const line = Object.assign(document.createElement("p"), { id: "loupe-note", textContent: notes.join("\n") });
    line.setAttribute("role", "alert");
    document.body.append(line);
  };
  window.loupeExplain = explain;

  const awaitBatch = async (url, options) => {
    if (window.Htx?.task && !window.Htx.noTask) return;
    explain();
    const said = document.hidden ? null : await send(url, options).catch(() => null);
    if (said?.status === 200) return location.reload();
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
      const headers = task && window.loupeByKey?.() ? { ...Object.fromEntries(new Headers(options.headers)), "Loupe-One-Key": "1" } : options.headers;
      const isOurs = /^(https?:\/\/[^/]+)?\/api\//.test(url);
      const said = await (isOurs ? sendQuietly : send)(place, { ...options, headers });
      if (task && said.ok) answered = Number(task);
      if (task && said.ok) window.loupeAnswered?.(options, await said.clone().json());
      return said;
    }
    clearTimeout(timer);
    const isCurrent = ahead?.after === answered && Date.now() - ahead.at < 2 * FRESH_MS;
    const kept = isCurrent ? await ahead.text : null;
    ahead = null;
    const said = kept
      ? new Response(kept, { headers: JSON_TYPE })
      : await sendQuietly(address, options);
    if (!kept) window.loupeProgress?.(said);
    if (said.status === 200) {
      timer = setTimeout(look, PAUSE_MS, url, options, (await said.clone().json()).id);
    } else if ([204, 408, 424].includes(said.status)) {  // none, in the desk's word; Label Studio's is 404
      timer = setTimeout(awaitBatch, PAUSE_MS, url, options);
      return new Response('{"detail": "There are no tasks."}', { status: 404, headers: JSON_TYPE });
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
  let done = 0, open = 0, undoing = 0, byKey = false, last = 0;

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
  window.loupeByKey = () => byKey;
  window.loupeAnswered = (options, stored) => {
    const isSkipped = /"was_cancelled":\s*true/.test(options.body ?? "");
    done += isSkipped ? 0 : 1;
    open = Math.max(0, open - 1);
    show();
    undo.hidden = !byKey;
    last = stored.id;
    byKey = false;
    clearTimeout(undoing);
    undoing = setTimeout(() => { undo.hidden = true; }, UNDO_MS);
  };

  // The answer becomes a draft of its task, which opens again and counts as open until it is submitted.
  const takeBack = async () => {
    undo.hidden = true;
    const said = await fetch(`/api/annotations/${last}/convert-to-draft`, { method: "POST" }).catch(() => null);
    if (!said?.ok) {
      count.textContent = said?.status === 409 ? "Too late to take it back: ask the lead" : "Not taken back: no connection";
      return;
    }
    done -= 1;
    open += 1;
    show();
    window.Htx?.prevTask?.();
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
    byKey = false;
    const task = window.Htx?.task?.id;
    setTimeout(() => {
      const decided = ticked().find(one => one.hotkey === event.key);
      if (window.Htx?.task?.id !== task || !isEnough(decided)) return;
      byKey = true;
      document.querySelector(SUBMIT)?.click();
    }, 60);
  }, true);
})();

// That an image could not be loaded, or a request failed, is said in plain words, not in those for
// developers. The image can be asked for again; drafts are kept.
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
  // What scrolls can be reached and scrolled with the keyboard.
  const SCROLLS = [".loupe-given-all", ".loupe-captions", ".loupe-warnings", ".loupe-texts ul"].map(one => `${one}:not([tabindex])`).join();
  let looking = 0;
  const lookForScrolling = () => {
    looking = 0;
    for (const part of document.querySelectorAll(SCROLLS)) if (part.scrollHeight > part.clientHeight) part.tabIndex = 0;
  };
  const MISSING = "The image could not be loaded.", SAID = [
    [/(?:Runtime|Server) error: /, ""],
    [/\b\w+ is not (?:saved|updated), please.+/, "Not saved: submit again"],
    [/^\s*contact our team\s*$/, ""],
    [/^\s*if it doesn't help\.\s*$/, ""],
  ];
  new MutationObserver(() => {
    for (const fault of document.querySelectorAll("[data-testid^='error:']:not(:has(.loupe-unloaded))")) say(fault, MISSING);
    const editor = document.querySelector(".lsf-editor:not([role])");
    editor?.setAttribute("role", "main");
    editor?.setAttribute("aria-label", "Task");
    looking ||= requestAnimationFrame(lookForScrolling);
    for (const line of document.querySelectorAll("[class*='toast__content'], [class*='toast__content'] *, [role=status], [role=status] *")) {
      for (const text of line.childNodes) {
        for (const [words, ours] of SAID) if (words.test(text.data)) text.data = text.data.replace(words, ours);
      }
    }
  }).observe(document, { childList: true, subtree: true });
  document.addEventListener("error", event => {
    const image = event.target;
    if (image.tagName !== "IMG" || !image.closest(".loupe")) return;
    const place = document.createElement("span");
    image.replaceWith(place);
    say(place, MISSING);
  }, true);
})();

// Images in texts open large, with the mouse or with Enter: the wheel or + and - zoom, dragging or the
// arrows move. Label Studio does the same for the images of its own tags. Images that are choices open
// with Shift and the mouse, or with Enter, as a click and the space bar choose them.
(() => {
  const IMAGE = ".loupe img[src*='/blobs/']", STEP = 1.25, FAR = 60;
  const dialog = document.createElement("dialog"), image = new Image(), close = document.createElement("button");
  let scale = 1, left = 0, top = 0;
  dialog.id = "loupe-zoom";
  dialog.setAttribute("aria-label", "Image, enlarged");
  close.type = "button";
  close.textContent = "Close (Escape)";
  dialog.append(image, close);
  const draw = () => { image.style.transform = `translate(${left}px, ${top}px) scale(${scale})`; };
  const zoom = (by, x = innerWidth / 2, y = innerHeight / 2) => {
    const to = Math.min(16, Math.max(1, scale * by)), ratio = to / scale;
    const fromLeft = x - innerWidth / 2, fromTop = y - innerHeight / 2;
    left = to === 1 ? 0 : fromLeft - (fromLeft - left) * ratio;
    top = to === 1 ? 0 : fromTop - (fromTop - top) * ratio;
    scale = to;
    draw();
  };
  const move = (x, y) => { left += x; top += y; draw(); };
  const open = shown => {
    [scale, left, top] = [1, 0, 0];
    image.src = shown.src;
    image.alt = shown.alt;
    draw();
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
    close.focus();
  };
  // A button that is no longer shown keeps the focus until the next frame is drawn, and would get the
  // keys that are meant for the task.
  const shut = () => {
    close.blur();
    dialog.close();
  };
  const KEYS = {
    Escape: shut,
    "+": () => zoom(STEP), "=": () => zoom(STEP), "-": () => zoom(1 / STEP), "0": () => zoom(0),
    ArrowLeft: () => move(FAR, 0), ArrowRight: () => move(-FAR, 0), ArrowUp: () => move(0, FAR), ArrowDown: () => move(0, -FAR),
  };
  addEventListener("keydown", event => {
    if (!dialog.open) return;
    event.stopPropagation();
    if (!KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  }, true);
  dialog.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? STEP : 1 / STEP, event.clientX, event.clientY);
  }, { passive: false });
  dialog.addEventListener("pointermove", event => { if (event.buttons === 1) move(event.movementX, event.movementY); });
  image.addEventListener("dragstart", event => event.preventDefault());
  close.addEventListener("click", shut);
  const isOffered = element => element.matches?.(IMAGE) && !element.closest("label, button, a");
  const opens = (event, shown) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    open(shown);
  };
  document.addEventListener("click", event => {
    if (isOffered(event.target)) open(event.target);
    else if (event.shiftKey && event.target.matches?.(IMAGE)) opens(event, event.target);
  }, true);
  document.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    const shown = isOffered(event.target) ? event.target : event.target.matches?.(".loupe label input") && event.target.closest("label").querySelector(IMAGE);
    if (shown) opens(event, shown);
  }, true);
  new MutationObserver(() => {
    for (const found of document.querySelectorAll(`${IMAGE}:not([tabindex])`)) {
      if (!isOffered(found)) continue;
      found.tabIndex = 0;
      found.title ||= "Enlarge";
    }
  }).observe(document, { childList: true, subtree: true });
})();

// Label Studio fits an image to its place and keeps that zoom if the place changes, as when a phone is
// turned or a scroll bar appears, which crops small images. They are fitted again, unless somebody has
// zoomed.
(() => {
  const PLACE = ".loupe .lsf-object [class^='container']", fitted = new WeakMap();
  const tagOf = place => [...(window.Htx?.annotationStore?.selected?.names?.values() ?? [])]
    .find(tag => tag.type === "image" && tag.containerRef === place);
  const fitting = tag => Math.max(1, tag.maxScale);
  const places = new ResizeObserver(changes => {
    for (const { target } of changes) {
      const tag = tagOf(target);
      if (!tag || ![fitted.get(tag), fitting(tag)].includes(tag.currentZoom)) continue;
      tag.onResize(target.offsetWidth, target.offsetHeight, true);
      if (tag.currentZoom !== fitting(tag)) tag.sizeToFit();
      fitted.set(tag, tag.currentZoom);
    }
  });
  document.addEventListener("load", event => {
    const place = event.target.closest?.(PLACE);
    if (place) setTimeout(() => {  // when Label Studio has fitted it
      const tag = tagOf(place);
      if (tag) fitted.set(tag, tag.currentZoom);
      places.observe(place);
    });
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
  document.addEventListener("DOMContentLoaded", window.loupeExplain);
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
