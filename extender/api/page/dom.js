// Elements without markup: every text becomes a text node, so nothing that a pod is called is code.

/** Make an element; `properties` are attributes, children are elements or text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Set a text only where it is another one: a user's selection of it stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set or remove an attribute, only where that is a change. */
export function mark(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

const keys = new WeakMap(); // of the children that follow a list

/**
 * Make a parent's children follow a list. A child stays the same element as long as its key is in
 * the list, so the focus, what is open and where one has scrolled to survive a refresh. What was
 * there first, without a key (a table's head), stays in front.
 */
export function follow(parent, items, key, create, update) {
  const names = new Set(items.map(key));
  const keyed = [...parent.children].filter((child) => keys.has(child));
  // first, so that no other child has to move: one that moves loses the focus
  for (const child of keyed) if (!names.has(keys.get(child))) child.remove();
  const known = new Map(keyed.map((child) => [keys.get(child), child]));
  let before = keyed.find((child) => child.isConnected) ?? null;
  for (const item of items) {
    const name = key(item);
    let child = known.get(name);
    if (!child) {
      child = create(item);
      keys.set(child, name);
    }
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
    update(child, item);
  }
}

/** A bar of parts, each `{key, share, kind}`: a share from 0 to 1, and the classes of its looks. */
export function bar(element, label, parts) {
  mark(element, "role", "img");
  mark(element, "aria-label", label);
  follow(
    element,
    parts,
    (part) => part.key,
    () => make("span"),
    (child, part) => {
      child.style.width = `${Math.min(1, part.share) * 100}%`;
      mark(child, "class", part.kind);
    },
  );
}

/** Draw numbers as a line, from the bottom to the top of a picture of 100 × 20; null is a gap. */
export function line(picture, label, values, top) {
  const step = 100 / Math.max(1, values.length - 1);
  const drawn = values.map((value, at) => {
    if (value === null) return "";
    const pen = (values[at - 1] ?? null) === null ? "M" : "L";
    return `${pen}${(at * step).toFixed(2)},${(19 - (18 * Math.min(value, top)) / (top || 1)).toFixed(2)}`;
  });
  mark(picture, "aria-label", label);
  mark(picture.firstChild, "d", drawn.filter(Boolean).join(" "));
}

const SVG = "http://www.w3.org/2000/svg";

/** Make the picture that `line` draws into. */
export function picture() {
  const made = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ class: "line", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img" }))
    made.setAttribute(name, value);
  made.append(document.createElementNS(SVG, "path"));
  return made;
}

/** Shows a list page by page; `paged.of(list)` returns the present page's part. */
export class Pages {
  constructor(element, size, changed) {
    Object.assign(this, { element, size, changed, page: 0 });
  }

  of(list) {
    const last = Math.max(0, Math.ceil(list.length / this.size) - 1);
    this.page = Math.min(this.page, last);
    this.draw(last, list.length);
    return list.slice(this.page * this.size, (this.page + 1) * this.size);
  }

  draw(last, total) {
    if (!last) return this.element.replaceChildren();
    if (!this.element.firstChild) {
      this.back = this.button("Previous", -1);
      this.next = this.button("Next", 1);
      this.place = make("span", { class: "faint" });
      this.element.append(this.back, this.place, this.next);
    }
    const first = this.page * this.size;
    say(this.place, `${first + 1} to ${Math.min(total, first + this.size)} of ${total}`);
    this.back.disabled = this.page === 0;
    this.next.disabled = this.page === last;
  }

  button(text, step) {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      this.page += step;
      this.changed();
    });
    return button;
  }
}
