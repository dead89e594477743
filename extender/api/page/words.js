// Amounts, times and requests as people say them.

const UNITS_PER_GIB = 4;
const TONES = 6;
const PATTERNS = 3;

/** Hundredths of a card as cards. */
export const cards = (cores) => String(Math.round(cores) / 100);

/** Hundredths of a card as cards, with the word. */
export const gpus = (cores) => `${cards(cores)} GPU${cores === 100 ? "" : "s"}`;

const tenths = (number) => Math.round(number * 10) / 10;

/** Units of 256 MiB as GiB. */
export const gib = (units) => `${tenths(units / UNITS_PER_GIB)} GiB`;

/** A part of an amount of memory: `32 of 80 GiB`, `2 GiB of 1.6 TiB`. */
export function memory(part, whole) {
  const [first, unit] = size(part);
  const [all, largest] = size(whole);
  return `${first}${unit === largest || !part ? "" : ` ${unit}`} of ${all} ${largest}`;
}

const size = (units) => {
  const amount = units / UNITS_PER_GIB;
  return amount < 1024 ? [tenths(amount), "GiB"] : [tenths(amount / 1024), "TiB"];
};

export const title = (pod) => `${pod.namespace}/${pod.name}`;

/** What a pod asks, container by container. */
export function wants(request) {
  if (!request) return "";
  const asked = request.containers.map((each) => {
    if (each.cores >= 100) return `${each.cores / 100} whole GPU${each.cores > 100 ? "s" : ""}`;
    return `${each.cores} % of a GPU with ${gib(each.memory_units)}`;
  });
  const also = [];
  if (request.models.length) also.push(`model ${request.models.join(", ")}`);
  if (request.uuids.length) also.push(`GPU ${request.uuids.join(", ")}`);
  if (request.topology !== "best-effort") also.push(request.topology);
  return [asked.join(" + "), ...also].join(", ");
}

/** How many nodes said what: `3 InsufficientCore, 5 NoCards`. */
export function reasons(counts) {
  const pairs = Object.entries(counts).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return pairs.map(([code, count]) => `${count} ${code}`).join(", ");
}

/** A number of things, with their word. */
export const several = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

/** A part of cards' time: `41 % utilised`; nothing where it isn't known. */
export const utilised = (part) => (part === null ? "" : `${Math.round(part * 100)} % utilised`);

/** How many violations pods stand for. */
export const violations = (pods) => pods.reduce((sum, pod) => sum + pod.violations.length, 0);

/** Day and time, for what may be long ago. */
export const moment = (time) => `${new Date(time).toLocaleDateString()} ${clock(time)}`;

export const clock = (time) => new Date(time).toLocaleTimeString([], { hourCycle: "h23" });

/** Which cards of which node. */
export function place(placement) {
  const minors = placement.containers.map((each) => each.minors.join(",")).filter(Boolean);
  return `${placement.node}, GPU ${minors.join(" + ")}`;
}

export function took(seconds) {
  return seconds < 1 ? `${tenths(seconds * 1000)} ms` : `${tenths(seconds)} s`;
}

/** A span of time in its largest unit: `3 h`. */
export function age(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** What is looked for in a field, for comparisons. */
export const sought = (field) => field.value.trim().toLowerCase();

/** How a namespace is drawn, the same every time: its tone, and its pattern for whom tones don't tell. */
export function look(namespace) {
  let sum = 2166136261; // FNV-1a
  for (const letter of namespace) sum = Math.imul(sum ^ letter.codePointAt(0), 16777619);
  const number = (sum ^ (sum >>> 15)) >>> 0;
  return `t${number % TONES} p${Math.floor(number / TONES) % PATTERNS}`;
}
