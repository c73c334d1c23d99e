// Views describe what is to be seen as plain values; patch() makes the page look like it, changing only what differs.
//
// Text becomes text nodes and nothing becomes HTML, so whatever a model or a file name holds is only ever read.

const SVG = "http://www.w3.org/2000/svg";
const described = new WeakMap();

/**
 * A description of an element. Of its properties, `key` tells it from its siblings, `on` holds what happens, `css`
 * custom and other style properties, `focus` the name by which it can be given the focus; the rest are attributes.
 */
export function h(tag, properties, ...children) {
  return { tag, properties: properties ?? {}, children: children.flat(Infinity).filter(isSomething) };
}

const isSomething = (child) => child !== null && child !== undefined && child !== false && child !== "";

/** Make the children of an element those that are described. */
export function patch(parent, children) {
  const old = [...parent.childNodes];
  const keyed = new Map(old.filter((node) => keyOf(node) !== undefined).map((node) => [keyOf(node), node]));
  const unkeyed = old.filter((node) => keyOf(node) === undefined);
  const nodes = children.map((child) => {
    const key = child.properties?.key;
    const candidate = key === undefined ? unkeyed.shift() : keyed.get(key);
    return drawn(candidate, child, parent);
  });
  const kept = new Set(nodes);
  for (const node of old) if (!kept.has(node)) node.remove();
  nodes.forEach((node, place) => {
    if (parent.childNodes[place] !== node) parent.insertBefore(node, parent.childNodes[place] ?? null);
  });
}

const keyOf = (node) => described.get(node)?.properties.key;

function drawn(node, child, parent) {
  if (typeof child !== "object") {
    if (node?.nodeType === Node.TEXT_NODE) {
      if (node.data !== String(child)) node.data = String(child);
      return node;
    }
    return document.createTextNode(String(child));
  }
  const isSame = node && described.get(node)?.tag === child.tag;
  const element = isSame ? node : created(child.tag, parent);
  setProperties(element, described.get(element)?.properties ?? {}, child.properties);
  described.set(element, child);
  patch(element, child.children);
  if (element.tagName === "SELECT" || element.tagName === "INPUT") setValue(element, child.properties);
  return element;
}

function created(tag, parent) {
  const isDrawing = tag === "svg" || (parent.namespaceURI === SVG && parent.tagName !== "foreignObject");
  return isDrawing ? document.createElementNS(SVG, tag) : document.createElement(tag);
}

function setProperties(element, before, after) {
  for (const name of Object.keys({ ...before, ...after })) {
    if (name === "key" || name === "value" || name === "checked") continue;
    if (name === "on") listen(element, after.on ?? {});
    else if (name === "css") setStyle(element, before.css ?? {}, after.css ?? {});
    else if (before[name] !== after[name]) setAttribute(element, name === "focus" ? "data-focus" : name, after[name]);
  }
}

function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function setStyle(element, before, after) {
  for (const name of Object.keys({ ...before, ...after })) {
    if (before[name] === after[name]) continue;
    if (after[name] === undefined || after[name] === null) element.style.removeProperty(name);
    else element.style.setProperty(name, String(after[name]));
  }
}

/** One listener for each kind of event, which asks the latest description what to do. */
function listen(element, on) {
  element.listened ??= new Set();
  for (const kind of Object.keys(on)) {
    if (element.listened.has(kind)) continue;
    element.listened.add(kind);
    element.addEventListener(kind, (event) => described.get(element).properties.on?.[kind]?.(event));
  }
}

/** What a person has typed is theirs; the description sets it where it differs. */
function setValue(element, { value, checked }) {
  if (value !== undefined && element.value !== String(value)) element.value = String(value);
  if (checked !== undefined && element.checked !== checked) element.checked = checked;
}

/** Draw into an element, keeping the focus where it was although elements may move. */
export function render(root, description) {
  const active = document.activeElement;
  patch(root, [description].flat());
  if (active !== document.activeElement && active?.isConnected && root.contains(active))
    active.focus({ preventScroll: true });
}
