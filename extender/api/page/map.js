// The map: every card is a cell, filled as far as it is allocated, with a line as high as it is
// utilised where that is known; those of a node stand together.

import { follow, make, mark, say } from "./dom.js";
import { away, utilised } from "./figures.js";
import * as routes from "./routes.js";
import * as words from "./words.js";

const MOST_NODES = 1000;
const HIGH = 13; // pixels within a cell
const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

/** Draw nodes by pool and model. */
export function draw(section, nodes) {
  const shown = nodes.filter((node) => node.cards.length).slice(0, MOST_NODES);
  const left = nodes.length - shown.length - nodes.filter((node) => !node.cards.length).length;
  say(section.querySelector(".more"), left ? `and ${left} more nodes: search for their names` : "");
  const known = utilised(shown.flatMap((node) => node.cards)) !== null;
  section.querySelector(".legend .utilised").hidden = !known;
  section.querySelector(".legend .unknown").hidden = known;
  const fields = section.querySelector(".fields");
  follow(fields, groups(shown, known), (group) => group.key, createField, updateField);
  const spots = [...fields.querySelectorAll(".spot")];
  if (spots.length && !spots.some((spot) => spot.tabIndex === 0)) spots[0].tabIndex = 0;
}

function groups(nodes, known) {
  const found = new Map();
  for (const node of nodes) {
    const models = [...new Set(node.cards.map((card) => card.model || "unknown model"))].join(", ");
    const key = JSON.stringify([node.pool, models]);
    if (!found.has(key)) found.set(key, { key, pool: node.pool, models, nodes: [] });
    found.get(key).nodes.push({ node, known });
  }
  return [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

function createField() {
  return make("div", { class: "field" }, make("h3"), make("div", { class: "spots" }));
}

function updateField(field, { pool, models, nodes }) {
  const cards = nodes.flatMap(({ node }) => node.cards);
  const part = cards.reduce((sum, card) => sum + card.cores_used, 0) / cards.reduce((sum, card) => sum + card.cores, 0);
  const about = `${words.several(nodes.length, "node")}, ${words.several(cards.length, "GPU")}, ${Math.round(part * 100)} % allocated`;
  const busy = words.utilised(utilised(cards));
  say(field.firstChild, [pool && `pool ${pool}`, models, [about, busy].filter(Boolean).join(", ")].filter(Boolean).join(" · "));
  follow(field.lastChild, nodes, ({ node }) => node.name, createSpot, updateSpot);
}

function createSpot({ node }) {
  return make("a", { class: "spot", tabindex: "-1", href: routes.to("node", [node.name]) });
}

function updateSpot(spot, { node, known }) {
  const states = away(node);
  const levels = node.cards.map((card) => (card.healthy ? Math.round((card.cores_used / card.cores) * 100) : -1));
  // what is known to be idle has a line, too
  const lines = node.cards.map((card) => (card.utilised === null ? 0 : Math.max(1, Math.round(card.utilised * HIGH))));
  const looks = [states, levels, lines, known].join(" ");
  if (spot.dataset.looks === looks) return; // thousands are as they were
  spot.dataset.looks = looks;
  const ill = levels.filter((level) => level < 0).length;
  const free = levels.filter((level) => level >= 0 && level < 100).length;
  const said = [node.name, words.several(levels.length, "GPU"), `${free} with free compute`, ill && `${ill} unhealthy`];
  said.push(known && (words.utilised(utilised(node.cards)) || "utilisation not known"), ...states);
  mark(spot, "aria-label", said.filter(Boolean).join(", "));
  mark(spot, "title", spot.getAttribute("aria-label"));
  spot.classList.toggle("away", states.length > 0);
  spot.replaceChildren(...levels.map((level, at) => createCell(level, lines[at])));
}

function createCell(level, line) {
  const cell = make("i");
  if (level < 0) cell.className = "ill";
  else if (line) cell.className = `utilised u${line}`;
  if (level > 0) cell.style.setProperty("--part", `${level}%`);
  return cell;
}

/** Let the arrow keys move among the nodes: all of them are one stop of the tabulator. */
export function walk(section) {
  section.addEventListener("keydown", (event) => {
    const spots = [...section.querySelectorAll(".spot")];
    const at = spots.indexOf(event.target);
    const next = at < 0 ? undefined : spots[target(spots, at, event.key)];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function target(spots, at, key) {
  if (key === "Home") return 0;
  if (key === "End") return spots.length - 1;
  if (key in STEPS) return at + STEPS[key];
  if (key === "ArrowUp" || key === "ArrowDown") return beside(spots, at, key === "ArrowDown" ? 1 : -1);
  return -1;
}

/** The node nearest in the next row of that direction. */
function beside(spots, at, direction) {
  const here = spots[at].getBoundingClientRect();
  let row = null;
  let best = -1;
  for (let index = at + direction; spots[index]; index += direction) {
    const place = spots[index].getBoundingClientRect();
    if (Math.abs(place.top - here.top) < 1) continue;
    row ??= place.top;
    if (Math.abs(place.top - row) >= 1) break;
    const nearer = best < 0 || Math.abs(place.left - here.left) < Math.abs(spots[best].getBoundingClientRect().left - here.left);
    if (nearer) best = index;
  }
  return best;
}
