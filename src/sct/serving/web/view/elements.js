// Minimal virtual DOM: views return element descriptions and patch() updates the DOM.
//
// Text always becomes text nodes, never HTML, so captions and file names cannot inject markup.

const SVG = "http://www.w3.org/2000/svg";
const descriptions = new WeakMap();

/**
 * Element description. Special properties: `key` identifies it among siblings, `on` holds event listeners, `css` style
 * properties, `focus` a name for focus requests; the others are attributes.
 */
export function h(tag, properties, ...children) {
  return { tag, properties: properties ?? {}, children: children.flat(Infinity).filter(isRendered) };
}

const isRendered = (child) => child !== null && child !== undefined && child !== false && child !== "";

/** Update the children of an element to match their descriptions. */
export function patch(parent, children) {
  const old = [...parent.childNodes];
  const keyed = new Map(old.filter((node) => keyOf(node) !== undefined).map((node) => [keyOf(node), node]));
  const unkeyed = old.filter((node) => keyOf(node) === undefined);
  const nodes = children.map((child) => {
    const key = child.properties?.key;
    const candidate = key === undefined ? unkeyed.shift() : keyed.get(key);
    return patchNode(candidate, child, parent);
  });
  const current = new Set(nodes);
  for (const node of old) if (!current.has(node)) node.remove();
  nodes.forEach((node, position) => {
    if (parent.childNodes[position] !== node) parent.insertBefore(node, parent.childNodes[position] ?? null);
  });
}

const keyOf = (node) => descriptions.get(node)?.properties.key;

function patchNode(node, child, parent) {
  if (typeof child !== "object") {
    if (node?.nodeType === Node.TEXT_NODE) {
      if (node.data !== String(child)) node.data = String(child);
      return node;
    }
    return document.createTextNode(String(child));
  }
  const isSame = node && descriptions.get(node)?.tag === child.tag;
  const element = isSame ? node : createNode(child.tag, parent);
  setProperties(element, descriptions.get(element)?.properties ?? {}, child.properties);
  descriptions.set(element, child);
  patch(element, child.children);
  if (element.tagName === "SELECT" || element.tagName === "INPUT") setValue(element, child.properties);
  return element;
}

function createNode(tag, parent) {
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

/** One DOM listener per event type, which dispatches to the latest description. */
function listen(element, on) {
  element.listened ??= new Set();
  for (const kind of Object.keys(on)) {
    if (element.listened.has(kind)) continue;
    element.listened.add(kind);
    element.addEventListener(kind, (event) => descriptions.get(element).properties.on?.[kind]?.(event));
  }
}

/** Set the value of an input if it differs. */
function setValue(element, { value, checked }) {
  if (value !== undefined && element.value !== String(value)) element.value = String(value);
  if (checked !== undefined && element.checked !== checked) element.checked = checked;
}

/** Render into an element, keeping the focus when elements move. */
export function render(root, description) {
  const active = document.activeElement;
  patch(root, [description].flat(Infinity).filter(isRendered));
  if (active !== document.activeElement && active?.isConnected && root.contains(active))
    active.focus({ preventScroll: true });
}
