// Added once to Label Studio's page, where it serves all text fields of the open task.
//
// Label Studio stores typed text separately until the answer is submitted, so its drafts lack it.
// This script adds the text to each draft that is sent to the server, sends a draft soon after a
// change, and puts the text of a reopened draft or answer back into its field. Before an answer is
// submitted, it says what makes the answer unusable.
(() => {
  if (window.loupeTextFields) return;
  window.loupeTextFields = true;
  const PAUSE_MS = 800, LONGEST_MS = 3000, LOOK_MS = 150, REFUSED_MS = 500;
  const DRAFT = /\/api\/(drafts\/\d+|tasks\/\d+(\/annotations\/\d+)?\/drafts)\b/;
  const ANSWER = /\/api\/(tasks\/\d+\/annotations|annotations\/\d+)\/?(\?|$)/;
  const SUBMIT = "[data-testid=bottombar-submit-button], [data-testid=bottombar-update-button]";

  const answer = () => window.Htx?.annotationStore?.selected;
  const withoutId = name => name.split("@")[0];
  const controls = of => [...(of?.names?.values() ?? [])].filter(tag => tag.type === "textarea");
  const isField = element => Boolean(element?.closest?.(".loupe textarea, .loupe input[type=text], .loupe input:not([type])"));
  const mainField = () => document.querySelector(".loupe-write textarea");

  // The typed text, as regions of an answer.
  const typed = of => controls(of).filter(tag => tag._value && tag.showSubmit).map(tag => ({
    id: "typed-" + withoutId(tag.name), from_name: withoutId(tag.name), to_name: withoutId(tag.toname),
    type: "textarea", origin: "manual", value: { text: [tag._value] },
  }));

  // What is missing in an answer, as its reader would say later; "" if nothing is. An edit without a
  // change counts as an acceptance, so it is said once, and the next submission goes through.
  const chosen = (of, name) => [...(of?.names?.values() ?? [])]
    .filter(tag => tag.type === "choices" && withoutId(tag.name) === name)
    .flatMap(tag => (tag.tiedChildren ?? []).filter(one => one.sel).map(one => one.alias ?? one._value));
  const offered = (of, name) => [...(of?.names?.values() ?? [])]
    .filter(tag => tag.type === "choices" && withoutId(tag.name) === name)
    .reduce((count, tag) => count + (tag.tiedChildren?.length ?? 0), 0);
  const textOf = tag => tag._value || tag.regions.map(region => region._value).join(" ");
  const inOneLine = text => (text ?? "").replace(/\s+/g, " ").trim();
  const countWords = text => text.split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word)).length;
  let unchanged = null;
  const isAgain = of => {
    const is = unchanged === of;
    unchanged = of;
    return is;
  };
  const missing = of => {
    const verdict = chosen(of, "verdict")[0], data = window.Htx?.task?.dataObj;
    if (chosen(of, "take").some(one => one !== "own")) return "";
    const isOpen = !verdict && !chosen(of, "pick").length && (offered(of, "verdict") || offered(of, "pick"));
    if (isOpen && offered(of, "take")) return "Nothing is decided: take one of the answers, or give your own";
    if (!verdict) return "";
    if (verdict === "reject") {
      if (offered(of, "problems") && !chosen(of, "problems").length) return "Tick what is wrong, then submit";
      if (offered(of, "reason") && !chosen(of, "reason").length) return "Choose why, then submit";
      return "";
    }
    const all = offered(of, "dropped");
    if (verdict === "keep" && all && chosen(of, "dropped").length === all) return "Every frame is dropped: keep one, or choose Drop";
    if (verdict === "split" && !chosen(of, "cuts").length) return "Tick the frame at which another person starts";
    const value = chosen(of, "changed")[0];
    if (verdict === "edit" && offered(of, "changed") && (!value || value === data?.changed) && !isAgain(of))
      return "Nothing is changed: choose another value, or submit again to accept it as it is";
    const tag = controls(of).find(one => ["text", "changed"].includes(withoutId(one.name)));
    if (!tag) return "";
    const shown = inOneLine(data?.text ?? data?.changed);
    const text = inOneLine(textOf(tag)), least = Number(/loupe-least-(\d+)/.exec(document.querySelector("[class*=loupe-least-]")?.className ?? "")?.[1] ?? 1);
    if (!text && (shown || withoutId(tag.name) === "text")) return "The text is empty: write it, or choose " + (least > 1 ? "Cannot be described" : "Reject");
    const words = countWords(text);
    if (words < least) return "Too short: at least " + least + " words are needed, and there are " + words;
    if (verdict !== "edit" || text !== shown || isAgain(of)) return "";
    return "Nothing is changed: edit the text, or submit again to accept it as it is";
  };
  window.loupeMissing = () => missing(answer());
  const content = of => JSON.stringify([...(of?.names?.values() ?? [])].map(tag =>
    tag.type === "choices" ? (tag.tiedChildren ?? []).map(one => one.sel) : tag.type === "textarea" ? textOf(tag) : 0));
  let objection = "", objected = "";
  const objects = () => {
    objection = missing(answer());
    objected = content(answer());
    if (objection) say(state);
    return Boolean(objection);
  };

  const say = text => {
    // What is missing is said until something is changed.
    if (objection && objected !== content(answer())) objection = "";
    const said = objection || text;
    for (const frame of document.querySelectorAll("iframe.loupe-saved, iframe.loupe-counter")) {
      const line = frame.contentDocument?.getElementById("saved");
      if (!line) continue;
      frame.contentDocument.documentElement.dataset.colorScheme = document.documentElement.dataset.colorScheme ?? "";
      if (line.textContent !== said) line.textContent = said;
      line.classList.toggle("missing", Boolean(objection));
      if (objection && frame.getBoundingClientRect().bottom > innerHeight) frame.scrollIntoView({ block: "center" });
    }
  };

  // The answer that is not saved, since when, and when it last changed; the answer whose submission
  // failed.
  let unsaved = null, since = 0, changed = 0, state = "", failed = null;

  const saved = () => "Draft saved at " + new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const isClosed = status => status === 403 || status === 409 || status === 410;
  const problem = status => {
    if (status === 401) return "Not saved: log in again in another tab";
    if (status === 410) return "Not saved: somebody else has this task now; reload the page for another";
    if (isClosed(status)) return "Not saved: answered in another tab, or taken back; reload the page";
    if (status === 400) return "Not saved: the server refused the text";
    if (status === 408) return "Not saved: no connection; trying again …";
    return "Not saved: the server failed; trying again …";
  };
  const noConnection = () => new Response('{"detail": "no connection"}',
    { status: 408, headers: { "Content-Type": "application/json" } });

  const send = window.fetch;
  window.fetch = async (address, options = {}) => {
    const url = String(address?.url ?? address);
    const isSent = ["POST", "PATCH"].includes(options.method) && typeof options.body === "string";
    if (isSent && ANSWER.test(url)) {
      const of = answer(), said = await send(address, options).catch(noConnection);
      if (!said.ok) {  // what was typed is still here, and is saved as a draft
        failed = of;
        unsaved = isClosed(said.status) ? null : of;
        since = changed = Date.now();
        state = problem(said.status);
      }
      return said;
    }
    if (!isSent || !DRAFT.test(url)) return send(address, options);
    const body = JSON.parse(options.body), sent = changed;
    body.result = [...(body.result ?? []), ...typed(answer())];
    state = "Saving …";
    // If the connection is lost, Label Studio would wait for ever, and no longer submit.
    const said = await send(address, { ...options, body: JSON.stringify(body) }).catch(noConnection);
    const isAll = sent === changed;  // nothing was typed meanwhile
    if (isClosed(said.status)) unsaved = null;
    else if (!said.ok) unsaved = answer();
    else if (isAll) unsaved = null;
    state = !said.ok ? problem(said.status) : isAll ? saved() : "Saving …";
    return said;
  };

  const save = () => {
    const now = Date.now(), of = answer();
    if (unsaved !== of) unsaved = null;
    if (!unsaved || of.submissionStarted) return;
    since = changed = now;
    return of.saveDraft().catch(() => {});
  };

  // Move text that Label Studio shows as part of the answer back into its field.
  const reopen = of => {
    let moved = false;
    for (const tag of controls(of)) {
      if (!tag.regions.length) continue;
      const text = tag.regions.map(region => region._value).join(" ");
      for (const region of [...tag.regions]) tag.remove(region);
      tag.setValue(text);
      moved = true;
    }
    if (moved) of.autosave?.cancel?.();
  };

  // An answer that was refused because something is missing, or could not be sent, stays open, but
  // Label Studio saves no more drafts of it, and has no action that ends a submission: only one that
  // sets its time.
  const endSubmission = of => {
    const clock = Date.now;
    Date.now = () => 0;
    of.submissionInProgress();
    Date.now = clock;
  };

  // Another value than the one shown is a change.
  let valued = "";
  const chooseChange = of => {
    const value = chosen(of, "changed")[0] ?? "";
    if (value === valued) return;
    valued = value;
    if (!value || value === window.Htx?.task?.dataObj?.changed || chosen(of, "verdict").length) return;
    const verdict = [...of.names.values()].find(tag => withoutId(tag.name) === "verdict");
    verdict?.tiedChildren?.find(one => one.alias === "edit")?.toggleSelected();
  };

  // The open answer, and the time of the submission that Label Studio accepted.
  let open = null, accepted = 0;
  setInterval(() => {
    const of = answer();
    if (!of || of.isReadOnly()) return;
    if (of !== open) {
      open = of;
      accepted = 0;
      valued = chosen(of, "changed")[0] ?? "";
      unsaved = failed = unchanged = null;
      objection = "";
      state = sessionStorage.loupeNotice ?? (of.draftId ? "Draft saved" : "");
      sessionStorage.removeItem("loupeNotice");
    }
    const now = Date.now();
    if (window.Htx.isSubmitting) accepted = of.submissionStarted;
    else if (failed === of) failed = null, accepted = 0;
    if (of.submissionStarted && of.submissionStarted !== accepted && now - of.submissionStarted > REFUSED_MS) endSubmission(of);
    if (!of.submissionStarted) reopen(of), chooseChange(of);
    if (unsaved && !of.isDraftSaving && (now - changed > PAUSE_MS || now - since > LONGEST_MS)) save();
    say(state);
  }, LOOK_MS);

  document.addEventListener("input", event => {
    if (!isField(event.target)) return;
    changed = Date.now();
    if (!unsaved) since = changed;
    unsaved = answer();
    say(state = "Saving …");
  }, true);
  document.addEventListener("focusout", event => { if (isField(event.target) && unsaved) save(); }, true);
  addEventListener("pagehide", () => { if (unsaved) save(); });

  // Label Studio's own keys do nothing while the cursor is in a text.
  const submit = async () => {
    if (objects()) return;
    document.activeElement.blur();
    while (answer()?.isDraftSaving) await new Promise(later => setTimeout(later, 20));
    document.querySelector(SUBMIT)?.click();
  };
  // Ignore the key of a radio choice that is already ticked: it would untick it.
  const isTicked = key => [...(answer()?.names?.values() ?? [])].some(tag => tag.type === "choices"
    && tag.choice === "single-radio" && tag.tiedChildren?.some(one => one.sel && one.hotkey === key));

  document.addEventListener("click", event => {
    if (!event.target.closest?.(SUBMIT) || !objects()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  document.addEventListener("keydown", event => {
    if (event.target.closest?.("#loupe-panel")) return;
    const held = event.ctrlKey || event.metaKey, plain = !held && !event.shiftKey && !event.altKey;
    if (plain && !isField(event.target) && isTicked(event.key)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
    if (event.key === "Enter" && plain && event.target === document.body && mainField()) {
      event.preventDefault();
      mainField().focus();
    }
    if (event.key === "Escape" && isField(event.target)) event.target.blur();
    if (event.key === "Enter" && held && !isField(event.target) && objects()) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
    if (event.key === "Enter" && held && isField(event.target)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      submit();
    }
  }, true);
})();
