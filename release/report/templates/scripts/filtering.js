// Which rows are chosen: columns of all rows, walked through once for every change.

let report; // what the index tells
let columns; // facets with their codes, and the numbers of rows

function openColumns(index) {
  report = index;
  const facets = index.facets.map((facet) => ({ ...facet, codes: Uint32Array.from(facet.codes) }));
  columns = {
    facets: facets.filter((facet) => facet.values.length > 2 || someWithout(facet.codes)),
    alone: facets,
    origins: { name: "origin", title: "Origin of captions", values: index.origins.values, codes: Uint8Array.from(index.origins.codes) },
    words: Uint32Array.from(index.words),
    identities: Uint32Array.from(index.identities),
    anchors: index.anchors ? Uint32Array.from(index.anchors) : null,
  };
}

const someWithout = (codes) => codes.includes(0) && codes.some((code) => code > 0);

/** What is chosen before anything is. */
const nothingChosen = () => ({ values: {}, origins: [], words: [null, null], query: "", page: 1 });

/**
 * The rows that all filters let through, and for every value how many rows it would let through if
 * it were the only one of its facet.
 */
function choose(state, found) {
  const rows = report.rows;
  const misses = new Uint8Array(rows);
  const missed = new Uint8Array(rows);
  let test = 0;
  const tests = new Map();
  const apply = (name, passes) => {
    test += 1;
    tests.set(name, test);
    for (let row = 0; row < rows; row += 1) {
      if (!passes(row)) {
        misses[row] += 1;
        missed[row] = test;
      }
    }
  };
  for (const facet of columns.facets) {
    const values = state.values[facet.name];
    if (!values || !values.length) continue;
    const wanted = new Uint8Array(facet.values.length);
    for (const value of values) {
      const code = facet.values.indexOf(value);
      if (code > 0) wanted[code] = 1;
    }
    const codes = facet.codes;
    apply(facet.name, (row) => wanted[codes[row]]);
  }
  if (state.origins.length) {
    let bits = 0;
    for (const origin of state.origins) bits |= 1 << columns.origins.values.indexOf(origin);
    const codes = columns.origins.codes;
    apply("origin", (row) => codes[row] & bits);
  }
  const [least, most] = state.words;
  if (least !== null || most !== null) {
    const words = columns.words;
    const low = least === null ? 0 : least;
    const high = most === null ? Infinity : most;
    apply("words", (row) => words[row] >= low && words[row] <= high);
  }
  if (found) apply("query", (row) => found[row]);
  return { rows: passing(misses), counts: countValues(misses, missed, tests) };
}

function passing(misses) {
  let total = 0;
  for (let row = 0; row < misses.length; row += 1) if (misses[row] === 0) total += 1;
  const rows = new Uint32Array(total);
  let place = 0;
  for (let row = 0; row < misses.length; row += 1) {
    if (misses[row] === 0) {
      rows[place] = row;
      place += 1;
    }
  }
  return rows;
}

function countValues(misses, missed, tests) {
  const counts = {};
  for (const facet of columns.facets) {
    const own = tests.get(facet.name) || 0;
    const found = new Uint32Array(facet.values.length);
    const codes = facet.codes;
    for (let row = 0; row < misses.length; row += 1) {
      if (misses[row] === 0 || (misses[row] === 1 && missed[row] === own)) found[codes[row]] += 1;
    }
    counts[facet.name] = found;
  }
  const own = tests.get("origin") || 0;
  const combinations = new Uint32Array(256);
  const codes = columns.origins.codes;
  for (let row = 0; row < misses.length; row += 1) {
    if (misses[row] === 0 || (misses[row] === 1 && missed[row] === own)) combinations[codes[row]] += 1;
  }
  counts.origin = columns.origins.values.map((_, bit) =>
    combinations.reduce((sum, rows, bits) => sum + (bits & (1 << bit) ? rows : 0), 0)
  );
  return counts;
}

// The address has what is chosen, so that it can be sent and returned to.

function stateOf(parameters) {
  const state = nothingChosen();
  for (const facet of columns.facets) {
    const values = parameters.getAll(facet.name);
    if (values.length) state.values[facet.name] = values;
  }
  state.origins = parameters.getAll("origin").filter((one) => columns.origins.values.includes(one));
  const words = (parameters.get("words") || "").match(/^(\d*)-(\d*)$/);
  if (words) state.words = [words[1], words[2]].map((one) => (one === "" ? null : Number(one)));
  state.query = parameters.get("q") || "";
  state.page = Math.max(1, Math.floor(Number(parameters.get("page"))) || 1);
  return state;
}

function parametersOf(state) {
  const parameters = new URLSearchParams();
  for (const facet of columns.facets) {
    for (const value of state.values[facet.name] || []) parameters.append(facet.name, value);
  }
  for (const origin of state.origins) parameters.append("origin", origin);
  const [least, most] = state.words;
  if (least !== null || most !== null) parameters.set("words", `${least === null ? "" : least}-${most === null ? "" : most}`);
  if (state.query) parameters.set("q", state.query);
  if (state.page > 1) parameters.set("page", state.page);
  return parameters;
}

function addressOf(view, state) {
  const parameters = parametersOf(state).toString();
  return `#/${view}${parameters ? `?${parameters}` : ""}`;
}
