// Elements from values. Text is always a text node, so no name becomes markup.

/**
 * An element with attributes and children; `on…` attributes are listeners.
 * @param {string} tag
 * @param {Record<string, unknown>} attributes
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...nodesOf(children));
  return element;
}

/**
 * The same in SVG.
 * @param {string} tag
 * @param {Record<string, unknown>} attributes
 * @param {...Child} children
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...nodesOf(children));
  return element;
}

/**
 * @param {Element} element
 * @param {Record<string, unknown>} attributes
 */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function nodesOf(children) {
  return children.flatMap((child) => {
    if (child === null || child === undefined || child === false) return [];
    if (Array.isArray(child)) return nodesOf(child);
    return [child instanceof Node ? child : plain(String(child))];
  });
}

/**
 * The text without what would be obeyed instead of shown: what turns the direction of its
 * neighbours, hides, or breaks a line.
 * @param {string} text
 */
export function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, "\uFFFD");
}

/**
 * Puts other children into an element; what had the focus has it again, found by `data-key`, and
 * what was scrolled stays where it was.
 * @param {Element} element
 * @param {Child[]} children
 */
export function refill(element, children) {
  const held = document.activeElement;
  const key = held !== null && element.contains(held) ? held.getAttribute("data-key") : null;
  const scrolled = element.scrollTop;
  element.replaceChildren(...nodesOf(children));
  element.scrollTop = scrolled;
  if (key === null) return;
  for (const each of element.querySelectorAll("[data-key]")) {
    if (each instanceof HTMLElement && each.dataset["key"] === key) {
      each.focus({ preventScroll: true });
      return;
    }
  }
}

/**
 * The element of this id, which stands in the page.
 * @param {string} id
 */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * A text in which `code` is marked as the master marks it.
 * @param {string} text
 * @returns {Child[]}
 */
export function marked(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : part));
}
