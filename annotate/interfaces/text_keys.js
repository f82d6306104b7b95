const box = () => parent.document.querySelector(".loupe-write textarea");
const keys = event => {
  const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (event.key === "Enter" && plain && event.target === parent.document.body && box()) {
    event.preventDefault();
    box().focus();
  }
  if (event.key === "Escape" && event.target === box()) box().blur();
};
parent.document.addEventListener("keydown", keys, true);
addEventListener("pagehide", () => parent.document.removeEventListener("keydown", keys, true));
