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
  for (const name of names.slice(0, Math.max(0, names.length - KEPT))) loaded.delete(name);
}
