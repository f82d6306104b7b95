// The page of one row: its image, its texts, what it differs in, and where it comes from.

const ORIGINS = {
  source: "unchanged from the source",
  written: "written here by a person",
  drafted: "drafted by a model",
  edited_draft: "a model’s draft, edited by a person",
  confirmed_draft: "a model’s draft, confirmed by a person",
  edited: "edited by a person",
  rewrite: "rewritten by a model",
  edited_rewrite: "a model’s rewrite, edited by a person",
};
const WAYS = { search: "found by search", edit: "edited" };
const SHOWN_MEMBERS = 24;
const WEB_ADDRESS = /^https?:\/\/\S+$/i; // the only kind that becomes a link

async function detailOf(row) {
  const rows = await load(`rows/${Math.floor(row / report.detailRows)}`);
  return rows[row % report.detailRows];
}

async function showRow(row, state, chosen) {
  const detail = await detailOf(row);
  const group = await groupOf(row);
  if (shown.row !== row) return; // another one was asked for meanwhile
  const number = row + 1;
  const parts = [
    h("header", { class: "row-head" }, heading(number, detail), neighbours(row, state, chosen)),
    h(
      "div",
      { class: "row-body" },
      h("div", {}, picture(number, detail), facts(number, detail)),
      h("div", {}, contrastOf(detail), captionsOf(detail))
    ),
    group,
    report.lineage && h("section", { id: "lineage", class: "card", "aria-labelledby": "lineage-title" }, h("h2", { id: "lineage-title" }, "Provenance"), h("p", { class: "soft", role: "status" }, "loading …")),
  ];
  byId("row").replaceChildren(...parts.filter(Boolean));
  document.title = `Row ${number} – ${report.name}`;
  if (report.lineage) showLineage(row, detail).catch(tellFault);
}

function heading(number, detail) {
  return h("h1", { id: "row-title", tabindex: -1 }, `Row ${number} `, h("small", { class: "soft" }, detail.file_path));
}

/** Links to the rows before and after among those that are chosen, or among all. */
function neighbours(row, state, chosen) {
  const place = placeOf(chosen.rows, row);
  const among = place >= 0 ? chosen.rows : null;
  const at = place >= 0 ? place : row;
  const total = among ? among.length : report.rows;
  const rowAt = (to) => (to < 0 || to >= total ? null : among ? among[to] : to);
  const link = (to, text, label, key) =>
    to === null
      ? h("span", { class: "off", "aria-hidden": "true" }, text)
      : h("a", { href: addressOf(`row/${to + 1}`, state), "aria-label": label, "data-key": key }, text);
  const page = place >= 0 ? Math.floor(place / PAGE_ROWS) + 1 : state.page;
  return h(
    "nav",
    { class: "neighbours", "aria-label": "rows" },
    h("a", { href: addressOf("rows", { ...state, page }), "data-key": "back" }, "↑ gallery"),
    link(rowAt(at - 1), "‹ previous", "previous row", "previous"),
    h("span", { class: "soft" }, `${count(at + 1)} of ${count(total)}${among && total < report.rows ? " matching" : ""}`),
    link(rowAt(at + 1), "next ›", "next row", "next")
  );
}

function placeOf(rows, row) {
  let low = 0;
  let high = rows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (rows[middle] === row) return middle;
    if (rows[middle] < row) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** The image as large as it is in reach: from the release, from previews, or its thumbnail. */
function picture(number, detail) {
  if (detail.withdrawn) return h("figure", { class: "picture none" }, "This image was withdrawn and must no longer be used.");
  if (detail.hidden) return h("figure", { class: "picture none" }, "this image cannot be shown");
  const original = originalOf(detail.file_path);
  const places = [original, report.previews && previewOf(number), thumbnailOf(number)].filter(Boolean);
  const image = h("img", {
    src: places.shift(), alt: detail.captions.length ? detail.captions[0].slice(0, 300) : `image of row ${number}`,
    width: detail.width_px, height: detail.height_px, decoding: "async",
  });
  image.addEventListener("error", () => {
    if (places.length) image.src = places.shift();
  });
  const shownImage = original ? h("a", { href: original, title: "the image itself, in the release" }, image) : image;
  return h("figure", { class: "picture" }, shownImage, h("figcaption", { class: "soft" }, `${detail.width_px} × ${detail.height_px} pixels`));
}

/** The licence that a source states, on the page about the release; of several, each. */
function licenceOf(source) {
  const cards = [...document.querySelectorAll("#about .source")].filter((one) => one.dataset.name === source);
  return [...new Set(cards.map((one) => one.dataset.licence))].join("; ");
}

function facts(number, detail) {
  const crop = detail.crop;
  const page = detail.source_url;
  const lines = [
    ["split", detail.split],
    ["source", detail.source],
    ["identity", `${detail.identity} (id ${detail.id})`],
    ["task", detail.task],
    ["tier", detail.tier],
    ["licence", detail.licence || licenceOf(detail.source)],
    ["creator", detail.creator],
    ["source page", page && WEB_ADDRESS.test(page) ? h("a", { href: page, rel: "noopener noreferrer nofollow", target: "_blank" }, page) : page],
    ["file there", detail.source_file_path],
    ["video", crop && crop.video],
    ["frame", crop && `${count(crop.frame)}, at ${crop.time_seconds.toFixed(2)} s`],
    ["box", crop && `${crop.box_xyxy.map((one) => Math.round(one)).join(", ")} px, score ${crop.score.toFixed(3)}`],
    ["entity", h("code", {}, detail.image_entity_id)],
    ["SHA-256", h("code", {}, detail.sha256)],
  ];
  const summary = lines.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl", { class: "facts" }, summary.map(([name, value]) => [h("dt", {}, name), typeof value === "string" ? foreign("dd", value) : h("dd", {}, value)]));
}

function contrastOf(detail) {
  const contrast = detail.contrast;
  if (!contrast) return null;
  return h(
    "section",
    { class: "card contrast", "aria-label": "difference from the anchor" },
    h("p", { class: "line" }, h("span", { class: "badge contrast" }, contrast.difference), h("span", { class: "soft" }, WAYS[contrast.method] || "")),
    change(contrast)
  );
}

/** The detail of the anchor that differs, and how. */
function change(contrast) {
  return h(
    "p",
    { class: "change" },
    contrast.detail && [foreign("strong", contrast.detail), contrast.plan ? ": " : ""],
    contrast.plan && foreign("span", contrast.plan)
  );
}

function captionsOf(detail) {
  const said = detail.translations || [];
  const captions = detail.captions.map((text, place) => {
    const [origin, reviewed, entity] = [detail.caption_origins[place], detail.caption_reviewed[place], detail.caption_entity_ids[place]];
    return h(
      "li",
      {},
      longText(text),
      said.filter((one) => one.caption === place).map((one) =>
        h("div", { class: "translation" }, longText(one.text, { lang: one.language }), h("p", { class: "summary" }, `${one.language}, by ${one.author}`))
      ),
      h(
        "p",
        { class: "summary" },
        foreign("span", detail.caption_authors[place], { class: "author" }),
        h("span", {}, ORIGINS[origin] || origin),
        h("span", { class: reviewed ? "badge good" : "badge faint" }, reviewed ? "reviewed by a person" : "not reviewed"),
        h("code", { class: "entity", title: entity }, entity.slice(0, 12))
      )
    );
  });
  const coarse = (detail.coarse_captions || []).map((text) => h("li", {}, longText(text)));
  return h(
    "section",
    { class: "captions", "aria-label": "captions" },
    captions.length ? h("ol", {}, captions) : h("p", { class: "soft" }, detail.withdrawn ? "Its texts were withdrawn too." : "This image has no caption."),
    coarse.length > 0 && [h("h2", {}, "Coarse captions that these were made from"), h("ol", { class: "coarse" }, coarse)]
  );
}

/** Rows that belong together: an anchor with its contrastive images, or the images of a person. */
async function groupOf(row) {
  if (columns.anchors) {
    const anchor = columns.anchors[row] || row + 1;
    const members = [anchor - 1];
    columns.anchors.forEach((one, other) => {
      if (one === anchor) members.push(other);
    });
    return members.length > 1 ? groupSection("The group: an anchor and its contrastive images", members, row, true) : null;
  }
  const identity = columns.identities[row];
  const members = [];
  for (let other = row; other >= 0 && columns.identities[other] === identity; other -= 1) members.unshift(other);
  for (let other = row + 1; other < report.rows && columns.identities[other] === identity; other += 1) members.push(other);
  return members.length > 1 ? groupSection("All images of this identity", members, row, false) : null;
}

async function groupSection(title, members, row, contrasts) {
  const at = members.indexOf(row);
  const start = members.length > SHOWN_MEMBERS ? Math.max(0, Math.min(at - SHOWN_MEMBERS / 2, members.length - SHOWN_MEMBERS)) : 0;
  const part = members.slice(start, start + SHOWN_MEMBERS);
  const details = contrasts ? await Promise.all(part.map(detailOf)) : [];
  const items = part.map((one, place) => {
    const contrast = contrasts && details[place].contrast;
    return h(
      "li",
      { class: one === row ? "current" : null },
      h("a", { href: addressOf(`row/${one + 1}`, shown.state), "aria-current": one === row ? "true" : null },
        h("span", { class: "photo" }, h("img", { src: thumbnailOf(one + 1), alt: `Row ${one + 1}`, loading: "lazy", decoding: "async" })),
        h("span", { class: "line" }, h("span", { class: "number" }, `${one + 1}`),
          contrasts && h("span", { class: contrast ? "badge contrast" : "badge" }, contrast ? contrast.difference : "anchor"))),
      contrast && change(contrast)
    );
  });
  const summary = members.length > part.length ? `${title} (${part.length} of ${count(members.length)})` : title;
  return h("section", { class: "card group", "aria-labelledby": "group-title" }, h("h2", { id: "group-title" }, summary), h("ol", { class: "members" }, items));
}
