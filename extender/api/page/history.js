// The last day: a line of each figure, and what changed in the last hour.

import { follow, line, make, picture, say } from "./dom.js";
import * as words from "./words.js";

const HOUR_SECONDS = 3600;
const MOST_CHANGES = 20;

const LINES = {
  Allocated: {
    value: (point) => point.cores_used,
    top: (points) => Math.max(...points.map((point) => point.cores)),
    text: (point) => `${words.cards(point.cores_used)} of ${words.gpus(point.cores)}`,
  },
  Utilised: {
    value: (point) => point.utilised,
    top: () => 1,
    text: (point) => (point.utilised === null ? "not known" : `${Math.round(point.utilised * 100)} %`),
  },
  "Waiting pods": count("waiting"),
  "Unhealthy GPUs": count("unhealthy"),
  "Free compute that is fragmented": {
    value: (point) => point.fragmented,
    top: () => 1,
    text: (point) => `${Math.round(point.fragmented * 100)} %`,
  },
};

const CHANGES = { nodes: "nodes with GPUs", away: "nodes not ready or cordoned", cards: "GPUs", unhealthy: "unhealthy GPUs" };

function count(name) {
  return {
    value: (point) => point[name],
    top: (points) => Math.max(1, ...points.map((point) => point[name])),
    text: (point) => String(point[name]),
  };
}

/** Draw the points of a day, the oldest first. */
export function draw(section, points) {
  section.querySelector(".empty").hidden = points.length > 0;
  const create = () => make("li", {}, make("span", { class: "faint" }), picture(), make("span"));
  const shown = Object.entries(LINES).filter(([, { value }]) => points.some((point) => value(point) !== null));
  follow(section.querySelector(".lines"), shown, ([name]) => name, create, (item, [name, { value, top, text }]) => {
    const [title, drawing, last] = item.children;
    const first = points[0];
    const now = points[points.length - 1];
    say(title, name);
    say(last, text(now));
    const label = `${name}: ${text(first)} at ${words.clock(first.time * 1000)}, ${text(now)} at ${words.clock(now.time * 1000)}`;
    line(drawing, label, points.map(value), top(points));
  });
  const found = changes(points);
  section.querySelector(".steady").hidden = !points.length || found.length > 0;
  follow(section.querySelector(".changes"), found, (each) => each.key, () => make("li"), (item, each) => say(item, each.text));
}

/** What changed in the last hour, the newest first. */
function changes(points) {
  const from = (points.at(-1)?.time ?? 0) - HOUR_SECONDS;
  const found = [];
  for (let at = 1; at < points.length; at += 1) {
    const [before, after] = [points[at - 1], points[at]];
    if (after.time < from) continue;
    for (const [name, title] of Object.entries(CHANGES))
      if (before[name] !== after[name])
        found.push({ key: `${after.time} ${name}`, text: `${words.clock(after.time * 1000)}: ${title} ${before[name]} → ${after[name]}` });
  }
  return found.reverse().slice(0, MOST_CHANGES);
}
