// Finds a node or a group by a part of its name.

import { byId, h, refill } from "./dom.js";
import { hashOf } from "./route.js";
import { t } from "./strings.js";

const MOST_FOUND = 30;

/**
 * Makes the field of the head find in the picture that there is then.
 * @param {{picture: () => import("./picture.js").Picture | null,
 *   go: (names: string[]) => void}} of
 */
export function searching(of) {
  const input = /** @type {HTMLInputElement} */ (byId("find"));
  const list = byId("found");
  input.addEventListener("input", () => {
    const picture = of.picture();
    const wanted = input.value.trim().toLowerCase();
    list.hidden = wanted === "" || picture === null;
    if (list.hidden || picture === null) return;
    refill(
      list,
      foundIn(picture, wanted, (name) => {
        list.hidden = true;
        of.go([name]);
      }),
    );
  });
  input.addEventListener("keydown", (event) => {
    const first = list.querySelector("a");
    if (first === null || (event.key !== "ArrowDown" && event.key !== "Enter")) return;
    event.preventDefault();
    if (event.key === "Enter") first.click();
    else first.focus();
  });
}

/**
 * @param {import("./picture.js").Picture} picture
 * @param {string} wanted in small letters
 * @param {(name: string) => void} chosen
 * @returns {Child[]}
 */
function foundIn(picture, wanted, chosen) {
  const nodes = [...picture.nodes.keys()].map((name) => ({ kind: "node", name }));
  const groups = [...picture.groups.keys()].map((name) => ({ kind: "group", name }));
  const all = [...groups, ...nodes].filter(({ name }) => name.toLowerCase().includes(wanted));
  all.sort((one, two) => one.name.length - two.name.length);
  const shown = all
    .slice(0, MOST_FOUND)
    .map(({ kind, name }) =>
      h(
        "li",
        {},
        h(
          "a",
          { href: hashOf(kind, name), onclick: () => chosen(name) },
          h("span", { class: "kind" }, t(kind)),
          h("bdi", {}, name),
        ),
      ),
    );
  return [h("li", { class: "quiet" }, t("found", { n: all.length })), ...shown];
}
