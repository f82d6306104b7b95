// Search: the rows in whose texts all words occur, each as the beginning of a word.

const MAX_CHARACTERS = 40;
const ENTITY_CHARACTERS = 16;
const IDEOGRAPH = "\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff";
const WORD = new RegExp(`[${IDEOGRAPH}]|(?:(?![${IDEOGRAPH}])[\\p{L}\\p{N}])+`, "gu");
const ENTITY = /^[0-9a-f]{32}$/;

/** The words of a query as the index knows them. */
function wordsOf(query) {
  const words = [];
  for (const word of query.normalize("NFKC").toLowerCase().match(WORD) || []) {
    if (ENTITY.test(word)) words.push(`id:${word.slice(0, ENTITY_CHARACTERS)}`);
    else words.push([...word].slice(0, MAX_CHARACTERS).join(""));
  }
  return [...new Set(words)];
}

/** For every row 1 where it is found, else 0; null where nothing is searched for. */
async function search(query) {
  const words = wordsOf(query);
  if (!words.length) return null;
  const masks = await Promise.all(words.map(rowsWith));
  const found = masks[0];
  for (const mask of masks.slice(1)) {
    for (let row = 0; row < found.length; row += 1) found[row] &= mask[row];
  }
  return found;
}

async function rowsWith(beginning) {
  const firsts = report.firstWords;
  let script = 0; // the last one that begins before or with it
  for (let low = 0, high = firsts.length - 1; low <= high; ) {
    const middle = (low + high) >> 1;
    if (firsts[middle] <= beginning) {
      script = middle;
      low = middle + 1;
    } else high = middle - 1;
  }
  const mask = new Uint8Array(report.rows);
  const wanted = [];
  for (; script < firsts.length; script += 1) {
    if (firsts[script] > beginning && !firsts[script].startsWith(beginning)) break;
    wanted.push(load(`words/${script}`));
  }
  for (const { words, rows } of await Promise.all(wanted)) {
    words.forEach((word, place) => {
      if (word.startsWith(beginning)) mark(mask, rows[place]);
    });
  }
  return mask;
}

/** Marks the rows that are written as steps from one to the next. */
function mark(mask, steps) {
  let row = 0;
  for (const step of steps) {
    row += step;
    mask[row] = 1;
  }
}
