// Data, loaded script by script: a page that was opened from the disk may fetch nothing else.

const KEPT = 80; // scripts whose data is kept, beside those that are always needed
const expected = new Map();
const loaded = new Map();

window.loupeReport = (name, value) => {
  const waiting = expected.get(name);
  if (waiting) waiting.resolve(value);
};

/** What the script of this name holds, as a promise. */
function load(name) {
  if (loaded.has(name)) {
    const promise = loaded.get(name);
    loaded.delete(name); // the last used is the last to go
    loaded.set(name, promise);
    return promise;
  }
  const promise = new Promise((resolve, reject) => {
    expected.set(name, { resolve });
    const script = document.createElement("script");
    script.src = `data/${name}.js`;
    script.async = true;
    script.onload = () => {
      script.remove();
      expected.delete(name);
      reject(new Error(`data/${name}.js is empty`)); // of no effect where it was resolved
    };
    script.onerror = () => {
      script.remove();
      expected.delete(name);
      loaded.delete(name);
      reject(new Error(`data/${name}.js is missing`));
    };
    document.head.append(script);
  });
  loaded.set(name, promise);
  forget();
  return promise;
}

function forget() {
  const names = [...loaded.keys()].filter((name) => name.startsWith("rows/") || name.startsWith("lineage/"));
  for (const name of names.slice(0, Math.max(0, names.length - KEPT))) {
    if (name !== "lineage/shared") loaded.delete(name);
  }
}

function bytesOf(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < characters.length; place += 1) bytes[place] = characters.charCodeAt(place);
  return bytes;
}

/** Whole numbers of so many bytes each, the lowest first. */
function numbersOf(text, width) {
  const bytes = bytesOf(text);
  if (width === 1) return bytes;
  const view = new DataView(bytes.buffer);
  const numbers = width === 2 ? new Uint16Array(bytes.length / 2) : new Uint32Array(bytes.length / 4);
  for (let place = 0; place < numbers.length; place += 1) {
    numbers[place] = width === 2 ? view.getUint16(2 * place, true) : view.getUint32(4 * place, true);
  }
  return numbers;
}
