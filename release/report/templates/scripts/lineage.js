// Where a row comes from: entities, what they were made by, and who did it (W3C PROV), drawn.

const KIND = 0, ID = 1, GIST = 2, STATE = 3, ACTIVITY = 4, CALL = 5, PARENTS = 6, DECISIONS = 7;
const BOX = 216, PILL = 204, LINE = 15, PAD = 9;
const BESIDE = 16; // between boxes of a line
const DOWN = 18; // from a thing to what made it
const ROLE = 40; // from there to what it was made from
const DRAWN = 60; // entities in one drawing

async function showLineage(row, detail) {
  const page = await load(`lineage/${Math.floor(row / report.detailRows)}`);
  if (shown.row !== row) return;
  const section = byId("lineage");
  if (!section) return;
  const roots = page.rows[row % report.detailRows];
  if (!roots.length) {
    section.remove();
    return;
  }
  const graph = (chosen) => graphOf(chosen, page);
  const drawing = h("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": "drawing of the lineage" });
  const list = h("details", {}, h("summary", {}, "as a list"));
  const draw = (chosen) => {
    const found = graph(chosen);
    drawing.replaceChildren(drawingOf(found, page));
    list.replaceChildren(h("summary", {}, "as a list"), listOf(found, page));
  };
  const names = ["image", ...detail.captions.map((_, place) => `caption ${place + 1}`)];
  const whole = graph(roots);
  const options = [["all of it", roots], ...roots.slice(0, names.length).map((one, place) => [names[place], [one]])];
  const first = whole.nodes.length <= 16 || options.length < 2 ? 0 : 1;
  const choice = h("select", { id: "lineage-of", onchange: (event) => draw(options[event.target.value][1]) },
    options.map(([name], place) => h("option", { value: place, selected: place === first }, name)));
  section.replaceChildren(
    h("header", {}, h("h2", { id: "lineage-title" }, "Provenance"), h("span", { class: "of" }, h("label", { for: "lineage-of", class: "soft" }, "of "), choice)),
    drawing,
    h("p", { class: "soft legend" },
      h("span", { class: "key entity" }, "entity"), h("span", { class: "key activity" }, "activity"), h("span", { class: "key agent" }, "agent"),
      h("span", {}, "Arrows point to what an entity was made from.")),
    list
  );
  draw(options[first][1]);
}

/** The entities that the roots come from, themselves included, breadth first. */
function graphOf(roots, page) {
  const nodes = new Map();
  const waiting = [...new Set(roots)];
  let left = 0;
  while (waiting.length) {
    const reference = waiting.shift();
    if (nodes.has(reference)) continue;
    if (nodes.size === DRAWN) {
      left += 1;
      continue;
    }
    const entity = page.entities[reference];
    nodes.set(reference, { reference, entity, depth: 0, parents: [] });
    for (const [, parent] of entity[PARENTS]) if (!nodes.has(parent)) waiting.push(parent);
  }
  for (const node of nodes.values()) {
    node.parents = node.entity[PARENTS].filter(([, parent]) => nodes.has(parent)).map(([role, parent]) => ({ role, node: nodes.get(parent) }));
  }
  deepen([...nodes.values()]);
  return { nodes: [...nodes.values()], roots: [...new Set(roots)].map((one) => nodes.get(one)), left };
}

/** Every entity stands one column behind the last of those that were made from it. */
function deepen(nodes) {
  const open = new Map(nodes.map((node) => [node, 0]));
  for (const node of nodes) for (const { node: parent } of node.parents) open.set(parent, open.get(parent) + 1);
  const ready = nodes.filter((node) => open.get(node) === 0);
  while (ready.length) {
    const node = ready.shift();
    for (const { node: parent } of node.parents) {
      parent.depth = Math.max(parent.depth, node.depth + 1);
      open.set(parent, open.get(parent) - 1);
      if (open.get(parent) === 0) ready.push(parent);
    }
  }
}

const agentName = ([, name, revision]) => (revision ? `${name}@${revision}` : name);

/** What things of one column were made by: together where the same was done to the same. */
function makingsOf(nodes, page) {
  const makings = new Map();
  for (const node of nodes) {
    const call = node.entity[CALL];
    const parents = node.parents.map(({ role, node: parent }) => `${role}:${parent.reference}`).sort();
    const key = [node.depth, node.entity[ACTIVITY], call ? call[0] : "", ...parents].join("|");
    if (!makings.has(key)) {
      const [stage, version, agents] = page.activities[node.entity[ACTIVITY]];
      const numbers = [...new Set([...agents, ...(call ? [call[0]] : [])])];
      makings.set(key, { depth: node.depth, stage, version, agents: numbers.map((one) => page.agents[one]), members: [], parents: node.parents });
    }
    makings.get(key).members.push(node);
  }
  return [...makings.values()];
}

function widthOf(text) {
  let width = 0;
  for (const character of text) {
    if (character.codePointAt(0) > 0x2e80) width += 12;
    else if (/[0-9A-Z_@mw]/.test(character)) width += 7.6;
    else width += /[iljtfr.,:;'| -]/.test(character) ? 4.1 : 6.7;
  }
  return width;
}

function cut(text, room) {
  if (widthOf(text) <= room) return text;
  let kept = "";
  for (const character of text) {
    if (widthOf(kept + character) > room - 8) break;
    kept += character;
  }
  return `${kept.trimEnd()}…`;
}

/** A text in at most so many lines, broken between words where there are any. */
function wrapped(text, room, lines) {
  const found = [];
  let rest = text;
  while (rest && found.length < lines) {
    if (found.length === lines - 1 || widthOf(rest) <= room) {
      found.push(cut(rest, room));
      break;
    }
    let end = 0;
    let width = 0;
    let space = -1;
    for (const character of rest) {
      width += widthOf(character);
      if (width > room) break;
      if (character === " ") space = end;
      end += character.length;
    }
    const at = space > 0 ? space : Math.max(end, 1);
    found.push(rest.slice(0, at));
    rest = rest.slice(at).trimStart();
  }
  return found;
}

const VERDICTS = { accept: "accepted", reject: "rejected", edit: "edited", withdraw: "withdrawn" };

const known = (number) => (number === null ? "unknown" : count(number));

function describeEntity(node, page) {
  const entity = node.entity;
  const state = entity[STATE] === "proposed" || entity[STATE] === "accepted" ? "" : ` · ${entity[STATE]}`;
  const decisions = entity[DECISIONS].map(([verdict, agent, reason]) =>
    `${VERDICTS[verdict] || verdict} by ${agentName(page.agents[agent])}${reason ? `: ${reason}` : ""}`);
  const call = entity[CALL];
  const cost = call && call[3] !== null ? `, ${call[3]} ${call[4] || ""}` : "";
  const asked = call ? [`${known(call[1])} + ${known(call[2])} tokens${cost}`] : [];
  return { title: `${entity[KIND].replaceAll("_", " ")}${state}`, id: entity[ID], gist: entity[GIST], decisions, asked };
}

// Lines of boxes below each other: things, what made them, what they were made from, and so on.
// An arrow that goes farther than to the next line passes through gaps that are kept free for it.

function place(graph, page) {
  const makings = makingsOf(graph.nodes, page);
  const depth = Math.max(...graph.nodes.map((node) => node.depth));
  for (const node of graph.nodes) {
    node.summary = describeEntity(node, page);
    node.lines = wrapped(node.summary.gist, BOX - 2 * PAD, 2);
    node.width = BOX;
    node.height = 2 * PAD + LINE * (1 + node.lines.length) + (node.summary.decisions.length ? 4 + LINE * node.summary.decisions.length : 0);
    node.gaps = new Map();
  }
  for (const one of makings) Object.assign(one, { width: PILL, height: 26 + one.agents.length * 21 });
  for (const one of makings) {
    for (const { node } of one.parents) {
      for (let level = one.depth + 1; level < node.depth; level += 1) {
        if (!node.gaps.has(level)) node.gaps.set(level, { over: { width: 8, height: 0 }, under: { width: 8, height: 0 } });
      }
    }
  }
  let y = 1;
  let right = 0;
  for (let level = 0; level <= depth; level += 1) {
    const passing = graph.nodes.filter((node) => node.gaps.has(level));
    const gaps = (place) => passing.map((node) => node.gaps.get(level)[place]);
    const made = makings.filter((one) => one.depth === level - 1);
    const things = level ? graph.nodes.filter((node) => node.depth === level) : graph.roots.filter((node) => node.depth === 0);
    for (const node of level ? things : []) node.wanted = wantedOf(node, level, made);
    for (const node of passing) node.gaps.get(level).over.wanted = wantedOf(node, level, made);
    right = Math.max(right, spread([...things, ...gaps("over")], y, level > 0));
    const tallest = Math.max(...things.map((node) => node.height), 0);
    for (const gap of gaps("over")) gap.height = tallest;
    y += tallest + DOWN;
    const pills = makings.filter((one) => one.depth === level);
    for (const pill of pills) pill.wanted = mean(pill.members.map(centre));
    for (const node of passing) node.gaps.get(level).under.wanted = centre(node.gaps.get(level).over);
    right = Math.max(right, spread([...pills, ...gaps("under")], y, true));
    const deepest = Math.max(...pills.map((one) => one.height), 0);
    for (const gap of gaps("under")) gap.height = deepest;
    y += deepest + (level < depth ? ROLE : 0);
  }
  return { makings, width: right + 2, height: y + 2 };
}

/** Where a thing wants to stand: below what was made from it. */
function wantedOf(node, level, made) {
  const above = made.filter((one) => one.parents.some(({ node: parent }) => parent === node)).map(centre);
  const gap = node.gaps.get(level - 1);
  if (gap) above.push(centre(gap.under));
  return mean(above);
}

const centre = (one) => one.x + one.width / 2;
const mean = (values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : 0);

/** Puts boxes beside each other, near where they want to be; gives where the last one ends. */
function spread(boxes, y, hasWishes) {
  if (hasWishes) boxes.sort((one, other) => one.wanted - other.wanted);
  let x = 1;
  for (const box of boxes) {
    box.y = y;
    box.x = hasWishes ? Math.max(x, box.wanted - box.width / 2) : x;
    x = box.x + box.width + BESIDE;
  }
  if (hasWishes && boxes.length) {
    const over = mean(boxes.map((box) => centre(box) - box.wanted));
    const shift = Math.min(Math.max(0, over), boxes[0].x - 1);
    for (const box of boxes) box.x -= shift;
  }
  return Math.max(0, ...boxes.map((box) => box.x + box.width));
}

const text = (x, y, words, attributes) => s("text", { x, y, ...attributes }, words);

function drawingOf(graph, page) {
  const { makings, width, height } = place(graph, page);
  const lines = [];
  const roles = new Map();
  for (const making of makings) {
    for (const member of making.members) lines.push(path([[centre(member), member.y + member.height], [centre(making), making.y]]));
    for (const { role, node } of making.parents) {
      const points = [[centre(making), making.y + making.height]];
      for (let level = making.depth + 1; level < node.depth; level += 1) {
        const { over, under } = node.gaps.get(level);
        points.push([centre(over), over.y], [centre(over), over.y + over.height]);
        points.push([centre(under), under.y], [centre(under), under.y + under.height]);
      }
      points.push([centre(node), node.y]);
      lines.push(path(points, true));
      if (!roles.has(node)) roles.set(node, new Set());
      roles.get(node).add(role.replaceAll("_", " "));
    }
  }
  const labels = [...roles].map(([node, named]) => text(centre(node) + 8, node.y - 7, cut([...named].join(", "), BOX / 2), { class: "role" }));
  const summary = `${graph.nodes.length} entities and ${makings.length} activities that made them; the list below has the same content`;
  const more = graph.left > 0 && h("p", { class: "soft" }, `and ${count(graph.left)} more`);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0,0.5 L8,4 L0,7.5 z" }))),
    s("g", { class: "lines" }, lines),
    makings.map(drawMaking),
    graph.nodes.map((node) => drawEntity(node, graph.roots.includes(node))),
    labels);
  return h("div", {}, svg, more);
}

/** A line through points, from top to bottom, upright at each of them. */
function path(points, hasArrow) {
  const [[x, y], ...others] = points;
  let drawn = `M${x},${y}`;
  let before = [x, y];
  for (const [nextX, nextY] of others) {
    const bend = (nextY - before[1]) / 2;
    drawn += ` C${before[0]},${before[1] + bend} ${nextX},${nextY - bend} ${nextX},${nextY}`;
    before = [nextX, nextY];
  }
  return s("path", { d: drawn, "marker-end": hasArrow ? "url(#arrow)" : null });
}

function drawEntity(node, isRoot) {
  const { x, y, summary } = node;
  const full = [`${summary.title} ${summary.id}`, summary.gist, ...summary.asked, ...summary.decisions].filter(Boolean).join("\n");
  const room = BOX - 2 * PAD;
  const decisionsFrom = y + PAD + LINE * (1 + node.lines.length) + 4;
  return s("g", { class: isRoot ? "entity root" : "entity" },
    s("title", {}, full),
    s("rect", { x, y, width: BOX, height: node.height, rx: 7 }),
    text(x + PAD, y + PAD + 10, cut(summary.title, room - 66), { class: "kind" }),
    text(x + BOX - PAD, y + PAD + 10, summary.id.slice(0, 8), { class: "id", "text-anchor": "end" }),
    node.lines.map((line, at) => text(x + PAD, y + PAD + 10 + LINE * (at + 1), line, { class: "gist" })),
    summary.decisions.map((line, at) =>
      text(x + PAD, decisionsFrom + 10 + LINE * at, cut(line, room), { class: line.startsWith(VERDICTS.reject) ? "decision against" : "decision" })));
}

function drawMaking(making) {
  const { x, y } = making;
  const name = `${making.stage.replaceAll("_", " ")} v${making.version}`;
  return s("g", {},
    s("g", { class: "activity" }, s("title", {}, name), s("rect", { x, y, width: PILL, height: 26, rx: 13 }), text(x + PILL / 2, y + 17, cut(name, PILL - 34), { "text-anchor": "middle" })),
    making.agents.map((agent, at) => {
      const top = y + 26 + 21 * at;
      return s("g", { class: "agent" }, s("title", {}, `${agent[0]}: ${agentName(agent)}`),
        s("rect", { x: x + 12, y: top + 3, width: PILL - 24, height: 18, rx: 2 }),
        text(x + PILL / 2, top + 16, cut(agentName(agent), PILL - 32), { "text-anchor": "middle" }));
    }));
}

/** The same in words, thing by thing. */
function listOf(graph, page) {
  const lines = graph.nodes.map((node) => {
    const summary = describeEntity(node, page);
    const [stage, version, agents] = page.activities[node.entity[ACTIVITY]];
    const call = node.entity[CALL];
    const who = [...new Set([...agents, ...(call ? [call[0]] : [])])].map((one) => agentName(page.agents[one]));
    const parents = node.entity[PARENTS];
    const from = node.parents.map(({ role, node: parent }) => `${role.replaceAll("_", " ")} ${parent.entity[KIND].replaceAll("_", " ")} ${parent.entity[ID].slice(0, 12)}`);
    if (from.length < parents.length) from.push(`${parents.length - from.length} more`);
    return h("li", {}, h("b", {}, summary.title), " ", h("code", {}, summary.id), summary.gist && [": ", foreign("span", summary.gist)],
      h("ul", {},
        h("li", {}, `made by ${stage.replaceAll("_", " ")} v${version}, ${who.join(", ")}${summary.asked.length ? ` (${summary.asked[0]})` : ""}`),
        from.length > 0 && h("li", {}, `from: ${from.join("; ")}`),
        summary.decisions.map((line) => h("li", {}, line))));
  });
  return h("ul", { class: "lineage-list" }, lines);
}
