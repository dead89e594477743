// One node, pod or namespace that the address names: what belongs to it, and ways to pass it on.

import { answer } from "./answers.js";
import { make, mark, say } from "./dom.js";
import * as words from "./words.js";

const NAME = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/; // of the API; what else an address says is no command
const COMMANDS = {
  node: ([name]) => `kubectl describe node ${name}`,
  pod: ([namespace, name]) => `kubectl describe pod --namespace ${namespace} ${name}`,
  namespace: ([name]) => `kubectl get pods --namespace ${name}`,
};

/** The parts of the cluster that belong to what the address names. */
export function narrowed({ kind, names: [first, second] }, cluster, decisions) {
  const { nodes, waiting, quotas } = cluster;
  const here = (pod) => pod.namespace === first && (kind === "namespace" || pod.name === second);
  if (kind === "node") {
    return {
      nodes: nodes.filter((node) => node.name === first),
      waiting: waiting.filter((pod) => pod.nominated === first),
      quotas: [],
      decisions: decisions.filter((each) => each.chosen?.node === first),
    };
  }
  if (!kind) return { nodes, waiting, quotas, decisions };
  return {
    nodes: nodes.filter((node) => node.pods.some(here)),
    waiting: waiting.filter(here),
    quotas: quotas.filter((quota) => quota.namespace === first),
    decisions: decisions.filter(here),
  };
}

/** Draw the head of what the address names. */
export function draw(section, route, part) {
  section.hidden = !route.kind;
  if (section.hidden) return;
  const { kind, names } = route;
  say(section.querySelector("h2"), `${kind[0].toUpperCase()}${kind.slice(1)} ${names.join("/")}`);
  const found = part.nodes.length + part.waiting.length + part.quotas.length;
  const known = kind === "pod" ? "No pod of this name is known that asks for a GPU and has not ended." : `No ${kind} of this name has anything to do with GPUs.`;
  section.querySelector(".unknown").hidden = found > 0;
  say(section.querySelector(".unknown"), known);
  const command = section.querySelector(".command");
  command.hidden = !names.every((name) => NAME.test(name));
  say(command.querySelector("code"), command.hidden ? "" : COMMANDS[kind](names));
  const told = section.querySelector(".answer");
  const wanted = kind === "pod" && found ? names.join("/") : "";
  if (told.dataset.of === wanted) return;
  told.dataset.of = wanted;
  told.hidden = !wanted;
  if (wanted) answer(told, { namespace: names[0], name: names[1] });
}

/** Let the buttons of the head copy the address and the command. */
export function listen(section) {
  const link = section.querySelector(".copy-link");
  link.addEventListener("click", () => copy(link, location.href));
  const button = section.querySelector(".command button");
  button.addEventListener("click", () => copy(button, section.querySelector("code").textContent));
}

async function copy(button, text) {
  const before = button.dataset.says ?? button.textContent;
  button.dataset.says = before;
  say(button, (await copied(text)) ? "Copied" : "Not copied");
  setTimeout(() => say(button, before), 2000);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // without TLS a browser has no clipboard, and copies a selection only
    const field = make("textarea", { class: "away", "aria-hidden": "true" }, text);
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
