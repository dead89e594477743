// What is wrong in the cluster, the worst first; each chip leads to where it is.

import { follow, make, mark, say } from "./dom.js";
import * as routes from "./routes.js";
import * as words from "./words.js";

/** Draw the chips; a cluster without any has one that says so. */
export function draw(list, cluster, counted) {
  const found = problems(cluster, counted);
  const well = { key: "well", level: "well", sign: "✓", text: "All is well", show: "cards", section: "nodes" };
  follow(list, found.length ? found : [well], (each) => each.key, create, update);
}

function create() {
  return make("li", {}, make("a", {}, make("span", { class: "sign", "aria-hidden": "true" }), make("span")));
}

function update(item, { level, sign, text, show, section }) {
  const link = item.firstChild;
  mark(link, "class", `chip ${level}`);
  mark(link, "href", routes.to("", [], { show }));
  link.dataset.go = section;
  say(link.firstChild, sign);
  say(link.lastChild, text);
}

const bad = { level: "bad", sign: "!" };
const odd = { level: "odd", sign: "•" };

function problems(cluster, { unhealthy, notReady, silent, cordoned, violations }) {
  const over = cluster.quotas.filter((quota) => quota.models.some((each) => each.used > each.cards)).length;
  const waiting = cluster.waiting.length;
  const all = [
    [cluster.unready, { ...bad, key: "unready", text: "no decision can be made", section: "problems" }],
    [cluster.quota_problem, { ...bad, key: "quota", text: "the quota can't be used", section: "problems" }],
    [unhealthy, { ...bad, key: "ill", text: `${words.several(unhealthy, "GPU")} unhealthy`, show: "unhealthy", section: "nodes" }],
    [notReady, { ...bad, key: "away", text: `${words.several(notReady, "node")} not ready`, show: "away", section: "nodes" }],
    [silent, { ...bad, key: "silent", text: `${words.several(silent, "agent")} silent`, show: "away", section: "nodes" }],
    [violations, { ...bad, key: "violations", text: words.several(violations, "violation"), show: "violations", section: "nodes" }],
    [over, { ...bad, key: "over", text: `${words.several(over, "quota")} exceeded`, section: "quotas" }],
    [waiting, { ...odd, key: "waiting", text: `${words.several(waiting, "pod")} waiting${oldest(cluster.waiting)}`, section: "waiting" }],
    [cordoned, { ...odd, key: "cordoned", text: `${words.several(cordoned, "node")} cordoned`, show: "away", section: "nodes" }],
  ];
  return all.filter(([count]) => count).map(([, each]) => each);
}

function oldest(pods) {
  const times = pods.map((pod) => Date.parse(pod.created)).filter(Boolean);
  return times.length ? `, the oldest for ${words.age(Date.now() - times.reduce((a, b) => Math.min(a, b)))}` : "";
}
