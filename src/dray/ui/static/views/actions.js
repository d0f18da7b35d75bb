/**
 * The actions on an object: only those to which the session has the right, and each asks before it acts.
 */
import { answer } from "../base/announcements.js";
import { button, choice, h, labelled } from "../base/dom.js";
import { marksOf } from "../model/fleet.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/routes.js").Route} Route */
/** @typedef {{title: string, text: string, confirm: string, body: () => Record<string, string>, fields?: HTMLElement[], isDangerous?: boolean}} Action */

const TAINT_KEY = "dray.dev/maintenance";

/**
 * @param {Context} context
 * @param {Route} route
 * @param {import("../base/types.js").ObjectPage} page
 */
export function actionsOf(context, route, page) {
  const { session } = context;
  if (!session.canAct) {
    return null;
  }
  return possible(context, route, page).map((action) => button(`${action.title}…`, () => ask(context, action), { class: action.isDangerous && "dangerous" }));
}

/**
 * @param {Context} context
 * @param {Route} route
 * @param {import("../base/types.js").ObjectPage} page
 * @returns {Action[]}
 */
function possible({ session, fleet }, route, page) {
  const { rights } = session;
  const name = route.path.join("/");
  switch (route.view) {
    case "pod":
      return rights.deletePods.some((namespace) => namespace === "*" || namespace === route.path[0]) ? [deletePod(route.path[0], route.path[1])] : [];
    case "node":
      return rights.cordon && fleet.nodes.has(name) ? [cordon(name, Boolean(fleet.nodes.get(name)?.cordoned))] : [];
    case "device": {
      const cell = fleet.cells.get(fleet.cellOf(name) ?? "");
      const isTainted = cell ? marksOf(cell).length > 0 : page.facts.some((fact) => fact.label === "Taint");
      return rights.taintDevices ? [taint(name), ...(isTainted ? [untaint(name)] : [])] : [];
    }
    default:
      return [];
  }
}

/**
 * @param {string} namespace
 * @param {string} name
 * @returns {Action}
 */
function deletePod(namespace, name) {
  return {
    title: "Delete pod",
    text: `Pod ${namespace}/${name} is stopped and deleted. Devices that only it uses become free; if a controller owns the pod, a new one takes its place.`,
    confirm: "Delete",
    isDangerous: true,
    body: () => ({ action: "delete-pod", namespace, name }),
  };
}

/**
 * @param {string} node
 * @param {boolean} isCordoned
 * @returns {Action}
 */
function cordon(node, isCordoned) {
  return isCordoned
    ? { title: "Uncordon", text: `Node ${node} gets new pods again.`, confirm: "Uncordon", body: () => ({ action: "uncordon", node }) }
    : { title: "Cordon", text: `Node ${node} gets no new pods. Pods that run there keep running.`, confirm: "Cordon", body: () => ({ action: "cordon", node }) };
}

/**
 * @param {string} device
 * @returns {Action}
 */
function taint(device) {
  const effect = choice(
    [
      ["NoSchedule", "NoSchedule: no new claim gets it"],
      ["NoExecute", "NoExecute: pods that use it are evicted too"],
    ],
    "NoSchedule",
    () => undefined,
  );
  const key = h("input", { type: "text", value: TAINT_KEY, spellcheck: "false", required: true });
  return {
    title: "Taint",
    text: `A DeviceTaintRule for device ${device} is created. Claims get the device only if they tolerate the taint.`,
    confirm: "Taint",
    isDangerous: true,
    fields: [labelled("Effect", effect), labelled("Key", key)],
    body: () => ({ action: "taint-device", device, key: key.value.trim(), effect: effect.value }),
  };
}

/**
 * @param {string} device
 * @returns {Action}
 */
function untaint(device) {
  return {
    title: "Remove taint",
    text: `DeviceTaintRules for device ${device} that the dashboard created are deleted. Taints that its driver set stay.`,
    confirm: "Remove",
    body: () => ({ action: "untaint-device", device }),
  };
}

/**
 * Asks, and acts if the answer is yes.
 *
 * @param {Context} context
 * @param {Action} action
 */
function ask({ server }, action) {
  const before = document.activeElement;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const confirm = h("button", { type: "submit", class: action.isDangerous ? "dangerous main-action" : "main-action" }, action.confirm);
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, action.title), h("p", null, action.text), action.fields ?? null, problem, h("div", { class: "dialog-actions" }, button("Cancel", () => dialog.close(), { autofocus: true }), confirm));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      const done = await server.post("actions", action.body());
      answer(String(done?.message ?? `${action.title}: done`));
      dialog.close();
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
      confirm.disabled = false;
    }
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement && before.isConnected) {
      before.focus();
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}
