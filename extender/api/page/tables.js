// The tables of quotas and of the last decisions.

import { bar, follow, make, mark, say } from "./dom.js";
import * as routes from "./routes.js";
import * as words from "./words.js";

/** The lines of the quotas: one a model. */
export function limits(quota) {
  if (!quota.models.length) return [{ quota, model: { model: "none", cards: 0, used: 0, pods: [] } }];
  return quota.models.map((model) => ({ quota, model }));
}

/** Draw the quotas of a page. */
export function quotas(body, lines) {
  const link = () => make("th", { scope: "row" }, make("a"));
  const create = () => make("tr", {}, link(), make("td"),
    make("td", {}, make("span"), make("div", { class: "bar" })), make("td"), make("td", { class: "wide" }));
  const key = ({ quota, model }) => `${quota.namespace}/${model.model}`;
  follow(body, lines, key, create, (row, { quota, model }) => {
    const [namespace, name, used, pools, largest] = row.children;
    const over = model.used > model.cards;
    const text = `${model.used} of ${model.cards} GPUs${over ? ", exceeded" : ""}`;
    mark(namespace.firstChild, "href", routes.to("namespace", [quota.namespace]));
    say(namespace.firstChild, quota.namespace);
    say(name, model.model);
    say(used.firstChild, text);
    mark(used, "class", over ? "bad" : null);
    const share = model.cards ? model.used / model.cards : Number(over);
    bar(used.lastChild, text, [{ key: "used", share, kind: over ? "over" : words.look(quota.namespace) }]);
    say(pools, quota.pools.join(", ") || "all");
    say(largest, model.pods.slice(0, 3).map((pod) => `${pod.name} ${pod.cards}`).join(", "));
  });
}

/** Draw the decisions of a page. */
export function decisions(body, list) {
  const create = () => make("tr", {}, ...["", "", "wide", "wide", "wide", ""].map((kind) => make("td", kind ? { class: kind } : {})));
  follow(body, list, (each) => String(each.number), create, (row, each) => {
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
