// The address says what is looked at: `#/node/gpu1`, `#/pod/research/train`, `#/namespace/research`,
// each with what the controls say behind it: `?show=trouble&find=T4`. Anybody may write an address.

const KINDS = { "": 0, node: 1, pod: 2, namespace: 1 }; // how many names each has

/** Read an address; null where it is a place within the page. One that can't be read is `#/`. */
export function read(hash = location.hash) {
  if (hash && !hash.startsWith("#/")) return null;
  const [path, query] = hash.slice(2).split(/\?(.*)/s);
  const [kind, ...parts] = path.split("/");
  const names = parts.map(decoded);
  const known = Object.hasOwn(KINDS, kind) && names.length === KINDS[kind] && names.every(Boolean);
  return { kind: known ? kind : "", names: known ? names : [], query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return ""; // a percent sign that begins nothing
  }
}

/** Write the address of something. */
export function to(kind = "", names = [], query = {}) {
  const said = Object.entries(query).filter(([, value]) => value);
  const tail = said.length ? `?${new URLSearchParams(said)}` : "";
  return `#/${[kind, ...names].filter(Boolean).map(encodeURIComponent).join("/")}${tail}`;
}

/** Put into the address what the controls say; the way back leads to the last other place. */
export function keep(route, query) {
  history.replaceState(null, "", to(route.kind, route.names, query));
}
