// Elements: text comes into the page as text and never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en-US");

/** A foreign text: its direction is its own and ends with it. */
const foreign = (tag, text, attributes) => h(tag, { dir: "auto", ...attributes }, text);

const LONG = 1200;

/** A text, the rest of which is shown when asked for where it is very long. */
function longText(text, attributes) {
  const paragraph = foreign("p", text.length > LONG ? `${text.slice(0, LONG)}…` : text, attributes);
  if (text.length <= LONG) return [paragraph];
  const button = h("button", { type: "button", class: "plain" }, `show all ${count(text.length)} characters`);
  button.addEventListener("click", () => {
    paragraph.textContent = text;
    button.remove();
    paragraph.tabIndex = -1;
    paragraph.focus();
  });
  return [paragraph, button];
}

const thumbnailOf = (number) => `thumbs/${Math.floor((number - 1) / report.folderImages)}/${number}.jpg`;
const previewOf = (number) => `previews/${Math.floor((number - 1) / report.folderImages)}/${number}.jpg`;

/** Where an image lies in the release beside this folder; null where it does not. */
function originalOf(filePath) {
  if (!report.beside) return null;
  return ["..", ...[report.beside, ...filePath.split("/")].map(encodeURIComponent)].join("/");
}
