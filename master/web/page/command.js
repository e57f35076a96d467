// A line for a terminal, and the button that copies it.

import { h } from "./dom.js";
import { t } from "./strings.js";

const SAID_MS = 2000;

/** @param {string} line */
export function commandLine(line) {
  const text = h("pre", { tabindex: "0", class: "command" }, line);
  const button = h("button", { type: "button", class: "copy" }, t("copy"));
  button.addEventListener("click", () => void copy(line, text, button));
  return h("section", {}, h("h3", {}, t("command")), text, button);
}

/**
 * Where the browser lets no page write to its clipboard, the line is chosen instead.
 * @param {string} line
 * @param {HTMLElement} text
 * @param {HTMLElement} button
 */
async function copy(line, text, button) {
  try {
    await navigator.clipboard.writeText(line);
    button.textContent = t("copied");
    setTimeout(() => (button.textContent = t("copy")), SAID_MS);
  } catch {
    getSelection()?.selectAllChildren(text);
  }
}
