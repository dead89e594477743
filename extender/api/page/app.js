// Asks for the cluster and the last decisions every few seconds, and draws what has changed.

import { Pages, follow, make, mark, say } from "./dom.js";
import * as figures from "./figures.js";
import * as focus from "./focus.js";
import * as history from "./history.js";
import * as machines from "./machines.js";
import * as map from "./map.js";
import * as problems from "./problems.js";
import * as queue from "./queue.js";
import * as routes from "./routes.js";
import * as tables from "./tables.js";
import * as words from "./words.js";

const EVERY_MS = 3000;
const STALE_MS = 15000;
const GIVE_UP_MS = 10000;
const POINT_MS = 60000;

const find = (selector) => document.querySelector(selector);
const controls = Object.fromEntries(
  [...document.querySelectorAll(".tools [name]")].map((each) => [each.name, each]),
);
const state = { cluster: null, decisions: [], points: [], asked: 0, fresh: 0, problem: "", paused: false, route: routes.read("") };
const pages = {
  nodes: new Pages(find("#nodes .pager"), 25, draw),
  waiting: new Pages(find("#waiting .pager"), 20, draw),
  quotas: new Pages(find("#quotas .pager"), 20, draw),
  decisions: new Pages(find("#decisions .pager"), 20, draw),
};

async function ask(path) {
  const response = await fetch(path, { signal: AbortSignal.timeout(GIVE_UP_MS) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
  return response.json();
}

let next = 0;

async function refresh() {
  clearTimeout(next);
  const began = performance.now();
  if (!state.paused && !document.hidden) {
    try {
      const [cluster, last] = await Promise.all([ask("v1/cluster"), ask("v1/decisions")]);
      Object.assign(state, { cluster, decisions: last.decisions, fresh: Date.now(), problem: "" });
      draw();
      await past();
    } catch (error) {
      state.problem = error.message;
    }
    age();
  }
  // a cluster so large that an answer takes long is asked less often
  clearTimeout(next);
  next = setTimeout(refresh, Math.max(EVERY_MS, 5 * (performance.now() - began)));
}

/** Ask for the last day, which has a new point a minute. */
async function past() {
  if (Date.now() - state.asked < POINT_MS) return;
  state.points = (await ask("v1/history")).points;
  state.asked = Date.now();
  history.draw(find("#history"), state.points);
}

/** Say how old the figures are; those that may be wrong by now are drawn faintly. */
function age() {
  const late = state.fresh && !state.paused && Date.now() - state.fresh > STALE_MS;
  const gone = Boolean(state.problem || late);
  const seconds = Math.round((Date.now() - state.fresh) / 1000);
  const when = gone ? `no answer since ${words.clock(state.fresh)}` : `updated ${seconds} s ago`;
  const said = [state.fresh ? when : "no answer yet", state.paused && "paused", state.problem];
  say(find("#status"), said.filter(Boolean).join(" · "));
  find("#status").classList.toggle("stale", gone);
  document.body.classList.toggle("stale", gone || Boolean(state.cluster?.unready));
  warn(gone && state.cluster && `The extender has not answered since ${words.clock(state.fresh)}: the figures below are of that time`);
}

function warn(gone) {
  const { unready, quota_problem } = state.cluster ?? {};
  const said = [
    gone,
    unready && `No decision can be made: ${unready}`,
    quota_problem && `The quota can't be used: ${quota_problem}`,
  ].filter(Boolean).join(". ");
  find("#alarm").hidden = !said;
  say(find("#alarm"), said);
}

function draw() {
  const cluster = state.cluster;
  if (!cluster) return;
  const began = performance.now();
  const counted = figures.counted(cluster);
  problems.draw(find("#problems"), cluster, counted);
  totals(cluster, counted);
  const part = focus.narrowed(state.route, cluster, state.decisions);
  focus.draw(find("#focus"), state.route, part);
  const shown = state.route.kind ? "all" : controls.show.value;
  const nodes = part.nodes.filter((node) => machines.wanted(node, shown, words.sought(controls.find)));
  const rows = queue.grouped(part.waiting, words.sought(controls.pods), controls.order.value);
  find("#map").hidden = state.route.kind === "node";
  map.draw(find("#map"), nodes);
  section("waiting", rows, (list) => queue.draw(find("#waiting table"), list), part.waiting.length);
  section("nodes", nodes, (list) => machines.draw(find("#nodes .machines"), list));
  section("quotas", part.quotas.flatMap(tables.limits), (list) => tables.quotas(find("#quotas tbody"), list));
  section("decisions", part.decisions, (list) => tables.decisions(find("#decisions tbody"), list));
  performance.clearMeasures("draw");
  performance.measure("draw", { start: began });
}

function section(name, list, show, number = list.length) {
  const element = find(`#${name}`);
  say(element.querySelector(".count"), number ? String(number) : "");
  element.querySelector(".empty").hidden = list.length > 0;
  const table = element.querySelector(".scroll:has(thead)");
  if (table) table.hidden = !list.length;
  show(pages[name].of(list));
}

function totals(cluster, counted) {
  const { cards, unhealthy, violations } = counted;
  const sum = (name) => cards.reduce((total, card) => total + card[name], 0);
  const out = [[counted.notReady, "NotReady"], [counted.silent, "AgentSilent"], [counted.cordoned, "cordoned"]];
  const troubles = out.filter(([number]) => number).map(([number, name]) => `${number} ${name}`);
  const busy = figures.utilised(cards);
  const lines = [
    ["Nodes with GPUs", [counted.nodes, ...troubles].join(", ")],
    ["GPUs", unhealthy ? `${cards.length}, ${unhealthy} unhealthy` : String(cards.length)],
    ["Compute allocated", `${words.cards(sum("cores_used"))} of ${words.gpus(sum("cores"))}`],
    ...(busy === null ? [] : [["Utilised", `${Math.round(busy * 100)} %`]]),
    ["Memory allocated", words.memory(sum("memory_units_used"), sum("memory_units"))],
    ["Waiting pods", String(cluster.waiting.length)],
    ["Violations", violations ? `${violations} in ${words.several(counted.violators, "pod")}` : "none"],
    ["Policy", cluster.policy],
  ];
  const create = ([name]) => make("div", {}, make("dt", {}, name), make("dd"));
  follow(find("#totals"), lines, ([name]) => name, create, (line, [, value]) => say(line.lastChild, value));
}

find("#pause").addEventListener("click", (event) => {
  state.paused = !state.paused;
  mark(event.currentTarget, "aria-pressed", String(state.paused));
  age();
  if (!state.paused) refresh();
});
document.addEventListener("visibilitychange", refresh);

/** Show what the address says, with the controls as it has them. */
function visit() {
  const route = routes.read();
  if (!route) return; // a place within the page
  state.route = route;
  for (const [name, control] of Object.entries(controls)) {
    control.value = route.query.get(name) ?? control.dataset.usual ?? "";
    if (!control.value && control.dataset.usual) control.value = control.dataset.usual;
  }
  firstPages();
  draw();
  const items = [...document.querySelectorAll("#nodes .machines > li > details")];
  if (route.kind && items.length <= machines.FEW) for (const each of items) each.open = true;
}

function firstPages() {
  for (const each of Object.values(pages)) each.page = 0;
}

/** Put into the address what differs from what the controls usually say. */
function remember() {
  const said = Object.values(controls).filter((each) => each.value !== (each.dataset.usual ?? ""));
  routes.keep(state.route, Object.fromEntries(said.map((each) => [each.name, each.value])));
  firstPages();
  draw();
}

/** Go to a section of the page: the address stays what it is, or becomes what the link says. */
function go(event) {
  const link = event.target.closest("a[data-go]");
  if (!link) return;
  event.preventDefault();
  if (link.hash.startsWith("#/")) location.hash = link.hash;
  const section = find(`#${link.dataset.go}`);
  section.scrollIntoView();
  section.focus({ preventScroll: true });
}

/** `/` begins a search, as elsewhere; Escape ends it. */
function press(event) {
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    controls.find.focus();
  }
  if (event.key === "Escape" && event.target.type === "search" && !event.target.value) event.target.blur();
}

for (const control of Object.values(controls)) {
  control.addEventListener("input", remember);
  control.addEventListener("change", remember); // some browsers tell of a choice by this alone
}
for (const form of document.querySelectorAll(".tools")) form.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("click", go);
document.addEventListener("keydown", press);
window.addEventListener("hashchange", visit);
map.walk(find("#map"));
focus.listen(find("#focus"));
setInterval(age, 1000);
visit();
refresh();
