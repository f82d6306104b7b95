// The gallery: filters beside pages of thumbnails.

const PAGE_ROWS = 60;
const SHOWN_VALUES = 8;

function buildFilters(change) {
  const form = byId("filters");
  const groups = [...columns.facets, columns.origins].map((facet) => filterGroup(facet, change));
  form.append(...groups.filter(Boolean), wordsGroup(change));
}

function filterGroup(facet, change) {
  const present = facet.values
    .map((value, code) => ({ value, code }))
    .filter(({ value, code }) => (facet === columns.origins ? hasOrigin(code) : value !== ""));
  if (facet === columns.origins && present.length < 2) return null;
  const lines = present.map(({ value, code }, place) => {
    const id = `${facet.name}-${code}`;
    const box = h("input", { type: "checkbox", id, "data-facet": facet.name, "data-value": value, onchange: change });
    const amount = h("span", { class: "amount", "data-of": facet.name, "data-code": code });
    return h("li", { hidden: place >= SHOWN_VALUES }, box, h("label", { for: id }, foreign("span", value.replaceAll("_", " "))), amount);
  });
  const list = h("ul", {}, lines);
  const hidden = lines.length - SHOWN_VALUES;
  const more =
    hidden > 0 &&
    h("button", {
      type: "button",
      class: "plain",
      onclick: (event) => {
        for (const line of lines) line.hidden = false;
        event.target.remove();
        lines[SHOWN_VALUES].querySelector("input").focus();
      },
    }, `${hidden} more`);
  return h("fieldset", {}, h("legend", {}, facet.title), list, more);
}

let origins; // the bits that any row has

function hasOrigin(bit) {
  if (origins === undefined) origins = columns.origins.codes.reduce((all, bits) => all | bits, 0);
  return Boolean(origins & (1 << bit));
}

function wordsGroup(change) {
  const input = (id, label) =>
    h("input", { type: "number", id, min: 0, step: 1, inputmode: "numeric", "aria-label": label, onchange: change });
  return h(
    "fieldset",
    { class: "words" },
    h("legend", {}, "Mean words per caption"),
    h("div", {}, input("words-least", "minimum number of words"), "to", input("words-most", "maximum number of words"))
  );
}

/** What the form says, as a state. */
function formState() {
  const state = nothingChosen();
  for (const box of byId("filters").querySelectorAll("input:checked")) {
    const { facet, value } = box.dataset;
    if (facet === "origin") state.origins.push(value);
    else (state.values[facet] = state.values[facet] || []).push(value);
  }
  const number = (id) => {
    const value = parseInt(byId(id).value, 10);
    return Number.isNaN(value) ? null : Math.max(0, value);
  };
  state.words = [number("words-least"), number("words-most")];
  state.query = byId("search").value.trim();
  return state;
}

function showState(state) {
  for (const box of byId("filters").querySelectorAll("input[type=checkbox]")) {
    const { facet, value } = box.dataset;
    box.checked = facet === "origin" ? state.origins.includes(value) : (state.values[facet] || []).includes(value);
    if (box.checked) box.closest("li").hidden = false;
  }
  byId("words-least").value = state.words[0] === null ? "" : state.words[0];
  byId("words-most").value = state.words[1] === null ? "" : state.words[1];
  const search = byId("search");
  const isTyping = document.activeElement === search; // what is typed now is newer than the address
  if (!isTyping && search.value.trim() !== state.query) search.value = state.query;
  byId("clear").hidden = parametersOf({ ...state, page: 1 }).toString() === "";
}

function showCounts(counts) {
  for (const amount of byId("filters").querySelectorAll(".amount")) {
    const number = counts[amount.dataset.of][Number(amount.dataset.code)];
    amount.textContent = count(number);
    amount.closest("li").classList.toggle("none", number === 0);
  }
}

const pagesOf = (chosen) => Math.max(1, Math.ceil(chosen.rows.length / PAGE_ROWS));

function showGallery(state, chosen) {
  const pages = pagesOf(chosen);
  const page = Math.min(state.page, pages);
  const first = (page - 1) * PAGE_ROWS;
  const rows = [...chosen.rows.subarray(first, first + PAGE_ROWS)];
  const total = chosen.rows.length;
  byId("found").textContent = total === report.rows ? `${count(total)} rows` : `${count(total)} of ${count(report.rows)} rows`;
  byId("empty").hidden = total > 0;
  const tiles = rows.map((row, place) => tile(row, state, place === 0));
  byId("tiles").replaceChildren(...tiles);
  showPager(state, page, pages);
  fillTiles(rows, tiles);
}

function tile(row, state, isFirst) {
  const number = row + 1;
  const image = h("img", { src: thumbnailOf(number), alt: "", decoding: "async", loading: "lazy" });
  const badges = badgesOf(row).map(([kind, text]) => h("span", { class: `badge ${kind}` }, text));
  return h(
    "li",
    {},
    h(
      "a",
      { href: addressOf(`row/${number}`, state), tabindex: isFirst ? 0 : -1, "data-row": row },
      h("span", { class: "photo" }, image),
      h("span", { class: "line" }, h("span", { class: "number" }, `${number}`), badges),
      h("span", { class: "snippet", dir: "auto" })
    )
  );
}

/** The few facts of a row that stand on its tile. */
function badgesOf(row) {
  const summary = (name) => {
    const facet = columns.facets.find((one) => one.name === name);
    return facet ? facet.values[facet.codes[row]] : "";
  };
  const found = [];
  const difference = columns.alone.find((one) => one.name === "difference");
  if (difference) found.push(columns.anchors && columns.anchors[row] ? ["contrast", difference.values[difference.codes[row]]] : ["", "anchor"]);
  if (summary("task")) found.push(["", summary("task")]);
  else if (!difference && summary("split")) found.push(["", summary("split")]);
  if (summary("tier")) found.push(["", summary("tier")]);
  return found;
}

async function fillTiles(rows, tiles) {
  await Promise.all(
    rows.map(async (row, place) => {
      const [snippet, isHidden] = await tileOf(row);
      const link = tiles[place].firstChild;
      link.querySelector(".snippet").textContent = snippet || "no caption";
      link.querySelector(".snippet").classList.toggle("soft", !snippet);
      link.querySelector("img").alt = `Row ${row + 1}${snippet ? `: ${snippet}` : ""}`;
      if (isHidden) link.querySelector(".photo").replaceChildren("no picture");
    })
  ).catch(tellFault);
}

async function tileOf(row) {
  const tiles = await load(`tiles/${Math.floor(row / report.tileRows)}`);
  return tiles[row % report.tileRows];
}

function showPager(state, page, pages) {
  const link = (to, text, label) =>
    to < 1 || to > pages || to === page
      ? h("span", { class: "off", "aria-hidden": "true" }, text)
      : h("a", { href: addressOf("rows", { ...state, page: to }), "aria-label": label }, text);
  for (const pager of document.querySelectorAll(".pager")) {
    const field = h("input", {
      type: "number", min: 1, max: pages, value: page, inputmode: "numeric", "aria-label": "page",
      onchange: (event) => {
        const wanted = Math.min(pages, Math.max(1, parseInt(event.target.value, 10) || 1));
        location.hash = addressOf("rows", { ...state, page: wanted });
      },
    });
    pager.hidden = pages === 1;
    pager.replaceChildren(
      link(1, "«", "first page"), link(page - 1, "‹", "previous page"),
      h("span", {}, field, ` of ${count(pages)}`),
      link(page + 1, "›", "next page"), link(pages, "»", "last page")
    );
    pager.querySelectorAll("a")[0]?.setAttribute("data-near", "");
  }
}

// Keys: the tiles are one stop of the tab key; arrows, j and k move within.

function moveTo(link) {
  for (const other of byId("tiles").querySelectorAll("a[tabindex='0']")) other.tabIndex = -1;
  link.tabIndex = 0;
  link.focus();
  link.scrollIntoView({ block: "nearest" });
}

function moveInGallery(key) {
  const links = [...byId("tiles").querySelectorAll("a")];
  if (!links.length) return false;
  const at = links.indexOf(document.activeElement);
  if (at < 0) {
    if (!["j", "ArrowDown", "ArrowRight"].includes(key)) return false;
    moveTo(links.find((link) => link.tabIndex === 0) || links[0]);
    return true;
  }
  const top = links[0].getBoundingClientRect().top;
  const across = Math.max(1, links.filter((link) => Math.abs(link.getBoundingClientRect().top - top) < 4).length);
  const steps = { j: 1, k: -1, ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
  let to = key === "Home" ? 0 : key === "End" ? links.length - 1 : at + (steps[key] || 0);
  if (to >= links.length && at < links.length - 1) to = links.length - 1;
  if (to < 0 || to >= links.length) return turnPage(to < 0 ? -1 : 1);
  moveTo(links[to]);
  return true;
}

/** Goes to the page before or after; the focus goes to its tiles. */
function turnPage(step) {
  const { state, chosen } = shown;
  const page = Math.min(state.page, pagesOf(chosen)) + step;
  if (page < 1 || page > pagesOf(chosen)) return false;
  focusAfter = "tiles";
  location.hash = addressOf("rows", { ...state, page });
  return true;
}
