// The waiting pods: why each waits and, on demand, what would let it run.

import { follow, make, mark, say } from "./dom.js";
import * as words from "./words.js";

const MOST_NODES = 3; // named of each reason

/** Draw the waiting pods of a page. */
export function draw(list, pods) {
  follow(list, pods, (pod) => pod.uid, create, update);
}

function create(pod) {
  const answer = make("div", { class: "answer", id: `answer-${pod.uid}`, hidden: "" });
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": answer.id });
  const row = make("div", { class: "row" }, make("span", { class: "name" }), make("span", { class: "faint" }), button);
  const item = make("li", {}, row, make("p", { class: "why" }), answer);
  button.addEventListener("click", () => toggle(item));
  return item;
}

function update(item, pod) {
  item.pod = pod;
  const [name, wants, button] = item.firstChild.children;
  say(name, words.title(pod));
  say(wants, words.wants(pod.request));
  say(button, item.querySelector(".answer").hidden ? "What would help?" : "Close");
  mark(button, "aria-label", `${button.textContent} ${words.title(pod)}`);
  say(item.querySelector(".why"), why(pod));
}

function why(pod) {
  if (pod.problem) return `BadRequest: ${pod.problem}`;
  if (pod.gated) return "It has scheduling gates.";
  const refusal = pod.refusal;
  if (refusal) {
    const said = Object.keys(refusal.reasons).length ? words.reasons(refusal.reasons) : refusal.code;
    return `No node of ${refusal.nodes} fits: ${said} (at ${words.clock(refusal.time)})`;
  }
  return pod.scheduler || "No node has refused it; the scheduler has not placed it yet.";
}

async function toggle(item) {
  const answer = item.querySelector(".answer");
  answer.hidden = !answer.hidden;
  mark(item.querySelector("button"), "aria-expanded", String(!answer.hidden));
  update(item, item.pod);
  if (answer.hidden) return;
  answer.replaceChildren(make("p", { class: "faint" }, "Searching"));
  answer.replaceChildren(...(await explain(item.pod)));
}

async function explain(pod) {
  const path = [pod.namespace, pod.name].map(encodeURIComponent).join("/");
  try {
    const response = await fetch(`v1/explain/${path}`);
    const body = await response.json();
    return response.ok ? told(body) : [make("p", { role: "alert" }, body.Error)];
  } catch (error) {
    return [make("p", { role: "alert" }, `No answer: ${error.message}`)];
  }
}

function told(body) {
  const parts = body.notes.map((note) => make("p", {}, note));
  if (body.held) parts.push(make("p", {}, `It holds ${words.place(body.held)}.`));
  if (body.choice) parts.push(make("p", {}, `First choice: ${words.place(body.nodes[body.choice])}.`));
  const answers = Object.entries(body.nodes);
  // a request that is none is told by the note; every node would say the same
  if (!body.fits && answers.some(([, each]) => each.code !== "BadRequest"))
    parts.push(...help(body.changes), make("h3", {}, "What the nodes say"), nodes(answers));
  return parts;
}

function help(changes) {
  if (!changes.length) return [make("p", {}, "No single change would be enough.")];
  const lines = changes.map((change) => {
    const doubt = change.smallest ? "" : " (a smaller change may exist: the search was cut off)";
    return make("li", {}, `${change.text}: then ${words.place(change.placement)}${doubt}`);
  });
  return [make("h3", {}, "It would fit if"), make("ul", {}, ...lines)];
}

function nodes(answers) {
  const groups = new Map();
  for (const [node, { code, message }] of answers) {
    if (!groups.has(code)) groups.set(code, []);
    groups.get(code).push(`${node}: ${message}`);
  }
  const lines = [...groups].map(([code, said]) => {
    const more = said.length > MOST_NODES ? ` and ${said.length - MOST_NODES} more` : "";
    const first = said.slice(0, MOST_NODES).map((text) => make("li", {}, text));
    return make("li", {}, `${said.length} ${code}${more && `, of which ${MOST_NODES}`}`, make("ul", {}, ...first));
  });
  return make("ul", {}, ...lines);
}
