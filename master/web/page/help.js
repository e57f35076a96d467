// The dialog of `?`: the keys, which master this is, and where more is written.

import { Refused, ask } from "./api.js";
import { byId, h, refill } from "./dom.js";
import { t } from "./strings.js";

const KEYS = /** @type {const} */ ([
  ["/", "key_find"],
  ["n", "key_next"],
  ["p", "key_previous"],
  ["j", "key_job"],
  ["↑ ↓ ← →", "key_arrows"],
  ["Shift ↑ ↓ ← →", "key_move"],
  ["Enter", "key_enter"],
  ["+ −", "key_zoom"],
  ["0", "key_all"],
  ["Esc", "key_close"],
  ["?", "key_help"],
]);
/** What each master says of itself, beside its index. */
const OWN = /** @type {const} */ ([
  ["openapi.json", "own_api"],
  ["metrics", "own_metrics"],
  ["plain", "own_plain"],
]);

/** Opens the dialog. What the master says of itself is asked for anew: it may be another by now. */
export function openHelp() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("help"));
  if (dialog.open) return;
  const about = h("p", { class: "quiet", role: "status" }, t("starting"));
  const docs = h("ul", { class: "plain" });
  refill(dialog, [
    h(
      "form",
      { method: "dialog" },
      h("button", { class: "close", "aria-label": t("close"), title: t("close") }, "✕"),
    ),
    h("h2", { id: "help-title" }, t("help")),
    h("h3", {}, t("keys")),
    h(
      "dl",
      { class: "keys" },
      KEYS.map(([keys, words]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, t(words))]),
    ),
    h("h3", {}, t("this_master")),
    about,
    h("h3", {}, t("documentation")),
    docs,
  ]);
  dialog.showModal();
  void tell(about, docs);
}

/**
 * @param {HTMLElement} about
 * @param {HTMLElement} docs
 */
async function tell(about, docs) {
  let version = "";
  let address = "";
  try {
    const { document: index } = await ask("");
    ({ version, docs: address } = index);
    refill(about, [t("master_is", index)]);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    refill(about, [error.message, " ", error.fix]);
  }
  refill(docs, [
    address === ""
      ? h("li", {}, t("docs_release", { version }))
      : h("li", {}, h("a", { href: address, rel: "noreferrer" }, t("docs_site"))),
    OWN.map(([path, words]) => h("li", {}, h("a", { href: path }, t(words)))),
  ]);
}
