// The waiting pods: those that wait alike in one row, with one piece of advice for all of them.

import { answer } from "./answers.js";
import { follow, make, mark, say } from "./dom.js";
import * as routes from "./routes.js";
import * as words from "./words.js";

const MOST_PODS = 50; // named of each row

const ORDERS = {
  age: (a, b) => a.created - b.created,
  priority: (a, b) => b.priority - a.priority || a.created - b.created,
  number: (a, b) => b.pods.length - a.pods.length || a.created - b.created,
  name: (a, b) => (words.title(a.pods[0]) < words.title(b.pods[0]) ? -1 : 1),
};

/** The rows of waiting pods in which a text occurs, in the order that `order` names. */
export function grouped(pods, text, order) {
  const groups = new Map();
  for (const pod of pods) {
    const key = JSON.stringify([pod.namespace, code(pod), pod.owner, pod.request, pod.problem]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(pod);
  }
  const rows = [...groups].map(([key, members]) => row(key, members));
  return rows.filter((each) => !text || each.text.includes(text)).sort(ORDERS[order]);
}

function row(key, members) {
  const pods = members.sort((a, b) => born(a) - born(b) || (a.name < b.name ? -1 : 1));
  const [oldest] = pods;
  const said = [oldest.namespace, oldest.owner, code(oldest), words.wants(oldest.request), ...pods.map((pod) => pod.name)];
  return {
    key,
    pods,
    created: born(oldest),
    priority: Math.max(...pods.map((pod) => pod.priority)),
    text: said.join(" ").toLowerCase(),
  };
}

/** When a pod was created; one of which that isn't known comes last. */
const born = (pod) => Date.parse(pod.created) || Number.MAX_SAFE_INTEGER;

/** Why a pod waits, in one word. */
function code(pod) {
  if (pod.problem) return "BadRequest";
  if (pod.gated) return "SchedulingGated";
  return pod.refusal?.code ?? "";
}

/** Draw the rows of a page. */
export function draw(table, rows) {
  follow(table, rows, (each) => each.key, create, update);
}

let number = 0;

function create() {
  const id = `answer-${(number += 1)}`;
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": id });
  const cells = ["age", "pods wide", "priority", "wide", "why wide", "wide"].map((name) => make("td", { class: name }));
  const first = make("tr", {}, ...cells, make("td", {}, button));
  const answers = make("div", { class: "answer" });
  const second = make("tr", { id, hidden: "" }, make("td", { colspan: String(cells.length + 1), class: "wide" }, answers));
  const body = make("tbody", {}, first, second);
  button.addEventListener("click", () => toggle(body));
  return body;
}

function update(body, { pods, created, priority }) {
  body.pods = pods;
  const [oldest] = pods;
  const [age, names, level, wants, reason, owner, action] = body.firstChild.children;
  say(age, created === Number.MAX_SAFE_INTEGER ? "" : words.age(Date.now() - created));
  drawNames(names, pods);
  say(level, String(priority));
  say(wants, `${pods.length > 1 ? `${pods.length} × ` : ""}${words.wants(oldest.request)}`);
  say(reason, why(oldest));
  say(owner, oldest.owner);
  const button = action.firstChild;
  say(button, body.lastChild.hidden ? "What would help?" : "Close");
  mark(button, "aria-label", `${button.textContent} ${words.title(oldest)}`);
}

/** Draw the names of a row's pods: of several, on demand. */
function drawNames(cell, pods) {
  const one = pods.length === 1;
  if (cell.dataset.one !== String(one)) {
    cell.dataset.one = String(one);
    const list = make("ul", { class: "names" });
    cell.replaceChildren(one ? list : make("details", {}, make("summary"), list));
    cell.querySelector("details")?.addEventListener("toggle", () => drawNames(cell, cell.closest("tbody").pods));
  }
  const details = cell.querySelector("details");
  if (details) say(details.firstChild, `${pods.length} pods of ${pods[0].namespace}`);
  if (details && !details.open) return; // few are ever opened
  const shown = pods.slice(0, MOST_PODS);
  const link = (pod) => make("li", {}, make("a", { href: routes.to("pod", [pod.namespace, pod.name]) }, words.title(pod)));
  follow(cell.querySelector(".names"), shown, (pod) => pod.uid, link, () => {});
  cell.querySelector(".more")?.remove();
  if (shown.length < pods.length)
    details.append(make("p", { class: "more faint" }, `and ${pods.length - shown.length} more`));
}

function why(pod) {
  if (pod.problem) return `BadRequest: ${pod.problem}`;
  if (pod.gated) return "SchedulingGated: it has scheduling gates.";
  const refusal = pod.refusal;
  if (refusal) {
    const said = Object.keys(refusal.reasons).length ? words.reasons(refusal.reasons) : refusal.code;
    // A count of its own: kube-scheduler leaves out the nodes that its other filters have refused.
    const asked = words.several(refusal.nodes, "node");
    return `Of ${asked} that kube-scheduler asked about, none fits: ${said} (at ${words.clock(refusal.time)})`;
  }
  return pod.scheduler || "No node has refused it; the scheduler has not placed it yet.";
}

async function toggle(body) {
  const [first, second] = body.children;
  second.hidden = !second.hidden;
  const button = first.querySelector("button");
  mark(button, "aria-expanded", String(!second.hidden));
  say(button, second.hidden ? "What would help?" : "Close");
  if (!second.hidden) await answer(second.querySelector(".answer"), body.pods[0], code(body.pods[0]));
}
