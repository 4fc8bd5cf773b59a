"use strict";
// The page around the gallery: theme, sorting, copying, downloads, printing.

const $ = (id) => document.getElementById(id);

function say(text) {
  const toast = $("toast");
  toast.textContent = text;
  toast.classList.add("visible");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => toast.classList.remove("visible"), 1800);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy"); // some browsers close the clipboard to pages from disk
    area.remove();
  }
  say(`${what} copied`);
}

// Theme: that of the system until the reader chooses.
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function remember(key, value) {
  try {
    return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value);
  } catch {
    return null; // a browser may refuse storage to pages from disk
  }
}
if (remember("theme")) document.documentElement.dataset.theme = remember("theme");
$("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  remember("theme", document.documentElement.dataset.theme);
});

// Sorting: by number where both are numbers, else by text; missing values stay last.
function compare(a, b, direction) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const difference = Number(a) - Number(b);
  return direction * (Number.isNaN(difference) ? a.localeCompare(b) : difference);
}
for (const button of document.querySelectorAll("button.sort")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th");
    const column = [...heading.parentElement.children].indexOf(heading);
    const body = heading.closest("table").tBodies[0];
    const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value;
    body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b), direction)));
  });
}

const texts = JSON.parse($("texts").textContent);
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => copy(texts[button.dataset.copy][button.dataset.format], button.textContent));
}

for (const link of document.querySelectorAll("[data-figure]")) {
  link.href = link.closest("figure").querySelector("img").src; // the file holds the picture once, not twice
}

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
