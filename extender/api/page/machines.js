// The nodes: one line each, with a small column a card; opened, every card with its pods.

import { cure } from "./answers.js";
import { bar, follow, make, mark, say } from "./dom.js";
import { away } from "./figures.js";
import * as routes from "./routes.js";
import * as words from "./words.js";

const LEVELS = { NV: "l0", PIX: "l1", PXB: "l1", PHB: "l2", NODE: "l2" };
export const FEW = 4; // so many nodes are shown opened
const MOST_STATES = 4; // shown of each node

/** Say whether a node is among what is looked for. */
export function wanted(node, show, text) {
  const shown = {
    all: () => true,
    cards: () => node.cards.length > 0,
    free: () => !closed(node) && node.cards.some((card) => card.healthy && card.cores_used < card.cores),
    trouble: () => node.states.some(broken) || ill(node) || words.violations(node.pods) > 0,
    unhealthy: () => ill(node),
    away: () => closed(node),
    violations: () => words.violations(node.pods) > 0,
  }[show]();
  if (!shown || !text) return shown;
  const names = [node.name, node.pool, ...node.states, ...node.cards.map((card) => card.model)];
  names.push(...node.pods.map(words.title));
  return names.some((name) => name.toLowerCase().includes(text));
}

const ill = (node) => node.cards.some((card) => !card.healthy);

/** Say whether a state is a fault, and not what a person decided. */
const broken = (state) => state === "NotReady" || state === "AgentSilent";

/** Say whether a node takes no new pods, whatever they tolerate. */
const closed = (node) => away(node).length > 0;

/** Draw the nodes of a page. */
export function draw(list, nodes) {
  follow(
    list,
    nodes,
    (node) => node.name,
    (node) => create(node, nodes.length <= FEW),
    update,
  );
}

function create(node, open) {
  const name = make("span", { class: "name" });
  const states = make("span", { class: "states" });
  const about = make("span", { class: "faint about" });
  const minis = make("span", { class: "minis", role: "img" });
  const head = make("span", { class: "head" }, name, states, about, minis);
  const links = make("details", { class: "links" }, make("summary", {}, "How its GPUs are joined"));
  links.append(make("div", { class: "scroll" }, make("table", { class: "matrix" })));
  const inside = make("div", {}, make("div", { class: "cures" }), make("ul", { class: "cards" }), links);
  const details = make("details", open ? { open: "" } : {}, make("summary", {}, head), inside);
  const item = make("li", {}, details);
  for (const each of [details, links]) each.addEventListener("toggle", () => fill(item));
  return item;
}

function update(item, node) {
  item.node = node;
  say(item.querySelector(".name"), node.name);
  const states = node.states.length > MOST_STATES ? [...node.states.slice(0, MOST_STATES), "and more"] : node.states;
  const shown = states.map((state) => ({ key: state, text: state, bad: broken(state) }));
  const violations = words.violations(node.pods);
  // no state has a blank in its name
  if (violations) shown.push({ key: "its violations", text: words.several(violations, "violation"), bad: true });
  follow(item.querySelector(".states"), shown, (state) => state.key, () => make("span"), (element, state) => {
    mark(element, "class", state.bad ? "node-state bad" : "node-state");
    say(element, state.text);
  });
  say(item.querySelector(".about"), about(node));
  const minis = item.querySelector(".minis");
  mark(minis, "aria-label", `${node.cards.length} GPUs: ${node.cards.map(used).join(", ")}`);
  follow(minis, node.cards, key, () => make("span", {}, make("span")), (mini, card) => {
    mark(mini, "class", card.healthy ? "mini" : "mini unhealthy");
    mark(mini, "title", `GPU ${card.minor}: ${used(card)}`);
    mini.firstChild.style.height = `${share(card.cores_used, card.cores) * 100}%`;
  });
  fill(item);
}

const key = (card) => String(card.minor);
const share = (part, whole) => (whole ? Math.min(1, part / whole) : 0);
const used = (card) => [card.healthy ? `${card.cores_used} % allocated` : "unhealthy", words.utilised(card.utilised)].filter(Boolean).join(", ");

function about(node) {
  if (!node.cards.length) return "no GPU";
  const free = node.cards.filter((card) => card.healthy);
  const left = free.reduce((sum, card) => sum + Math.max(0, card.cores - card.cores_used), 0);
  const models = [...new Set(node.cards.map((card) => card.model || "GPU"))].join(", ");
  const said = [`${node.cards.length} × ${models}`, `${words.gpus(left)} ${closed(node) ? "not allocated" : "free"}`];
  if (node.pool) said.push(`pool ${node.pool}`);
  if (node.driver) said.push(`driver ${node.driver}`);
  if (free.length < node.cards.length) said.push(`${node.cards.length - free.length} unhealthy`);
  return said.join(" · ");
}

/** Draw the content of an opened node. */
function fill(item) {
  const node = item.node;
  if (!item.firstChild.open) return;
  advise(item.querySelector(".cures"), troubles(node));
  const held = new Map(node.cards.map((card) => [card.minor, []]));
  for (const pod of node.pods)
    for (const part of pod.cards) held.get(part.minor)?.push({ ...part, pod });
  follow(item.querySelector(".cards"), node.cards, key, createCard, (element, card) =>
    updateCard(element, card, held.get(card.minor)),
  );
  const links = item.querySelector(".links");
  links.hidden = !node.links.length;
  if (links.open) matrix(links.querySelector("table"), node);
}

/** Return the codes of what a person has to mend on a node. */
function troubles(node) {
  const closed = node.cards.filter((card) => !card.healthy);
  const codes = closed.map((card) => (/^(Quarantined|Xid)/.test(card.reason) ? "CardQuarantined" : "CardUnhealthy"));
  if (node.states.includes("AgentSilent")) codes.unshift("AgentSilent");
  return [...new Set(codes)];
}

/** Say what to do about each trouble, and nothing once it is over. */
async function advise(element, codes) {
  const key = codes.join(" ");
  if ((element.dataset.codes ?? "") === key) return;
  element.dataset.codes = key;
  const lines = [];
  for (const code of codes) lines.push(...(await cure(code)));
  if (element.dataset.codes !== key) return; // a later answer has come meanwhile
  element.replaceChildren(...lines);
  if (lines.length < codes.length) delete element.dataset.codes; // asked again at the next drawing
}

function createCard() {
  const gauge = (name) =>
    make("div", { class: `gauge ${name}` }, make("span", {}, name), make("span", { class: "bar" }), make("span"));
  const model = make("p", { class: "model" });
  const state = make("p", { class: "state" });
  return make("li", { class: "card" }, model, state, gauge("compute"), gauge("memory"), make("ul", { class: "tenants" }));
}

function updateCard(element, card, parts) {
  mark(element, "class", card.healthy ? "card" : "card unhealthy");
  mark(element, "title", card.uuid || null);
  const numa = card.numa === null ? "" : ` · NUMA ${card.numa}`;
  const busy = card.utilised === null ? "" : ` · ${words.utilised(card.utilised)}`;
  say(element.querySelector(".model"), `GPU ${card.minor} · ${card.model || "unknown model"}${numa}${busy}`);
  say(element.querySelector(".state"), card.healthy ? "" : `unhealthy: ${card.reason || "no reason given"}`);
  const cores = `${card.cores_used} of ${card.cores} %`;
  const memory = words.memory(card.memory_units_used, card.memory_units);
  drawGauge(element.querySelector(".compute"), cores, parts, (part) => share(part.cores, card.cores));
  drawGauge(element.querySelector(".memory"), memory, parts, (part) =>
    share(part.memory_units, card.memory_units),
  );
  const tenant = () =>
    make("li", {}, make("span", { class: "swatch" }), make("a"), make("span"), make("ul", { class: "violations" }));
  follow(element.querySelector(".tenants"), parts, (part) => part.pod.uid, tenant, updateTenant);
}

function drawGauge(gauge, text, parts, partOf) {
  const shown = parts.map((part) => ({
    key: part.pod.uid,
    share: partOf(part),
    kind: look(part.pod),
  }));
  bar(gauge.children[1], text, shown);
  say(gauge.children[2], text);
}

function updateTenant(element, part) {
  const pod = part.pod;
  const states = [pod.bound ? "" : "reserved", pod.leaving ? "being deleted" : ""].filter(Boolean);
  mark(element.firstChild, "class", `swatch ${look(pod)}`);
  const link = element.children[1];
  mark(link, "href", routes.to("pod", [pod.namespace, pod.name]));
  say(link, words.title(pod));
  const amounts = `: ${part.cores} %, ${words.gib(part.memory_units)}`;
  say(element.children[2], [amounts, ...states].join(" · "));
  const key = (each) => `${each.container} ${each.reason}`;
  follow(element.lastChild, pod.violations, key, () => make("li"), (line, each) =>
    say(line, `${each.reason} (container ${each.container}) since ${words.moment(each.since)}`),
  );
}

const look = (pod) => `${words.look(pod.namespace)}${pod.bound ? "" : " reserved"}`;

function matrix(table, node) {
  const minors = node.cards.map((card) => String(card.minor));
  const rows = [["", ...minors], ...node.links.map((row, at) => [minors[at], ...row])];
  const numbered = rows.map((cells, at) => ({ cells, at }));
  follow(table, numbered, (row) => String(row.at), () => make("tr"), (line, row) => {
    const cells = row.cells.map((text, column) => ({ text, column, row: row.at }));
    follow(line, cells, (cell) => String(cell.column), createCell, updateCell);
  });
}

function createCell({ column, row }) {
  if (row && column) return make("td");
  return make("th", { scope: row ? "row" : "col" });
}

function updateCell(element, { text, column, row }) {
  say(element, row && column ? text : text && `GPU ${text}`);
  if (row && column) mark(element, "class", LEVELS[text.replace(/^NV[0-9]+$/, "NV")] ?? "");
}
