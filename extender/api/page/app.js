// Asks for the cluster and the last decisions every few seconds, and draws what has changed.

import { Pages, bar, follow, make, mark, say } from "./dom.js";
import * as machines from "./machines.js";
import * as queue from "./queue.js";
import * as words from "./words.js";

const EVERY_MS = 3000;
const STALE_MS = 15000;
const GIVE_UP_MS = 10000;

const find = (selector) => document.querySelector(selector);
const state = { cluster: null, decisions: [], fresh: 0, problem: "", paused: false };
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
    } catch (error) {
      state.problem = error.message;
    }
    age();
  }
  // a cluster so large that an answer takes long is asked less often
  clearTimeout(next);
  next = setTimeout(refresh, Math.max(EVERY_MS, 5 * (performance.now() - began)));
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
  totals(cluster);
  section("waiting", cluster.waiting, (list) => queue.draw(find("#waiting .pods"), list));
  const text = find("#find").value.trim().toLowerCase();
  const nodes = cluster.nodes.filter((node) => machines.wanted(node, find("#show").value, text));
  section("nodes", nodes, (list) => machines.draw(find("#nodes .machines"), list));
  section("quotas", cluster.quotas.flatMap(limits), quotas);
  section("decisions", state.decisions, decisions);
}

function section(name, list, show) {
  const element = find(`#${name}`);
  say(element.querySelector(".count"), list.length ? String(list.length) : "");
  element.querySelector(".empty").hidden = list.length > 0;
  const table = element.querySelector(".scroll:has(thead)");
  if (table) table.hidden = !list.length;
  show(pages[name].of(list));
}

function totals(cluster) {
  const cards = cluster.nodes.flatMap((node) => node.cards);
  const sum = (name) => cards.reduce((total, card) => total + card[name], 0);
  const ill = cards.filter((card) => !card.healthy).length;
  const nodes = cluster.nodes.filter((node) => node.cards.length);
  const out = ["NotReady", "cordoned"].map((name) => [nodes.filter((node) => node.states.includes(name)).length, name]);
  const troubles = out.filter(([number]) => number).map(([number, name]) => `${number} ${name}`);
  const lines = [
    ["Nodes with GPUs", [nodes.length, ...troubles].join(", ")],
    ["GPUs", ill ? `${cards.length}, ${ill} unhealthy` : String(cards.length)],
    ["Compute allocated", `${words.cards(sum("cores_used"))} of ${words.gpus(sum("cores"))}`],
    ["Memory allocated", words.memory(sum("memory_units_used"), sum("memory_units"))],
    ["Waiting pods", String(cluster.waiting.length)],
    ["Violations", violations(cluster.nodes.flatMap((node) => node.pods))],
    ["Policy", cluster.policy],
  ];
  const create = ([name]) => make("div", {}, make("dt", {}, name), make("dd"));
  follow(find("#totals"), lines, ([name]) => name, create, (line, [, value]) => say(line.lastChild, value));
}

/** How many violations stand, and of how many pods. */
function violations(pods) {
  const number = words.violations(pods);
  if (!number) return "none";
  return `${number} in ${words.several(pods.filter((pod) => pod.violations.length).length, "pod")}`;
}

function limits(quota) {
  if (!quota.models.length) return [{ quota, model: { model: "none", cards: 0, used: 0, pods: [] } }];
  return quota.models.map((model) => ({ quota, model }));
}

function quotas(lines) {
  const create = () => make("tr", {}, make("th", { scope: "row" }), make("td"),
    make("td", {}, make("span"), make("div", { class: "bar" })), make("td"), make("td", { class: "wide" }));
  const key = ({ quota, model }) => `${quota.namespace}/${model.model}`;
  follow(find("#quotas tbody"), lines, key, create, (row, { quota, model }) => {
    const [namespace, name, used, pools, largest] = row.children;
    const text = `${model.used} of ${model.cards} GPUs`;
    say(namespace, quota.namespace);
    say(name, model.model);
    say(used.firstChild, text);
    const share = model.cards ? model.used / model.cards : 0;
    bar(used.lastChild, text, [{ key: "used", share, tone: 0, reserved: false }]);
    say(pools, quota.pools.join(", ") || "all");
    say(largest, model.pods.slice(0, 3).map((pod) => `${pod.name} ${pod.cards}`).join(", "));
  });
}

function decisions(list) {
  const create = () => make("tr", {}, ...["", "", "wide", "wide", "wide", ""].map((kind) => make("td", kind ? { class: kind } : {})));
  follow(find("#decisions tbody"), list, (each) => String(each.number), create, (row, each) => {
    const cells = [words.clock(each.time), each.verb, words.title(each), words.wants(each.request),
      outcome(each), words.took(each.seconds)];
    cells.forEach((text, at) => say(row.children[at], text));
  });
}

function outcome(each) {
  const refusals = count(each.reasons);
  const said = [refusals && refusals === each.nodes ? "Refused" : each.outcome];
  if (each.chosen) said.push(words.place(each.chosen));
  else if (each.outcome === "Fits") said.push(`${each.nodes - refusals} of ${each.nodes} nodes`);
  else if (refusals) said.push(words.reasons(each.reasons));
  if (each.message) said.push(each.message);
  return said.join(": ");
}

const count = (counts) => Object.values(counts).reduce((sum, each) => sum + each, 0);

find("#pause").addEventListener("click", (event) => {
  state.paused = !state.paused;
  mark(event.currentTarget, "aria-pressed", String(state.paused));
  age();
  if (!state.paused) refresh();
});
document.addEventListener("visibilitychange", refresh);
for (const name of ["#find", "#show"]) find(name).addEventListener("input", () => {
  pages.nodes.page = 0;
  draw();
});
find(".tools").addEventListener("submit", (event) => event.preventDefault());
setInterval(age, 1000);
refresh();
