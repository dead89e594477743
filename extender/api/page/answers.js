// What the extender says about one pod: why it waits and what would help, or why it is where it is.

import { make } from "./dom.js";
import * as words from "./words.js";

const MOST_NODES = 3; // named of each reason

/** Put the answer about a pod into an element, when it has come, and what to do about a reason. */
export async function answer(element, pod, code = "") {
  element.replaceChildren(make("p", { class: "faint" }, "Searching"));
  element.replaceChildren(...(await cure(code)), ...(await explain(pod)));
}

let reasons = null; // asked once: they are of the extender's version

/** Return what a reason means and what to do about it, as elements. */
export async function cure(code) {
  if (!code) return [];
  try {
    reasons ??= await (await fetch("v1/reasons")).json();
  } catch {
    return []; // the answer about the pod says what is wrong
  }
  const found = Object.hasOwn(reasons, code) ? reasons[code] : null;
  if (!found) return [];
  return [make("p", { class: "cure" }, make("strong", {}, code), `: ${found.words}. ${found.cure} (${found.page})`)];
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
