// What is counted of the cluster, for its figures and for its problems.

import * as words from "./words.js";

/** The states of a node in which it takes no new pods, whatever they tolerate. */
export const away = (node) => ["NotReady", "AgentSilent", "cordoned"].filter((state) => node.states.includes(state));

/** The busy part of the time of all cards that say it, 0 to 1; null: none does. */
export function utilised(cards) {
  const known = cards.filter((card) => card.utilised !== null);
  return known.length ? known.reduce((sum, card) => sum + card.utilised, 0) / known.length : null;
}

/** Count what there is, and what is wrong with it. */
export function counted(cluster) {
  const nodes = cluster.nodes.filter((node) => node.cards.length);
  const cards = nodes.flatMap((node) => node.cards);
  const pods = cluster.nodes.flatMap((node) => node.pods);
  const number = (state) => nodes.filter((node) => node.states.includes(state)).length;
  return {
    nodes: nodes.length,
    notReady: number("NotReady"),
    silent: number("AgentSilent"),
    cordoned: number("cordoned"),
    cards,
    unhealthy: cards.filter((card) => !card.healthy).length,
    violations: words.violations(pods),
    violators: pods.filter((pod) => pod.violations.length).length,
  };
}
