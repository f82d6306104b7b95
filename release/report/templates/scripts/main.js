// The address says what is shown: #/rows?split=test, #/row/12, #/numbers.

const VIEWS = ["rows", "row", "numbers", "difference", "about"];
const TYPING_MS = 180;
const MOST_CHARACTERS = 20; // of an address that is shown again
const shown = { view: null, row: null, state: null, chosen: null, key: null };
let focusAfter = null;
let route = 0; // counts changes of the address, so that late answers are dropped

function tellFault(error) {
  const fault = byId("fault");
  fault.textContent = `Something is missing: ${error.message}. The folder of this report may not be complete.`;
  fault.hidden = false;
}

/** Says that there is no such row, until the address changes again. */
function tellMissingRow(number) {
  const missing = byId("missing");
  const rows = report.rows === 1 ? "1 row" : `${count(report.rows)} rows`;
  missing.textContent = number === null ? "" : `There is no row ${number}: the release has ${rows}.`;
  missing.hidden = number === null;
}

function wantedView() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, number] = path.split("/");
  const parameters = new URLSearchParams(query || "");
  if (view === "row") {
    const row = Number(number) - 1;
    if (Number.isInteger(row) && row >= 0 && row < report.rows) return { view, row, parameters, missing: null };
  }
  const section = VIEWS.includes(view) && view !== "row" && byId(view);
  const missing = view === "row" && number ? number.slice(0, MOST_CHARACTERS) : null;
  return { view: section ? view : "rows", row: null, parameters, missing };
}

async function choiceFor(state) {
  const key = parametersOf({ ...state, page: 1 }).toString();
  if (shown.key === key) return shown.chosen;
  const found = await search(state.query);
  const chosen = choose(state, found);
  Object.assign(shown, { key, chosen });
  return chosen;
}

async function follow() {
  const isPlace = location.hash && !location.hash.startsWith("#/"); // of the page that is shown
  if (isPlace && shown.view !== null) return;
  const turn = (route += 1);
  const { view, row, parameters, missing } = wantedView();
  tellMissingRow(missing);
  const before = shown.view;
  const rowBefore = shown.row;
  if (view !== "rows" && view !== "row") {
    Object.assign(shown, { view, row: null });
    reveal(view, before);
    return;
  }
  const state = stateOf(parameters);
  byId("rows").setAttribute("aria-busy", "true");
  const chosen = await choiceFor(state);
  if (turn !== route) return;
  byId("rows").removeAttribute("aria-busy");
  Object.assign(shown, { view, row, state });
  for (const link of document.querySelectorAll("a[data-view=rows]")) link.href = addressOf("rows", state);
  if (view === "row") {
    await showRow(row, state, chosen);
    if (turn !== route) return;
    reveal(view, before);
    if (before !== null) byId("row-title").focus();
    return;
  }
  showState(state);
  showCounts(chosen.counts);
  showGallery(state, chosen);
  reveal(view, before);
  settleFocus(rowBefore);
}

function reveal(view, before) {
  for (const name of VIEWS) if (byId(name)) byId(name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav.views a")) {
    const isCurrent = link.dataset.view === view || (view === "row" && link.dataset.view === "rows");
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.classList.toggle("inside", view !== "rows");
  if (view !== "row") document.title = report.name;
  if (before !== null && (before !== view || view === "row")) window.scrollTo(0, 0);
}

/** After a row was looked at, the focus is on its tile again; after a page was turned, on the first. */
function settleFocus(rowBefore) {
  const tiles = byId("tiles");
  const wanted = focusAfter === "tiles" ? tiles.querySelector("a") : rowBefore !== null && tiles.querySelector(`a[data-row="${rowBefore}"]`);
  focusAfter = null;
  if (wanted) moveTo(wanted);
}

// Keys.

function isTyping(target) {
  return target.matches("input:not([type=checkbox]), select, textarea");
}

function pressLink(key) {
  const link = byId("row").querySelector(`a[data-key=${key}]`);
  if (!link) return false;
  location.hash = link.getAttribute("href");
  return true;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const { key, target } = event;
  if (isTyping(target)) {
    if (key === "Escape") target.blur();
    if (key === "Enter" && target.id === "search") changed();
    return;
  }
  let done = false;
  if (key === "/") {
    if (shown.view !== "rows") location.hash = addressOf("rows", shown.state || nothingChosen());
    const open = () => byId("search").focus();
    setTimeout(open, shown.view === "rows" ? 0 : 150);
    done = true;
  } else if (key === "?") {
    byId("keys").showModal();
    done = true;
  } else if (shown.view === "row") {
    const inDrawing = target.closest(".drawing");
    if (key === "Escape") done = pressLink("back");
    else if (key === "j" || (key === "ArrowRight" && !inDrawing)) done = pressLink("next");
    else if (key === "k" || (key === "ArrowLeft" && !inDrawing)) done = pressLink("previous");
  } else if (shown.view === "rows") {
    if (key === "n" || key === "p") done = turnPage(key === "n" ? 1 : -1);
    else if (target.matches("input[type=checkbox]") && key.startsWith("Arrow")) done = false;
    else if (["j", "k", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End"].includes(key)) done = moveInGallery(key);
  } else if (key === "Escape") {
    location.hash = addressOf("rows", shown.state || nothingChosen());
    done = true;
  }
  if (done) event.preventDefault();
}

function changed() {
  location.hash = addressOf("rows", formState());
}

let typing;

function typed() {
  clearTimeout(typing);
  typing = setTimeout(() => {
    history.replaceState(null, "", addressOf("rows", formState()));
    follow().catch(tellFault);
  }, TYPING_MS);
}

async function start() {
  document.documentElement.classList.add("js");
  openColumns(await load("index"));
  buildFilters(changed);
  byId("search").addEventListener("input", typed);
  byId("clear").addEventListener("click", () => {
    location.hash = addressOf("rows", nothingChosen());
    byId("search").focus();
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("help").addEventListener("click", () => byId("keys").showModal());
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    const heading = byId(shown.view === "row" ? "row-title" : "main");
    heading.focus();
  });
  document.addEventListener("keydown", onKey);
  if (window.matchMedia("(max-width: 760px)").matches) byId("filter-box").open = false;
  window.addEventListener("hashchange", () => follow().catch(tellFault));
  await follow();
  document.documentElement.dataset.ready = "true";
}

start().catch(tellFault);
