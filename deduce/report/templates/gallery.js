"use strict";
// The gallery: unpacks one test set at a time and shows one of its pairs. deduce/report/gallery.py makes the packets.

const gallery = {
  facts: JSON.parse($("gallery-facts").textContent),
  packets: new Map([...document.querySelectorAll(".packet")].map((script) => [script.dataset.seed, script])),
  sets: new Map(), // seed: promise of the unpacked test set
  set: null,
  pair: 0, // row of the set's arrays
};
const className = (number) => gallery.facts.classes[number];
const ADDED = [86, 180, 233];
const REMOVED = [240, 162, 2];
const FILTERS = ["filter-label", "filter-target", "filter-method", "filter-found"];

async function unpack(script) {
  const bytes = Uint8Array.from(atob(script.textContent.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const set = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const array = (name, Kind = Uint8Array) => {
    const [from, size] = set.arrays[name];
    return new Kind(buffer.slice(4 + length + from, 4 + length + from + size)); // a copy is aligned
  };
  set.size = set.shape.reduce((a, b) => a * b, 1);
  set.originals = array("originals");
  for (const [name, method] of Object.entries(set.methods)) {
    method.delta = array(`${name}/delta`);
    if (`${name}/steps` in set.arrays) {
      method.steps = array(`${name}/steps`, Uint32Array);
      method.pixel = array(`${name}/pixel`, Uint32Array);
      method.value = array(`${name}/value`);
      method.begin = [0];
      for (const steps of method.steps) method.begin.push(method.begin.at(-1) + steps);
    }
  }
  return set;
}

function load(seed) {
  const { packets, sets } = gallery;
  if (!sets.has(seed) && packets.has(seed)) sets.set(seed, unpack(packets.get(seed)));
  return sets.get(seed); // undefined if the page has no such test set
}

// Pictures ---------------------------------------------------------------------------------------------------------

const original = (set, pair) => set.originals.subarray(set.image[pair] * set.size, (set.image[pair] + 1) * set.size);

function counterfactual(set, name, pair) {
  const base = original(set, pair);
  const delta = set.methods[name].delta.subarray(pair * set.size, (pair + 1) * set.size);
  return base.map((value, i) => value + delta[i]); // modulo 256, as a Uint8Array adds
}

// The original after the first `count` changes of a method's path.
function frame(set, name, pair, count) {
  const pixels = original(set, pair).slice();
  const { begin, pixel, value } = set.methods[name];
  for (let step = begin[pair]; step < begin[pair] + count; step++) pixels[pixel[step]] = value[step];
  return pixels;
}

function paint(canvas, shape, colour) {
  const [, height, width] = shape;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set([...colour(i), 255], 4 * i);
  context.putImageData(image, 0, 0);
}

function drawImage(canvas, shape, pixels) {
  const plane = shape[1] * shape[2];
  const channel = (i, c) => pixels[i + (shape[0] === 3 ? c * plane : 0)];
  paint(canvas, shape, (i) => [channel(i, 0), channel(i, 1), channel(i, 2)]);
}

// What was added and removed, over a faint original; the square root lets small changes be seen.
function drawChange(canvas, shape, before, after) {
  const plane = shape[1] * shape[2];
  paint(canvas, shape, (i) => {
    let [grey, change] = [0, 0];
    for (let c = 0; c < shape[0]; c++) {
      grey += (0.38 * before[i + c * plane]) / shape[0];
      change += (after[i + c * plane] - before[i + c * plane]) / shape[0];
    }
    const share = Math.sqrt(Math.abs(change) / 255);
    return (change > 0 ? ADDED : REMOVED).map((colour) => grey + share * (colour - grey));
  });
}

// Elements -----------------------------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const picture = (description) => make("canvas", { role: "img", "aria-label": description });
const captioned = (canvas, caption) => make("figure", {}, canvas, make("figcaption", {}, caption));

// A <dl> of [term, text, attributes of the text].
const definitions = (entries) =>
  make("dl", {}, ...entries.flatMap(([term, text, attributes]) => [make("dt", {}, term), make("dd", attributes, text)]));

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => make("option", { value }, text)));
  select.value = chosen;
}

const rounded = (value, decimals) => (value === null || value === undefined ? "–" : value.toFixed(decimals));

// Every number of one method's row: what it is, its text, and its exact value as a title.
function numbers(method, pair) {
  const at = (name) => method[name]?.[pair];
  const attributes = (name) => ({ title: at(name) ?? "not recorded", "data-name": name });
  const known = method.confidence || method.confidence_before;
  const confidence = `${rounded(at("confidence_before"), 3)} → ${rounded(at("confidence"), 3)}`;
  const metrics = Object.entries(gallery.facts.metrics);
  return [
    ["confidence", known ? confidence : "not recorded", attributes("confidence")],
    ["iterations", rounded(at("iterations"), 0), attributes("iterations")],
    ...metrics.map(([name, text]) => [text, rounded(at(name), gallery.facts.decimals[name]), attributes(name)]),
  ];
}

function card(set, name, pair) {
  const method = set.methods[name];
  const text = gallery.facts.methods[name];
  const target = className(set.target[pair]);
  const found = Boolean(method.found[pair]);
  const pixels = counterfactual(set, name, pair);
  const base = original(set, pair);
  const nothing = !found && pixels.every((value) => value === 0);

  const result = picture(`${text}: ${found ? "counterfactual towards" : "end of the failed search for"} ${target}`);
  const change = picture(`${text}: what was added and removed`);
  const show = (state) => {
    drawImage(result, set.shape, state);
    drawChange(change, set.shape, base, state);
  };
  show(pixels);

  const article = make("article", { class: `card ${found ? "" : "failed"}`, "data-method": name });
  const badge = make("span", { class: `badge ${found ? "yes" : "no"}` }, found ? "✓ found" : "✕ not found");
  article.append(make("h4", {}, text, badge));
  const pictures = [captioned(result, found ? "counterfactual" : "where it ended"), captioned(change, "change")];
  article.append(make("div", { class: "pictures" }, ...pictures));
  if (nothing) article.append(make("p", { class: "note" }, "No image was kept of this failed search."));
  if (method.steps && method.steps[pair]) article.append(slider(set, name, pair, show));
  const rows = numbers(method, pair);
  const folded = rows.filter(([, , about]) => gallery.facts.folded.includes(about["data-name"]));
  article.append(definitions(rows.filter((row) => !folded.includes(row))));
  if (folded.length) {
    const more = make("details", {}, make("summary", {}, "more scores"));
    more.append(definitions(folded));
    article.append(more);
  }
  return article;
}

function slider(set, name, pair, show) {
  const steps = set.methods[name].steps[pair];
  const text = gallery.facts.methods[name];
  const label = make("output", {}, `change ${steps} of ${steps}`);
  const range = make("input", { type: "range", min: 0, max: steps, value: steps, "aria-label": `changes by ${text}` });
  const move = (to) => {
    range.value = to;
    label.textContent = `change ${to} of ${steps}`;
    show(frame(set, name, pair, Number(to)));
  };
  range.addEventListener("input", () => move(range.value));
  let timer = 0;
  const play = make("button", { type: "button", "aria-label": `play the changes by ${text}` }, "▶");
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
  };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(range.value) === steps) move(0);
    play.textContent = "❚❚";
    timer = setInterval(() => {
      if (!range.isConnected || Number(range.value) >= steps) return stop();
      move(Number(range.value) + 1);
    }, Math.max(16, Math.min(120, 3000 / steps)));
  });
  return make("div", { class: "slider" }, play, range, label);
}

const rowsOfImage = (set, pair) => [...set.image.keys()].filter((row) => set.image[row] === set.image[pair]);

// Every target of the image: a row per method; pressing a picture chooses it.
function sheet(set, pair) {
  const rows = rowsOfImage(set, pair);
  const head = make("tr", {}, make("th", {}, "target"));
  for (const row of rows) head.append(make("th", { scope: "col" }, className(set.target[row])));
  const table = $("sheet");
  table.replaceChildren(make("thead", {}, head), make("tbody"));
  for (const [name, text] of Object.entries(gallery.facts.methods)) {
    const line = make("tr", {}, make("th", { scope: "row" }, text));
    for (const row of rows) {
      const found = set.methods[name].found[row];
      const canvas = make("canvas", { "aria-hidden": "true" });
      drawImage(canvas, set.shape, counterfactual(set, name, row));
      const attributes = { type: "button", class: found ? "" : "failed", onclick: () => choose(set, row) };
      attributes["aria-label"] = `${text} towards ${className(set.target[row])}, ${found ? "found" : "not found"}`;
      if (row === pair) attributes["aria-current"] = "true";
      line.append(make("td", {}, make("button", attributes, canvas)));
    }
    table.tBodies[0].append(line);
  }
}

// Choosing -----------------------------------------------------------------------------------------------------------

function matches(set, row) {
  const [label, target] = [$("filter-label").value, $("filter-target").value];
  const [method, found] = [$("filter-method").value, $("filter-found").value];
  if (label !== "" && set.labels[set.image[row]] !== Number(label)) return false;
  if (target !== "" && set.target[row] !== Number(target)) return false;
  if (found === "") return true;
  const wanted = Number(found);
  if (method !== "") return set.methods[method].found[row] === wanted;
  const all = Object.values(set.methods).map(({ found }) => found[row]);
  return wanted ? all.every(Boolean) : !all.every(Boolean); // found by all, or not found by at least one
}

const candidates = (set) => [...set.image.keys()].filter((row) => matches(set, row));

function choose(set, pair, link = true) {
  gallery.set = set;
  gallery.pair = pair;
  const image = set.images[set.image[pair]];
  const [label, target] = [set.labels[set.image[pair]], set.target[pair]].map(className);
  $("pick-set").value = set.seed;
  options($("pick-image"), set.images.map((number, i) => [i, `${number} (${className(set.labels[i])})`]), set.image[pair]);
  options($("pick-target"), rowsOfImage(set, pair).map((row) => [row, className(set.target[row])]), pair);
  const found = Object.values(set.methods).filter((method) => method.found[pair]).length;
  const total = Object.keys(set.methods).length;
  $("headline").textContent = `From ${label} to ${target}: found by ${found} of ${total} method${total > 1 ? "s" : ""}`;

  const before = picture(`original: ${label}`);
  drawImage(before, set.shape, original(set, pair));
  const first = make("article", { class: "card original" }, make("h4", {}, "Original"));
  first.append(make("div", { class: "pictures" }, captioned(before, "as it is")));
  first.append(definitions([["label", label], ["target", target], ["test set", set.seed], ["image", image]]));
  $("stage").replaceChildren(first, ...Object.keys(gallery.facts.methods).map((name) => card(set, name, pair)));
  sheet(set, pair);
  count();
  if (link) history.replaceState(null, "", address(set, pair));
}

const address = (set, pair) => `#gallery/${set.seed}/${set.images[set.image[pair]]}/${set.target[pair]}`;

function count() {
  const rows = candidates(gallery.set).length;
  $("filter-count").textContent = `${rows} of ${gallery.set.image.length} pairs of this test set`;
}

function step(by) {
  const rows = candidates(gallery.set);
  if (!rows.length) return say("no pair matches the filter");
  const ahead = by > 0 ? rows.find((row) => row > gallery.pair) : rows.findLast((row) => row < gallery.pair);
  choose(gallery.set, ahead ?? (by > 0 ? rows[0] : rows.at(-1)));
}

async function surprise() {
  for (const seed of [...gallery.packets.keys()].sort(() => Math.random() - 0.5)) {
    const set = await load(seed);
    const rows = candidates(set);
    if (rows.length) return choose(set, rows[Math.floor(Math.random() * rows.length)]);
  }
  say("no pair matches the filter");
}

function refilter() {
  const rows = candidates(gallery.set);
  if (rows.length && !rows.includes(gallery.pair)) choose(gallery.set, rows[0]);
  else count();
}

async function follow() {
  const [place, seed, image, target] = location.hash.slice(1).split("/");
  if (place !== "gallery" || target === undefined) return false;
  const set = await load(seed);
  const pair = find(set, Number(image), Number(target));
  if (pair < 0) {
    say(`the gallery has no image ${image} with target ${target} in test set ${seed}`);
    return false;
  }
  choose(set, pair, false);
  $("gallery").scrollIntoView();
  return true;
}

const find = (set, image, target) =>
  set ? set.image.findIndex((position, row) => set.images[position] === image && set.target[row] === target) : -1;

// One pair of the first method, beside the answer.
function example(set, pair) {
  const [name, text] = Object.entries(gallery.facts.methods)[0];
  if (pair < 0 || !set.methods[name].found[pair]) return;
  const [from, to] = [set.labels[set.image[pair]], set.target[pair]].map(className);
  const [before, change, after] = [picture(`original: ${from}`), picture("what changed"), picture(`${text}'s counterfactual: ${to}`)];
  drawImage(before, set.shape, original(set, pair));
  drawChange(change, set.shape, original(set, pair), counterfactual(set, name, pair));
  drawImage(after, set.shape, counterfactual(set, name, pair));
  const entries = [[before, `seen as ${from}`], [change, "change"], [after, `seen as ${to}`]];
  $("example").append(...entries.map(([canvas, caption]) => captioned(canvas, caption)));
  $("example").href = address(set, pair);
  $("example").hidden = false;
}

async function start() {
  const seeds = [...gallery.packets.keys()];
  if (!seeds.length) throw new Error("this page holds no pictures");
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack the pictures");
  const set = await load(seeds[0]);
  options($("pick-set"), seeds.map((seed) => [seed, seed]), seeds[0]);
  const classes = gallery.facts.classes.map((name, number) => [number, name]);
  options($("filter-label"), [["", "any"], ...classes], "");
  options($("filter-target"), [["", "any"], ...classes], "");
  options($("filter-method"), [["", "any"], ...Object.entries(gallery.facts.methods)], "");
  $("gallery-app").hidden = false;
  $("gallery-status").hidden = true;
  const [, image, target] = gallery.facts.example;
  const first = find(set, image, target);
  example(set, first);
  if (!(await follow())) choose(set, Math.max(first, 0), false);

  $("pick-set").addEventListener("change", async (event) => choose(await load(event.target.value), 0));
  $("pick-image").addEventListener("change", (event) => choose(gallery.set, gallery.set.image.indexOf(Number(event.target.value))));
  $("pick-target").addEventListener("change", (event) => choose(gallery.set, Number(event.target.value)));
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("surprise").addEventListener("click", surprise);
  $("link").addEventListener("click", () => copy(location.href.split("#")[0] + address(gallery.set, gallery.pair), "link"));
  for (const id of FILTERS) $(id).addEventListener("change", refilter);
  $("filter-clear").addEventListener("click", () => {
    for (const id of FILTERS) $(id).value = "";
    refilter();
  });
  $("stage").addEventListener("keydown", (event) => {
    if (event.target !== $("stage") || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    step(event.key === "ArrowLeft" ? -1 : 1);
  });
  addEventListener("hashchange", follow);
  document.body.dataset.ready = "true";
}

start().catch((error) => ($("gallery-status").textContent = `The gallery cannot be shown: ${error.message}.`));
